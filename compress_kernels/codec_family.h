// What a folder of codecs tells the registry. A new codec is a folder that defines `family()` and a
// line in codecs.inc; registry, tests, fuzzer, golden files and codec_perf find it there.
#ifndef COMPRESS_KERNELS_CODEC_FAMILY_H_
#define COMPRESS_KERNELS_CODEC_FAMILY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compress_kernels/device_plan.h"
#include "compress_kernels/factory.h"
#include "compress_kernels/isa.h"
#include "compress_kernels/kernel_codec.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/status.h"

namespace ringpress::compress_kernels {

struct CodecFamily;

/// One line of codecs.inc.
struct CodecEntry {
  std::string_view name;
  const CodecFamily* family = nullptr;
  int bits = 0;  // On the wire per value; 0: those of the element.
};

/// One "name=value" that a codec takes.
struct ParameterRule {
  std::string_view name;
  std::string_view default_value;  // Empty: settle() fills it in, or there is none.
  std::string_view allowed;        // For messages: "a power of two from 32 to 1024", "0 or 1".
  /// Null: a value is one of the words that `allowed` lists.
  bool (*accepts)(std::string_view value) = nullptr;
};

/// The values of all parameters of one codec, in the order of its rules.
class ParameterValues {
 public:
  ParameterValues() = default;
  explicit ParameterValues(const std::vector<ParameterRule>& rules);

  /// The value of a parameter that the rules have.
  const std::string& text(std::string_view name) const;
  std::size_t number(std::string_view name) const;
  void set(std::string_view name, std::string_view value);
  /// ":a=1,b=2"; parameters without a value are left out.
  std::string to_string() const;

 private:
  struct Value {
    std::string_view name;
    std::string text;
  };
  std::vector<Value> values_;
};

/// The largest error that one encoding makes in a finite block, as a sum of shares.
struct ErrorBound {
  double of_value = 0;      // For one value x: times |x|.
  double of_magnitude = 0;  // Times the largest |x| of its block.
  double of_range = 0;      // Times (largest x - smallest x) of its block.
  double absolute = 0;
  double of_norm = 0;     // Of a block: l2 norm of all errors, times the l2 norm of its values.
  std::size_t block = 1;  // Elements that share a scale.
};

/// A row of the table in codecs.md, in words for people.
struct CodecExample {
  std::string_view specification;
  std::string_view when_to_use;
  std::string_view memory = "none";  // Kept per value from call to call, besides a residual.
};

/// Nothing: there are no kernels for these parameters.
using DevicePlanner = std::optional<DevicePlan> (*)(const CodecEntry& entry,
                                                    const ParameterValues& values, DType dtype);

/// The plan of kernels that take what parameters_of(entry, values, dtype) returns.
template <DeviceFamilyId id, auto parameters_of>
std::optional<DevicePlan> plan_of(const CodecEntry& entry, const ParameterValues& values,
                                  DType dtype) {
  return DevicePlan{id, PlanParameters(parameters_of(entry, values, dtype))};
}

struct CodecFamily {
  std::vector<ParameterRule> parameters{};
  /// Checks values against each other and fills in those that depend on others. May be null.
  Status (*settle)(const CodecEntry& entry, ParameterValues& values) = nullptr;
  std::unique_ptr<Codec> (*make)(CodecIdentity identity, const CodecEntry& entry,
                                 const ParameterValues& values) = nullptr;
  ErrorBound (*error_bound)(const CodecEntry& entry, const ParameterValues& values) = nullptr;
  /// True for unbiased forms that keep no residual, and those of which an encoding may lose as much
  /// as it was given: error feedback would make each call far less accurate, and what it keeps may
  /// even grow without end. Null: never.
  bool (*refuses_feedback)(const CodecEntry& entry, const ParameterValues& values) = nullptr;
  /// Null: never.
  FeedbackNeed (*feedback_need)(const CodecEntry& entry, const ParameterValues& values) = nullptr;
  /// Which kernels of a device make the same bytes, and, for codecs with a projection(), which
  /// project. Null: none.
  DevicePlanner plan_for_device = nullptr;
  DevicePlanner plan_projection = nullptr;
  /// The parameter that a stream decides where it is left open, such as "select=chunk": what is
  /// asked for in a stream has a size that the host knows. Null: there is none.
  const char* in_streams = nullptr;
  /// Takes every type and reduction (others: the compressible types, sum and avg).
  bool takes_everything = false;
  /// The parameters of the form whose errors have mean zero over repeated calls, such as
  /// "round=stochastic"; "" if that is so whatever the parameters. Null: there is no such form.
  const char* unbiased = nullptr;
  /// Parameters beside the defaults that tests, fuzzers and golden files hold to the contract,
  /// such as "block=64,round=stochastic".
  std::vector<std::string> variants{};
  std::vector<CodecExample> examples{};
};

/// For CodecFamily::feedback_need.
inline FeedbackNeed always_needs_feedback(const CodecEntry&, const ParameterValues&) {
  return FeedbackNeed::kNeeded;
}

/// For ParameterRule::accepts.
bool is_block(std::string_view text);  // A power of two from 32 to 1024.
/// The number that the whole text spells; NaN, which lies in no range, if it spells none.
double decimal_of(std::string_view text);

/// A codec that runs selected_kernels().
template <template <typename> class FormsOf = SameForms, typename Parameters>
std::unique_ptr<Codec> make_kernel_codec(
    CodecIdentity identity, const Parameters& parameters, const KernelTable<Parameters>& reference,
    const KernelTable<Parameters>* (*simd)(std::int64_t) = nullptr) {
  return std::make_unique<KernelCodec<Parameters, FormsOf<Parameters>>>(
      std::move(identity), parameters, selected_kernels(reference, simd));
}

}  // namespace ringpress::compress_kernels

#endif  // COMPRESS_KERNELS_CODEC_FAMILY_H_
