// randk:density=D: of d values, in each call, K = ceil(D d) at random: the same coordinates on all
// ranks, drawn by all of them alike, so that no index travels and sums are sums of values
// (GlobalRandK of Vineeth S., Unbiased Single-scale and Multi-scale Quantizers for Distributed
// Optimization, arXiv 2109.12497, 2021; first called Quantization for Distributed Optimization). A
// cycle of calls visits each coordinate once.
//
// A permutation of the coordinates (permutation.h) is cut into S = ceil(d / K) slices of equal
// length, but for one value. A tensor takes them all in each S of its calls, by the turns that the
// session counts (nccl_plugin/session/calls/slice_turns.h), or by what is kept for its address, if
// that is so on all ranks. All other coordinates come out 0 and go into the residual.
// unbiased=1: those of the slice are multiplied by S instead, which makes the mean over a cycle the
// value itself; no residual is kept then.
//
// All-reduces project tensors on slices (randk_projection.cc). The form described here stands
// alone: one chunk of one rank.
//
// Wire bytes of a chunk of n values. The bytes do not depend on the element type.
//
//   bytes              content
//   4                  which slice, or 2^32 - 1: some value is not finite; drawn from RandomKey
//   4 ceil(n / S)      the values of the slice in the order of the permutation, float32; a zero
//                      follows if the slice has one value less
//
// A chunk with a NaN or an infinity decodes to NaN throughout and leaves its residual alone.
//
// Error of a finite chunk, as the l2 norm of all its errors over that of its values: at most 1;
// unbiased=1: S - 1.
#ifndef COMPRESS_KERNELS_RANDK_RANDK_H_
#define COMPRESS_KERNELS_RANDK_RANDK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "compress_kernels/core/projecting_codec.h"
#include "compress_kernels/randk/permutation.h"
#include "compress_kernels/randk/slices.h"
#include "ringpress/internal/projection.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels::randk {

inline constexpr double kSmallestDensity = 1e-6;
inline constexpr std::uint32_t kNotFinite = 0xFFFFFFFFu;

struct Parameters {
  double density = 0.01;
  bool unbiased = false;
  DType dtype = DType::kFloat32;
};

/// Calls use(place within the slice, coordinate) for each coordinate of a slice.
template <typename Use>
void for_each_in_slice(const Permutation& permutation, const Slices& slices, std::size_t slice,
                       Use&& use) {
  const std::size_t first = slices.first(slice);
  const std::size_t length = slices.length(slice);
  for (std::size_t i = 0; i < length; ++i) {
    use(i, static_cast<std::size_t>(permutation(first + i)));
  }
}

/// What each instruction set has its own code for.
struct Kernels {
  bool (*all_finite)(const core::ChunkValues& values) = nullptr;
  /// residual = value + residual where that is finite. `residual` is values.residual.
  void (*keep_all)(const core::ChunkValues& values, float* residual) = nullptr;
};

const Kernels& reference_kernels();
/// The kernels of a Highway target; null if this build has none for it.
const Kernels* simd_kernels(std::int64_t target);

/// Element `index`, plus its residual.
float load_one(const core::ChunkValues& values, std::size_t index);

/// `code` is the codec of the sums.
std::unique_ptr<Projection> make_projection(const Parameters& parameters, const std::string& code,
                                            const Kernels& kernels);

}  // namespace ringpress::compress_kernels::randk

#endif  // COMPRESS_KERNELS_RANDK_RANDK_H_
