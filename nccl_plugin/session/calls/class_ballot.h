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

class ClassBallot {
 public:
  /// A step's shapes in the order in which they come; the last stands for all others, too.
  static constexpr std::size_t kShapes = 64;

  /// Of a rank that cannot say.
  static ClassBallot of_no() {
    ClassBallot ballot;
    ballot.verdicts_.fill(Verdict::kUnsaid);
    return ballot;
  }
  static ClassBallot of_number(std::int32_t number) {
    ClassBallot ballot;
    for (std::size_t i = 0; i < kShapes; ++i) {
      if ((number >> bit_of(i) & 1) != 0) ballot.add(i, Verdict::kUnsaid);
    }
    return ballot;
  }
  /// Which of them are gradients, from 0 to 2^30 - 1: what ranks send where they have a number for
  /// it. The last bit is of all shapes from the thirtieth on.
  std::int32_t number() const {
    std::int32_t number = 0;
    for (std::size_t i = 0; i < kShapes; ++i) {
      if (verdicts_[i] != Verdict::kGradients) number |= 1 << bit_of(i);
    }
    return number;
  }

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
  static constexpr std::size_t kBits = 30;
  static constexpr std::size_t bit_of(std::size_t shape) { return std::min(shape, kBits - 1); }

  std::array<Verdict, kShapes> verdicts_{};
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_CLASS_BALLOT_H_
