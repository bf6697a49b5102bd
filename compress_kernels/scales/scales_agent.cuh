// The kernels of device_tasks.h. Values on their way in or out: groups of 8 neighbours to a lane,
// 16 bytes at a time. What is learnt: a block to half a warp, whose lanes are those of its sums
// (arithmetic.h), so that codes are the host's bit for bit.
#ifndef COMPRESS_KERNELS_SCALES_SCALES_AGENT_CUH_
#define COMPRESS_KERNELS_SCALES_SCALES_AGENT_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/core/projection_agent.cuh"
#include "compress_kernels/core/simt_memory.cuh"
#include "compress_kernels/core/tile_agent.cuh"
#include "compress_kernels/scales/arithmetic.h"
#include "compress_kernels/scales/device_tasks.h"
#include "compress_kernels/scales/scales.h"

namespace ringpress::compress_kernels::scales {

template <typename Simt, typename T>
class ScalesAgent {
 public:
  RINGPRESS_DEVICE static void run(const Simt& simt, const DivideTask& task) {
    for_each_group(simt, task, [&](const DividedPart& part, const Group& group) {
      float inverses[core::kGroup];
      load_factors(simt, part.codes, group, inverses,
                   [](std::uint32_t code) { return inverse_scale_bits(code); });
      convert<T, float>(simt, group, inverses, part.values, part.scaled);
      if (part.residual == nullptr) return;
      convert<float, float>(simt, group, inverses, part.residual, part.scaled_residual);
    });
  }

  RINGPRESS_DEVICE static void run(const Simt& simt, const MultiplyTask& task) {
    for_each_group(simt, task, [&](const MultipliedPart& part, const Group& group) {
      float scales[core::kGroup];
      load_factors(simt, part.codes, group, scales,
                   [](std::uint32_t code) { return scale_bits(code); });
      if (part.values != nullptr) convert<float, T>(simt, group, scales, part.scaled, part.values);
      if (part.residual == nullptr) return;
      convert<float, float>(simt, group, scales, part.scaled_residual, part.residual);
    });
  }

  /// Each lane reads again only what it has written itself.
  RINGPRESS_DEVICE static void run(const Simt& simt, const LearnTask& task) {
    const KeptScales& tensor = task.tensor;
    const bool has_scales = ScaleUse::of(simt.template load<std::uint64_t>(tensor.use)).is_helped;
    core::for_each_piece(simt, pairs_of(tensor), [&](std::size_t pair) {
      const Block block = block_of(simt, tensor, pair);
      float sum = 0;
      for (std::size_t i = block.first; i < block.end; i += kSumLanes) {
        float square = simt.template load<float>(tensor.squares + i);
        if (task.result != nullptr) {
          square = next_square(square, load_value(simt, task.result, i), task.weight);
          simt.store(tensor.squares + i, square);
        }
        sum += square;
      }
      const float inverse = inverse_of_mean(add_lanes(simt, sum), block.count);
      for (std::size_t i = block.first; i < block.end; i += kSumLanes) {
        const float square = simt.template load<float>(tensor.squares + i);
        simt.store(tensor.codes + i, has_scales ? code_of(square * inverse) : std::uint8_t{0});
      }
    });
  }

  /// By the codes that LearnTask has found, or would have if scales were known to help.
  RINGPRESS_DEVICE static void run(const Simt& simt, const MeasureTask& task) {
    const KeptScales& tensor = task.tensor;
    const std::size_t pairs = pairs_of(tensor);
    constexpr std::size_t kPieces = kScaleErrorParts / 2;
    core::for_each_piece(simt, kPieces, [&](std::size_t piece) {
      ScaleErrorPart errors;
      for (std::size_t pair = piece; pair < pairs; pair += kPieces) {
        const Block block = block_of(simt, tensor, pair);
        const BlockErrors of_block = errors_of(extent_of(simt, task, block));
        errors.plain += of_block.plain;
        errors.scaled += of_block.scaled;
      }
      if (simt.lane() % kSumLanes != 0) return;
      ScaleErrorPart* const part = task.parts + 2 * piece + simt.lane() / kSumLanes;
      simt.store(&part->plain, errors.plain);
      simt.store(&part->scaled, errors.scaled);
    });
  }

  RINGPRESS_DEVICE static void run(const Simt& simt, const SettleTask& task) {
    core::for_each_piece(simt, 1, [&](std::size_t) {
      double errors[2] = {0, 0};
      for (std::size_t i = simt.lane(); i < kScaleErrorParts; i += core::kLanes) {
        errors[0] += simt.template load<double>(&task.parts[i].plain);
        errors[1] += simt.template load<double>(&task.parts[i].scaled);
      }
      RINGPRESS_UNROLL
      for (unsigned mask = 1; mask < core::kLanes; mask *= 2) core::add_lanes(simt, mask, errors);
      if (simt.lane() != 0) return;
      const ScaleUse before = ScaleUse::of(simt.template load<std::uint64_t>(task.use));
      const bool may_help =
          task.agreed == nullptr || simt.template load<std::uint64_t>(task.agreed) != 0;
      const bool helps = may_help && is_helped(errors[0], errors[1]);
      simt.store(task.use, before.settled(task.calls, helps).word());
    });
  }

 private:
  /// Of neighbouring values.
  struct Group {
    std::size_t first;
    unsigned valid;
  };
  /// What one lane has of a block: elements from `first` on, each kSumLanes-th.
  struct Block {
    std::size_t first;
    std::size_t end;
    std::size_t count;  // Of the whole block.
  };

  template <typename Task, typename Body>
  RINGPRESS_DEVICE static void for_each_group(const Simt& simt, const Task& task, Body&& body) {
    core::for_each_piece(simt, task.pieces_of_part * task.part_count, [&](std::size_t piece) {
      const auto& part = task.parts[piece / task.pieces_of_part];
      const std::size_t first =
          (piece % task.pieces_of_part * core::kLanes + simt.lane()) * core::kGroup;
      if (first >= part.count) return;
      const std::size_t rest = part.count - first;
      body(part, Group{first, rest < core::kGroup ? static_cast<unsigned>(rest) : core::kGroup});
    });
  }

  template <typename BitsOf>
  RINGPRESS_DEVICE static void load_factors(const Simt& simt, const std::uint8_t* codes,
                                            const Group& group, float (&factors)[core::kGroup],
                                            BitsOf&& bits_of) {
    codes += group.first;
    if (group.valid == core::kGroup && core::is_aligned(codes, sizeof(std::uint64_t))) {
      const auto word = simt.template load<std::uint64_t>(codes);
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < core::kGroup; ++k) {
        factors[k] = core::float_of(bits_of(static_cast<std::uint32_t>(word >> 8 * k & 0xFFu)));
      }
      return;
    }
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < core::kGroup; ++k) {
      const std::uint32_t code =
          k < group.valid ? simt.template load<std::uint8_t>(codes + k) : std::uint32_t{0};
      factors[k] = core::float_of(bits_of(code));
    }
  }

  /// to = from * factors.
  template <typename From, typename To>
  RINGPRESS_DEVICE static void convert(const Simt& simt, const Group& group,
                                       const float (&factors)[core::kGroup], const void* from,
                                       void* to) {
    float x[core::kGroup];
    core::load_group<From>(simt, from, group.first, group.valid, x);
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < core::kGroup; ++k) x[k] *= factors[k];
    core::store_group<To>(simt, to, group.first, group.valid, x);
  }

  RINGPRESS_DEVICE static float load_value(const Simt& simt, const void* values, std::size_t i) {
    const auto* const from = static_cast<const std::byte*>(values) + i * sizeof(T);
    return core::widen_raw<T>(simt.template load<core::Raw<T>>(from));
  }

  RINGPRESS_DEVICE static std::size_t pairs_of(const KeptScales& tensor) {
    return (tensor.count + 2 * tensor.block - 1) / (2 * tensor.block);
  }
  RINGPRESS_DEVICE static Block block_of(const Simt& simt, const KeptScales& tensor,
                                         std::size_t pair) {
    const std::size_t begin = (2 * pair + simt.lane() / kSumLanes) * tensor.block;
    if (begin >= tensor.count) return {0, 0, 0};
    const std::size_t rest = tensor.count - begin;
    const std::size_t count = rest < tensor.block ? rest : tensor.block;
    return {begin + simt.lane() % kSumLanes, begin + count, count};
  }

  /// Calls take(value) with what each lane of this half of the warp has, in order.
  template <typename Take>
  RINGPRESS_DEVICE static void for_each_lane_of_half(const Simt& simt, float value, Take&& take) {
    std::uint32_t lanes[kSumLanes];
    RINGPRESS_UNROLL
    for (unsigned lane = 0; lane < kSumLanes; ++lane) lanes[lane] = lane;
    simt.template look_up<kSumLanes>(lanes, core::bits_of(value));
    RINGPRESS_UNROLL
    for (unsigned lane = 0; lane < kSumLanes; ++lane) take(lane, core::float_of(lanes[lane]));
  }
  RINGPRESS_DEVICE static float add_lanes(const Simt& simt, float value) {
    float sum = 0;
    for_each_lane_of_half(simt, value, [&](unsigned, float lane) { sum += lane; });
    return sum;
  }

  RINGPRESS_DEVICE static BlockExtent extent_of(const Simt& simt, const MeasureTask& task,
                                                const Block& block) {
    float sum = 0;
    for (std::size_t i = block.first; i < block.end; i += kSumLanes) {
      sum += simt.template load<float>(task.tensor.squares + i);
    }
    const float inverse = inverse_of_mean(add_lanes(simt, sum), block.count);
    BlockExtent own;
    for (std::size_t i = block.first; i < block.end; i += kSumLanes) {
      const std::uint32_t code =
          code_of(simt.template load<float>(task.tensor.squares + i) * inverse);
      const std::uint32_t magnitude = core::magnitude_bits(load_value(simt, task.result, i));
      add_to_extent(core::float_of(magnitude), core::float_of(scale_bits(code)),
                    core::float_of(inverse_scale_bits(code)), &own);
    }
    BlockExtent lanes[kSumLanes];
    for_each_lane_of_half(simt, own.plain, [&](unsigned i, float of) { lanes[i].plain = of; });
    for_each_lane_of_half(simt, own.scaled, [&](unsigned i, float of) { lanes[i].scaled = of; });
    for_each_lane_of_half(simt, own.scales, [&](unsigned i, float of) { lanes[i].scales = of; });
    for_each_lane_of_half(simt, own.inverses,
                          [&](unsigned i, float of) { lanes[i].inverses = of; });
    BlockExtent extent;
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < kSumLanes; ++i) add_lane(lanes[i], &extent);
    return extent;
  }
};

}  // namespace ringpress::compress_kernels::scales

#endif  // COMPRESS_KERNELS_SCALES_SCALES_AGENT_CUH_
