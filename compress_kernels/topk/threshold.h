// The k-th largest key of a source in one pass over it: a sample says between which two keys it
// must lie, the pass counts what is above them and keeps what is between them.
#ifndef COMPRESS_KERNELS_TOPK_THRESHOLD_H_
#define COMPRESS_KERNELS_TOPK_THRESHOLD_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compress_kernels/topk/kernels.h"

namespace ringpress::compress_kernels::topk {

/// Two keys between which the wanted one is expected.
struct Window {
  std::uint64_t low = kSmallestThreshold;
  std::uint64_t high = kLargestThreshold;
};

/// What one pass has found.
struct Candidates {
  static constexpr std::size_t kMostKept = std::size_t{1} << 20;  // Of memory, from call to call.

  std::size_t above = 0;            // Keys above the window.
  std::vector<std::uint64_t> keys;  // Those in it, in any order.
  std::size_t limit = 0;            // More keys than this make the pass give up.
  bool gave_up = false;

  void start(std::size_t most) {
    above = 0;
    if (keys.capacity() > kMostKept) keys = {};
    keys.clear();
    limit = most;
    gave_up = false;
  }
  void add(std::uint64_t key, const Window& window) {
    if (key > window.high) {
      ++above;
    } else if (key >= window.low) {
      keys.push_back(key);
    }
  }
};

using Collect = void (*)(const Source&, const Window&, Candidates*);

/// Kernels::find_threshold, with a pass of an instruction set's own.
std::uint64_t find_threshold_with(Collect collect, const Source& source, std::size_t k);

}  // namespace ringpress::compress_kernels::topk

#endif  // COMPRESS_KERNELS_TOPK_THRESHOLD_H_
