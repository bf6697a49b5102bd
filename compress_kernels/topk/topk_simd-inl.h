// The array kernels of topk for one target. Compiled once per target.
#if defined(COMPRESS_KERNELS_TOPK_TOPK_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_TOPK_TOPK_SIMD_INL_H_
#undef COMPRESS_KERNELS_TOPK_TOPK_SIMD_INL_H_
#else
#define COMPRESS_KERNELS_TOPK_TOPK_SIMD_INL_H_
#endif

#include <algorithm>

#include "compress_kernels/topk/kernels.h"
#include "compress_kernels/topk/scan-inl.h"
#include "compress_kernels/topk/values-inl.h"
#include "compress_kernels/topk/window-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::topk {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

/// Keeps what error feedback is left with if nothing is sent.
HWY_INLINE void keep(Floats x, Signeds magnitudes, float* residual, std::size_t i) {
  const Signeds infinity = hn::Set(kSignedTag, static_cast<std::int32_t>(core::kInfinityBits));
  const auto finite = hn::RebindMask(kFloatTag, hn::Lt(magnitudes, infinity));
  const Floats old = arrays::load_floats<float>(residual, i);
  arrays::store_floats<float>(hn::IfThenElse(finite, x, old), residual, i);
}

/// What is selected from, and how.
struct Task {
  const Source& source;
  const Part& part;
  std::uint64_t threshold;
  float* residual;  // As Kernels::select has it.
};

/// Lists the elements, from number `start` of the part on, whose magnitude is that of the threshold
/// or above. Whole words only. Returns the end of the list.
template <typename T, bool kResidual, bool kKeep>
std::uint32_t* list_large(const Task& task, std::size_t start, std::size_t count, float* kept,
                          std::uint32_t* list) {
  const Signeds below = hn::Sub(set_magnitude(task.threshold), hn::Set(kSignedTag, 1));
  for (std::size_t i = 0; i < count; i += kWord) {
    const std::size_t first = task.part.first + start + i;
    std::uint64_t bits = 0;
    HWY_UNROLL(4)
    for (std::size_t vector = 0; vector < kWord / kLanes; ++vector) {
      const Floats x = load_x<T, kResidual>(task.source, first, vector, kept + i);
      const Signeds magnitudes = magnitudes_of(x);
      bits |= bits_of(hn::Gt(magnitudes, below), vector);
      if constexpr (kKeep) keep(x, magnitudes, task.residual, first + vector * kLanes);
    }
    list = list_bits(bits, start + i, list);
  }
  return list;
}

/// Drops elements from number `first` on that have the threshold's magnitude but too small a hash.
void drop_ties(const Task& task, std::size_t first, Selection* selection) {
  std::size_t kept = first;
  for (std::size_t i = first; i < selection->count; ++i) {
    const float value = selection->value[i];
    const std::uint32_t index = selection->index[i];
    selection->value[kept] = value;
    selection->index[kept] = index;
    const std::uint64_t element = task.source.first_element + task.part.first + index;
    if (key_of(core::magnitude_bits(value), element) >= task.threshold) ++kept;
  }
  selection->count = kept;
}

template <typename T, bool kResidual, bool kKeep>
void select_elements(const Task& task, Selection* selection) {
  HWY_ALIGN float kept[kBlock];
  selection->count = 0;
  const auto limit = static_cast<std::uint32_t>(task.threshold >> 32);
  const std::size_t words = task.part.count / kWord * kWord;
  for (std::size_t start = 0; start < words; start += kBlock) {
    const std::size_t selected = selection->count;
    const std::uint32_t* end = list_large<T, kResidual, kKeep>(
        task, start, std::min(kBlock, words - start), kept, selection->index + selected);
    selection->count = static_cast<std::size_t>(end - selection->index);
    std::uint32_t ties = 0;
    for (std::size_t i = selected; i < selection->count; ++i) {
      const std::size_t index = selection->index[i] - start;
      const float x = x_of<T, kResidual>(task.source, task.part.first + start, index, kept);
      selection->value[i] = x;
      ties += core::magnitude_bits(x) == limit ? 1 : 0;
    }
    if (HWY_UNLIKELY(ties > 0)) drop_ties(task, selected, selection);
  }
}

/// The elements after the last whole word.
void select_rest(const Task& task, Selection* selection) {
  for (std::size_t i = task.part.count / kWord * kWord; i < task.part.count; ++i) {
    const std::size_t at = task.part.first + i;
    const float x = value_at(task.source, at);
    if (key_of(core::magnitude_bits(x), task.source.first_element + at) >= task.threshold) {
      selection->index[selection->count] = static_cast<std::uint32_t>(i);
      selection->value[selection->count] = x;
      ++selection->count;
    }
    if (task.residual != nullptr && core::is_finite(x)) {
      core::store_element<float>(task.residual, at, x);
    }
  }
}

void select(const Source& source, const Part& part, std::uint64_t threshold, float* residual,
            Selection* selection) {
  const Task task{source, part, threshold, residual};
  core::visit_compressible(source.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (residual != nullptr) {
      select_elements<T, true, true>(task, selection);
    } else if (source.residual != nullptr) {
      select_elements<T, true, false>(task, selection);
    } else {
      select_elements<T, false, false>(task, selection);
    }
  });
  select_rest(task, selection);
}

void measure_gaps(Selection* selection, unsigned shift, std::size_t (&sums)[3]) {
  const Words one = hn::Set(kWordTag, 1);
  Words rests[3] = {hn::Zero(kWordTag), hn::Zero(kWordTag), hn::Zero(kWordTag)};
  selection->gap[0] = selection->index[0];
  std::size_t i = 1;
  for (; i + kLanes <= selection->count; i += kLanes) {
    const Words index = hn::LoadU(kWordTag, selection->index + i);
    const Words before = hn::LoadU(kWordTag, selection->index + i - 1);
    const Words gap = hn::Sub(hn::Sub(index, before), one);
    hn::StoreU(gap, kWordTag, selection->gap + i);
    const Words rest = hn::ShiftRightSame(gap, static_cast<int>(shift));
    rests[0] = hn::Add(rests[0], rest);
    rests[1] = hn::Add(rests[1], hn::ShiftRight<1>(rest));
    rests[2] = hn::Add(rests[2], hn::ShiftRight<2>(rest));
  }
  for (unsigned more = 0; more < 3; ++more) {
    sums[more] = hn::GetLane(hn::SumOfLanes(kWordTag, rests[more]));
    sums[more] += selection->gap[0] >> (shift + more);
  }
  for (; i < selection->count; ++i) {
    const std::uint32_t gap = selection->index[i] - selection->index[i - 1] - 1;
    selection->gap[i] = gap;
    for (unsigned more = 0; more < 3; ++more) sums[more] += gap >> (shift + more);
  }
}

const Kernels& kernels() {
  static constexpr Kernels kKernels{find_threshold, select, measure_gaps, write_values,
                                    read_values};
  return kKernels;
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::topk
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
