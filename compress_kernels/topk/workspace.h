// Scratch for one segment of topk.
#ifndef COMPRESS_KERNELS_TOPK_WORKSPACE_H_
#define COMPRESS_KERNELS_TOPK_WORKSPACE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "compress_kernels/topk/kernels.h"
#include "ringpress/internal/per_thread.h"

namespace ringpress::compress_kernels::topk {

/// Sums of few of a segment's elements. It is all zeros between segments, and only what was touched
/// is cleared, so a segment costs what is sent of it and not its length.
class SparseSums {
 public:
  void add(std::size_t index, float value) {
    marks_[index / 64] |= std::uint64_t{1} << (index % 64);
    sums_[index] += value;
  }

  /// Calls use(index, sum) for what has been added to, in order, and forgets it.
  template <typename Use>
  void take(std::size_t elements, Use&& use) {
    for (std::size_t word = 0; word * 64 < elements; ++word) {
      for (std::uint64_t marks = marks_[word]; marks != 0; marks &= marks - 1) {
        const std::size_t index = word * 64 + static_cast<std::size_t>(std::countr_zero(marks));
        use(index, sums_[index]);
        sums_[index] = 0;
      }
      marks_[word] = 0;
    }
  }

 private:
  float sums_[kSegmentElements] = {};
  std::uint64_t marks_[kSegmentElements / 64] = {};
};

struct Workspace {
  Selection selection;
  float values[Selection::kCapacity];
  SparseSums sums;
};

/// Of the calling thread, which keeps it: 1.6 MB at most, of which small segments touch little.
inline Workspace& workspace() {
  static const auto& kept = *new PerThread<Workspace>;
  return kept.get([] { return std::unique_ptr<Workspace>(new Workspace); });
}

}  // namespace ringpress::compress_kernels::topk

#endif  // COMPRESS_KERNELS_TOPK_WORKSPACE_H_
