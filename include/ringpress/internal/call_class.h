// What a recurring call is for, as far as it can be known: RINGPRESS_CODEC=auto compresses
// gradients.
#ifndef RINGPRESS_INTERNAL_CALL_CLASS_H_
#define RINGPRESS_INTERNAL_CALL_CLASS_H_

#include <cstddef>
#include <cstdint>

namespace ringpress {

/// Equal on all ranks.
enum class CallClass : std::uint8_t {
  kUnknown,  // It is not part of calls that repeat, so far.
  kGradient,
  kAlike,          // Scatters of one or two sizes: activations of equal layers, perhaps.
  kBesideMaxima,   // The step takes maxima of such values, as a loss over a split vocabulary does.
  kBesideGathers,  // Its shards alternate with all-gathers, as those of activations do.
  kNamed,          // By the communicator's name it is for something else.
  kUntold,         // NCCL does not tell which tensor it is of.
  // What a rank has said against its being a gradient.
  kUnsaid,   // They have not voted yet, or not said what.
  kPauses,   // No pause of its step is long, as far as is known.
  kBuffers,  // Its buffers change, or are those of others.
  kValues,   // Its values have one sign, or hardly change.
};

inline constexpr std::size_t kCallClassCount = 11;

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_CALL_CLASS_H_
