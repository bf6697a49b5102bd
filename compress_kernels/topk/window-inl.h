// The pass that finds a threshold (threshold.h). Compiled once per target.
#if defined(COMPRESS_KERNELS_TOPK_WINDOW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_TOPK_WINDOW_INL_H_
#undef COMPRESS_KERNELS_TOPK_WINDOW_INL_H_
#else
#define COMPRESS_KERNELS_TOPK_WINDOW_INL_H_
#endif

#include <algorithm>

#include "compress_kernels/topk/scan-inl.h"
#include "compress_kernels/topk/threshold.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::topk {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

/// Elements of a block whose magnitudes are those of a window's keys.
struct Found {
  std::size_t above = 0;  // How many lie above the window.
  std::size_t count = 0;
  std::uint32_t list[kBlock + kListSlack];
  HWY_ALIGN float kept[kBlock];
};

/// Whole words only.
template <typename T, bool kResidual>
void find_in_window(const Source& source, std::size_t first, std::size_t count,
                    const Window& window, Found* found) {
  const Signeds low = set_magnitude(window.low);
  const Signeds high = set_magnitude(window.high);
  const Words width = hn::BitCast(kWordTag, hn::Add(hn::Sub(high, low), hn::Set(kSignedTag, 1)));
  Words above = hn::Zero(kWordTag);
  std::uint32_t* list = found->list;
  for (std::size_t i = 0; i < count; i += kWord) {
    std::uint64_t bits = 0;
    HWY_UNROLL(4)
    for (std::size_t vector = 0; vector < kWord / kLanes; ++vector) {
      const Floats x = load_x<T, kResidual>(source, first + i, vector, found->kept + i);
      const Signeds magnitudes = magnitudes_of(x);
      const Words sign = hn::BitCast(kWordTag, hn::Sub(high, magnitudes));
      above = hn::Add(above, hn::ShiftRight<31>(sign));
      const Words from_low = hn::BitCast(kWordTag, hn::Sub(magnitudes, low));
      bits |= bits_of(hn::RebindMask(kSignedTag, hn::Lt(from_low, width)), vector);
    }
    list = list_bits(bits, i, list);
  }
  found->above = hn::GetLane(hn::SumOfLanes(kWordTag, above));
  found->count = static_cast<std::size_t>(list - found->list);
}

template <typename T, bool kResidual>
void collect_elements(const Source& source, const Window& window, Candidates* candidates) {
  Found found;
  const std::size_t words = source.count / kWord * kWord;
  for (std::size_t first = 0; first < words; first += kBlock) {
    const std::size_t count = std::min(kBlock, words - first);
    find_in_window<T, kResidual>(source, first, count, window, &found);
    candidates->above += found.above;
    for (std::size_t i = 0; i < found.count; ++i) {
      const std::size_t index = found.list[i];
      const float x = x_of<T, kResidual>(source, first, index, found.kept);
      candidates->add(key_of(core::magnitude_bits(x), source.first_element + first + index),
                      window);
    }
    if (candidates->keys.size() > candidates->limit) {
      candidates->gave_up = true;
      return;
    }
  }
  for (std::size_t i = words; i < source.count; ++i) candidates->add(key_at(source, i), window);
}

void collect(const Source& source, const Window& window, Candidates* candidates) {
  core::visit_compressible(source.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (source.residual != nullptr) {
      collect_elements<T, true>(source, window, candidates);
    } else {
      collect_elements<T, false>(source, window, candidates);
    }
  });
}

std::uint64_t find_threshold(const Source& source, std::size_t k) {
  return find_threshold_with(collect, source, k);
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::topk
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
