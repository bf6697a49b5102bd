// What a rank says of the sums of a step, and what comes of it when all have said so.
#ifndef NCCL_PLUGIN_SESSION_CALLS_CLASS_BALLOT_H_
#define NCCL_PLUGIN_SESSION_CALLS_CLASS_BALLOT_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace ringpress::nccl_plugin {

/// Of sums of one shape: gradients, or what speaks against it most.
enum class Verdict : std::uint8_t {
  kGradients,
  kUnsaid,   // It is not known what does.
  kPauses,   // No pause of the step is long, as far as is known.
  kBuffers,  // Their buffers change, or are those of others.
  kValues,   // Their values have one sign, or hardly change.
};
inline constexpr std::size_t kVerdictCount = 5;

class ClassBallot {
 public:
  /// A step's shapes in the order in which they come; the last stands for all others, too.
  static constexpr std::size_t kShapes = 64;

  Verdict of(std::size_t shape) const { return verdicts_[std::min(shape, kShapes - 1)]; }
  /// What is worse stays.
  void add(std::size_t shape, Verdict verdict) {
    Verdict& known = verdicts_[std::min(shape, kShapes - 1)];
    known = std::max(known, verdict);
  }
  /// Another rank's: one that says no is enough.
  void add(const ClassBallot& other) {
    for (std::size_t i = 0; i < kShapes; ++i) add(i, other.verdicts_[i]);
  }

  bool operator==(const ClassBallot&) const = default;

 private:
  std::array<Verdict, kShapes> verdicts_{};
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_CLASS_BALLOT_H_
