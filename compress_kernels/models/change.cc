#include <cstdint>

#include "compress_kernels/errors/errors.h"
#include "compress_kernels/factory.h"

namespace ringpress::compress_kernels {
namespace {

using errors::kLanes;
using errors::kPiece;

/// What is read so many bytes later is asked for already: a machine that is shared fetches little
/// by itself, and the pass should take no longer than reading does (0.6 of its rate without, 0.9
/// with).
constexpr std::size_t kAheadBytes = 2048;

/// May lie behind the end: nothing is read.
inline void ask_for(const float* values) {
  __builtin_prefetch(
      reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(values) + kAheadBytes));
}

/// Of two pieces of float32.
void add_squares(const float* x, const float* reference, std::size_t count, Change* change) {
  float differences[kLanes] = {};
  float references[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    ask_for(x + i);
    ask_for(reference + i);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float own = reference[i + lane];
      const float difference = x[i + lane] - own;
      differences[lane] += difference * difference;
      references[lane] += own * own;
    }
  }
  for (; i < count; ++i) {
    const float difference = x[i] - reference[i];
    differences[i % kLanes] += difference * difference;
    references[i % kLanes] += reference[i] * reference[i];
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    change->difference_squares += static_cast<double>(differences[lane]);
    change->reference_squares += static_cast<double>(references[lane]);
  }
}

template <typename T>
void add_pieces(const void* values, const void* reference, std::size_t count, Change* change) {
  float x[kPiece];
  float y[kPiece];
  for (std::size_t first = 0; first < count; first += kPiece) {
    const std::size_t some = std::min(kPiece, count - first);
    if constexpr (std::is_same_v<T, float>) {
      add_squares(static_cast<const float*>(values) + first,
                  static_cast<const float*>(reference) + first, some, change);
    } else {
      for (std::size_t i = 0; i < some; ++i) {
        x[i] = core::load_wide<T>(values, first + i);
        y[i] = core::load_wide<T>(reference, first + i);
      }
      add_squares(x, y, some, change);
    }
  }
}

/// Squares may overflow where values do not.
template <typename T>
std::size_t find_non_finite(const void* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!std::isfinite(core::load_wide<T>(values, i))) return i;
  }
  return count;
}

}  // namespace

Change measure_change(const void* values, const void* reference, std::size_t count, DType dtype) {
  Change change;
  change.first_non_finite = count;
  core::visit_compressible(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    add_pieces<T>(values, reference, count, &change);
    if (std::isfinite(change.difference_squares)) return;
    change.first_non_finite = find_non_finite<T>(values, count);
  });
  return change;
}

}  // namespace ringpress::compress_kernels
