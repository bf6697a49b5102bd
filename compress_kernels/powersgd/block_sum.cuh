// Float64 sums over a column by one block of threads, in the order of arithmetic.h. `Simt` is that
// of core/projection_agent.cuh.
#ifndef COMPRESS_KERNELS_POWERSGD_BLOCK_SUM_CUH_
#define COMPRESS_KERNELS_POWERSGD_BLOCK_SUM_CUH_

#include <cstddef>

#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/core/projection_agent.cuh"
#include "compress_kernels/powersgd/arithmetic.h"

namespace ringpress::compress_kernels::powersgd {

template <typename Simt>
class BlockSum {
 public:
  RINGPRESS_DEVICE explicit BlockSum(const Simt& simt) : simt_(simt) {}

  /// This thread's number in the block.
  RINGPRESS_DEVICE unsigned thread() const { return simt_.warp() * core::kLanes + simt_.lane(); }

  /// Calls body(index) for this thread's values of a column: always the same ones.
  template <typename Body>
  RINGPRESS_DEVICE void for_each(std::size_t count, Body&& body) const {
    for (std::size_t i = thread(); i < count; i += Simt::kBlockThreads) body(i);
  }

  /// The sum of value(index) over a column; every thread gets it. All threads take part.
  template <typename Value>
  RINGPRESS_DEVICE double sum(std::size_t count, Value&& value) {
    double* const shared = static_cast<double*>(simt_.block_memory()) + kDotLanes * half_;
    RINGPRESS_UNROLL
    for (unsigned u = 0; u < kLanesOfThread; ++u) {
      const unsigned lane = thread() + u * Simt::kBlockThreads;
      double partial = 0;
      for (std::size_t i = lane; i < count; i += kDotLanes) partial += value(i);
      simt_.store(shared + lane, partial);
    }
    simt_.sync_block();
    // Who is late still reads this half of the memory while the next sum is in the other one.
    half_ = 1 - half_;
    return add_lanes(shared);
  }

  RINGPRESS_DEVICE double dot(const float* a, const float* b, std::size_t count) {
    return sum(count, [&](std::size_t i) {
      return double{simt_.template load<float>(a + i)} * double{simt_.template load<float>(b + i)};
    });
  }

  RINGPRESS_DEVICE bool all_finite(const float* values, std::size_t count) {
    const auto is_lost = [&](std::size_t i) {
      return core::is_finite(simt_.template load<float>(values + i)) ? 0.0 : 1.0;
    };
    return sum(count, is_lost) == 0;
  }

 private:
  static constexpr unsigned kLanesOfThread = kDotLanes / Simt::kBlockThreads;
  static_assert(2 * kDotLanes * sizeof(double) <= core::kBlockMemory);

  /// Every warp does the same, so that no thread has to tell the others.
  RINGPRESS_DEVICE double add_lanes(const double* shared) const {
    constexpr unsigned kRows = kDotLanes / core::kLanes;
    double rows[kRows];
    RINGPRESS_UNROLL
    for (unsigned r = 0; r < kRows; ++r) {
      rows[r] = simt_.template load<double>(shared + r * core::kLanes + simt_.lane());
    }
    RINGPRESS_UNROLL
    for (unsigned distance = kRows / 2; distance > 0; distance /= 2) {
      RINGPRESS_UNROLL
      for (unsigned r = 0; r < distance; ++r) rows[r] += rows[r + distance];
    }
    double sum[1] = {rows[0]};
    RINGPRESS_UNROLL
    for (unsigned distance = core::kLanes / 2; distance > 0; distance /= 2) {
      core::add_lanes(simt_, distance, sum);
    }
    return sum[0];
  }

  const Simt& simt_;
  unsigned half_ = 0;
};

}  // namespace ringpress::compress_kernels::powersgd

#endif  // COMPRESS_KERNELS_POWERSGD_BLOCK_SUM_CUH_
