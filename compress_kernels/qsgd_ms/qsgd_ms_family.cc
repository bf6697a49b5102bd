// qsgd-ms: two to four grids, of which each value gets the finest that fits it on all ranks. The
// kernels are those of qsgd.
#include <charconv>
#include <vector>

#include "compress_kernels/codec_family.h"
#include "compress_kernels/qsgd/options.h"
#include "compress_kernels/qsgd/qsgd_codec.h"

namespace ringpress::compress_kernels::qsgd_ms {
namespace {

/// The numbers of "a/b/c"; empty if it is anything else.
std::vector<int> parse_list(std::string_view text) {
  std::vector<int> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    int number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc()) return {};
    numbers.push_back(number);
    if (next == end) return numbers;
    if (*next != '/') return {};
    at = next + 1;
  }
}

bool accepts_bits(std::string_view text) {
  const std::vector<int> bits = parse_list(text);
  if (bits.size() < 2 || bits.size() > qsgd::kMostGrids) return false;
  for (std::size_t j = 1; j < bits.size(); ++j) {
    if (bits[j] <= bits[j - 1]) return false;
  }
  return bits.front() >= 1 && bits.front() <= qsgd::kMostTransportBits &&
         bits.back() <= qsgd::kMostBits;
}

qsgd::Parameters parameters_of(const CodecEntry&, const ParameterValues& values, DType dtype) {
  qsgd::Parameters parameters = qsgd::parameters_of(values);
  parameters.dtype = dtype;
  parameters.grids = 0;
  for (const int bits : parse_list(values.text("bits"))) {
    parameters.steps[parameters.grids++] = qsgd::steps_of(bits);
  }
  return parameters;
}

std::unique_ptr<Codec> make(CodecIdentity identity, const CodecEntry& entry,
                            const ParameterValues& values) {
  const qsgd::Parameters parameters = parameters_of(entry, values, identity.dtype);
  return qsgd::make_qsgd_codec(std::move(identity), parameters);
}

/// A value is on the coarsest grid at worst.
ErrorBound error_bound(const CodecEntry&, const ParameterValues& values) {
  return qsgd::bound_of(values, qsgd::steps_of(parse_list(values.text("bits")).front()));
}

bool is_widest_step_the_norm(const ParameterValues& values) {
  return parse_list(values.text("bits")).front() == 1;
}

/// With 1 bit the widest step is the norm.
bool refuses_feedback(const CodecEntry&, const ParameterValues& values) {
  return is_widest_step_the_norm(values);
}

/// Rounded towards zero, the largest values would be zero in each call.
Status settle(const CodecEntry&, ParameterValues& values) {
  if (is_widest_step_the_norm(values) && values.text("round") == "zero") {
    return Status(Code::kInvalidArgument,
                  "codec parameter bits=" + values.text("bits") +
                      ": with round=zero the first is 2 to 8, 1 would send zeros (maybe 4/8?)");
  }
  return qsgd::settle(values);
}

}  // namespace

const CodecFamily& family() {
  static const CodecFamily& kFamily = *new CodecFamily{
      .parameters = qsgd::rules_with(
          {"bits", "4/8",
           "2 to 4 ascending widths, the first from 1 to 8, the last at most 16, as in "
           "4/8 or 6/10/16",
           accepts_bits}),
      .settle = settle,
      .make = make,
      .error_bound = error_bound,
      .refuses_feedback = refuses_feedback,
      .plan_for_device = plan_of<DeviceFamilyId::kQsgd, parameters_of>,
      .unbiased = "round=stochastic",
      .variants = {"bits=6/10/16", "bits=2/6,block=32,round=zero", "bits=1/2/3/4,norm=global",
                   "bits=8/16,norm=global"},
      .examples =
          {
              {"qsgd-ms", "as `qsgd`, for values of very different sizes within a block"},
          },
  };
  return kFamily;
}

}  // namespace ringpress::compress_kernels::qsgd_ms
