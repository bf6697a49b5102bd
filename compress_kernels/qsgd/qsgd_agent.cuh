// The operations of qsgd and qsgd-ms on a device: as transcoder.h, a warp for each tile.
#ifndef COMPRESS_KERNELS_QSGD_QSGD_AGENT_CUH_
#define COMPRESS_KERNELS_QSGD_QSGD_AGENT_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/device_tasks.h"
#include "compress_kernels/core/element.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/reduce.h"
#include "compress_kernels/core/tile_agent.cuh"
#include "compress_kernels/qsgd/device_parameters.h"
#include "compress_kernels/qsgd/tile_coder.cuh"

namespace ringpress::compress_kernels::qsgd {

template <typename Simt, typename T>
class QsgdAgent {
 public:
  using Coder = TileCoder<Simt, T>;
  using DeviceParameters = QsgdDeviceParameters;

  RINGPRESS_DEVICE static void encode(const Simt& simt,
                                      const core::EncodeTask<DeviceParameters>& task) {
    const DeviceParameters& p = task.parameters;
    const core::EncodeShard& shard = task.shards[simt.shard()];
    const Form form =
        form_of(p.codec, shard.count, p.form, p.width, shard.agreed, shard.output.wire);
    const Encoder encoder(simt, p, form, shard.output, shard.count);
    for_each_tile(simt, shard.count, [&](const LaneTile& tile) RINGPRESS_INLINE_LAMBDA {
      LaneValues x;
      load_rows<T>(simt, tile, shard.values, x);
      add_residual(simt, tile, shard.output.residual, x);
      encoder.encode(tile, x);
    });
  }

  RINGPRESS_DEVICE static void decode(const Simt& simt,
                                      const core::DecodeTask<DeviceParameters>& task) {
    const DeviceParameters& p = task.parameters;
    const core::DecodeShard& shard = task.shards[simt.shard()];
    const Form form = form_of(p.codec, shard.count, p.form, p.width, shard.agreed, shard.wire);
    const Coder coder(simt, p.codec, form);
    for_each_tile(simt, shard.count, [&](const LaneTile& tile) RINGPRESS_INLINE_LAMBDA {
      const LaneLevels levels = coder.read_grids(tile);
      LaneNumbers codes;
      coder.unpack(tile, shard.wire, codes);
      coder.store_values(tile, levels, codes, shard.divisor, shard.values);
    });
  }

  RINGPRESS_DEVICE static void decode_add_encode(const Simt& simt,
                                                 const core::HopTask<DeviceParameters>& task) {
    if (stands_alone(task.parameters.form)) {
      hop_alone(simt, task);
    } else {
      hop_together(simt, task);
    }
  }

 private:
  using HopTask = core::HopTask<DeviceParameters>;

  /// Encodes the tiles of a chunk whose values, with the residual, are at hand.
  class Encoder {
   public:
    RINGPRESS_DEVICE Encoder(const Simt& simt, const DeviceParameters& parameters, const Form& form,
                             const core::EncodeOutput& output, std::size_t count)
        : parameters_(parameters),
          form_(form),
          output_(output),
          count_(count),
          coder_(simt, parameters.codec, form),
          bias_(bias_of(parameters.codec, output.random)) {}

    RINGPRESS_DEVICE void encode(const LaneTile& tile, const LaneValues& x) const {
      const std::uint32_t steps = parameters_.codec.steps[0];
      const LaneLevels levels = stands_alone(parameters_.form)
                                    ? coder_.write_grids(tile, x, count_, output_.wire)
                                    : coder_.read_grids(tile);
      LaneNumbers codes;
      coder_.quantise(tile, x, levels, output_, bias_, codes);
      if (form_.offset != steps) lift(form_.offset - steps, 2 * form_.offset, codes);
      coder_.pack(tile, codes, output_.wire);
      if (output_.decoded == nullptr) return;
      coder_.store_values(tile, levels, codes, 1, output_.decoded);
    }

   private:
    const DeviceParameters& parameters_;
    const Form& form_;
    const core::EncodeOutput& output_;
    const std::size_t count_;
    const Coder coder_;
    const float bias_;
  };

  RINGPRESS_DEVICE static float bias_of(const Parameters& parameters, const RandomKey& random) {
    return parameters.is_stochastic ? dither_bias(random, parameters.steps[0]) : 0.0f;
  }

  RINGPRESS_DEVICE static void lift(std::uint32_t lift, std::uint32_t largest, LaneNumbers& codes) {
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < kRows; ++row) codes[row] = limited_sum(codes[row], lift, largest);
  }

  RINGPRESS_DEVICE static void hop_alone(const Simt& simt, const HopTask& task) {
    const DeviceParameters& p = task.parameters;
    const core::EncodeOutput& output = task.output;
    const Form form = form_of(p.codec, task.count, p.form, p.width, {}, output.wire);
    const Encoder encoder(simt, p, form, output, task.count);
    for_each_tile(simt, task.count, [&](const LaneTile& tile) RINGPRESS_INLINE_LAMBDA {
      LaneValues sum;
      add_values(simt, task, tile, sum);
      if (output.wire != nullptr) {
        add_residual(simt, tile, output.residual, sum);
        encoder.encode(tile, sum);
        return;
      }
      RINGPRESS_UNROLL
      for (unsigned row = 0; row < kRows; ++row) {
        if (tile.has(row)) store_value<T>(simt, output.decoded, tile.index(row), sum[row]);
      }
    });
  }

  /// sum = parts that stand alone and own values in order, divided; zeros beyond the end.
  RINGPRESS_DEVICE static void add_values(const Simt& simt, const HopTask& task,
                                          const LaneTile& tile, LaneValues& sum) {
    for (std::size_t position = 0; position <= task.wire_count; ++position) {
      LaneValues values;
      if (position == task.own_position) {
        load_rows<T>(simt, tile, task.values, values);
      } else {
        const std::size_t part = position > task.own_position ? position - 1 : position;
        decode_part(simt, task, tile, task.wires[part], values);
      }
      RINGPRESS_UNROLL
      for (unsigned row = 0; row < kRows; ++row) {
        sum[row] = position == 0 ? values[row] : sum[row] + values[row];
      }
    }
    if (task.divisor == 1) return;
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < kRows; ++row) sum[row] = core::divide(sum[row], task.divisor);
  }

  RINGPRESS_DEVICE static void decode_part(const Simt& simt, const HopTask& task,
                                           const LaneTile& tile, const std::byte* wire,
                                           LaneValues& values) {
    const DeviceParameters& p = task.parameters;
    const Form form = form_of(p.codec, task.count, {}, p.part_width, {}, wire);
    const Coder coder(simt, p.codec, form);
    const LaneLevels levels = coder.read_grids(tile);
    LaneNumbers codes;
    coder.unpack(tile, wire, codes);
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < kRows; ++row) {
      values[row] = tile.has(row) ? coder.value_of(row, levels, codes) : 0.0f;
    }
  }

  RINGPRESS_DEVICE static void hop_together(const Simt& simt, const HopTask& task) {
    const DeviceParameters& p = task.parameters;
    const core::EncodeOutput& output = task.output;
    const Form form = form_of(p.codec, task.count, p.form, p.width, task.agreed, output.wire);
    const Coder coder(simt, p.codec, form);
    const float bias = bias_of(p.codec, output.random);
    for_each_tile(simt, task.count, [&](const LaneTile& tile) RINGPRESS_INLINE_LAMBDA {
      const LaneLevels levels = coder.read_grids(tile);
      LaneValues x;
      load_rows<T>(simt, tile, task.values, x);
      add_residual(simt, tile, output.residual, x);
      LaneNumbers codes;
      coder.quantise(tile, x, levels, output, bias, codes);
      add_codes(simt, task, form, tile, codes);
      if (output.wire != nullptr) coder.pack(tile, codes, output.wire);
      if (output.decoded == nullptr) return;
      coder.store_values(tile, levels, codes, task.divisor, output.decoded);
    });
  }

  /// Adds the codes of all parts to the own ones, and what the form's offset is more than theirs.
  RINGPRESS_DEVICE static void add_codes(const Simt& simt, const HopTask& task, const Form& form,
                                         const LaneTile& tile, LaneNumbers& codes) {
    const DeviceParameters& p = task.parameters;
    const std::uint32_t more = lift_of_sum(form, p.codec, task.wire_count * p.part.summed + 1);
    // Whatever the wires hold, the sum fits its width.
    const std::uint32_t limit = more == 0 ? 2 * form.offset : ~0u;
    for (std::size_t i = 0; i < task.wire_count; ++i) {
      unpack_add(simt, tile, p.part_width, task.wires[i], limit, codes);
    }
    if (more != 0) lift(more, 2 * form.offset, codes);
  }
};

template <typename Simt>
struct QsgdFormat {
  using Parameters = QsgdDeviceParameters;
  static constexpr std::size_t kWarpMemory = kCoderMemoryWords * sizeof(std::uint32_t);
  static constexpr bool kKnowsWholeTiles = false;
  template <typename T>
  using Agent = QsgdAgent<Simt, T>;
};

/// Calls visitor(core::TypeTag<Format>{}).
template <typename Simt, typename Visitor>
decltype(auto) visit_format(const QsgdDeviceParameters&, Visitor&& visitor) {
  return visitor(core::TypeTag<QsgdFormat<Simt>>{});
}

}  // namespace ringpress::compress_kernels::qsgd

#endif  // COMPRESS_KERNELS_QSGD_QSGD_AGENT_CUH_
