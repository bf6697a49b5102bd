// The codecs on a device that calls of one communicator are made with.
#ifndef NCCL_PLUGIN_INTERPOSER_COMM_CODECS_H_
#define NCCL_PLUGIN_INTERPOSER_COMM_CODECS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "nccl_plugin/interposer/calls/call.h"
#include "nccl_plugin/interposer/calls/workspace.h"
#include "nccl_plugin/session/calls/codec_cache.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::interposer {

struct PreparedCodec {
  std::unique_ptr<DeviceProjection> projection;  // Null: the tensor itself is encoded.
  // Where the tensor is projected, that of the sums; null: they are exact.
  std::unique_ptr<DeviceCodec> codec;
  std::unique_ptr<DeviceCodec> scaled;  // With coordinate scales; null: it has none.
  std::size_t scale_block = 0;          // Then elements that share a step.
  bool takes_error_feedback = true;
  std::string loss;  // As of a NamedCodec.

  const Codec& of_tensor() const { return projection ? projection->codec() : codec->codec(); }
  /// True if a graph would repeat them. (What is random in a projection follows from its state.)
  bool has_random_bits() const { return codec && !codec->codec().traits().deterministic; }
  /// What is to be kept of a tensor of `count` elements.
  ToKeep to_keep(const Decision& decision, std::size_t count) const;
};

/// Of one communicator; one thread at a time.
class DeviceCodecs {
 public:
  /// `world`: ranks. `is_ring`: sums go round a ring. `wants_scales`: codecs that can have
  /// coordinate scales are made with them, too. `device` outlives this.
  DeviceCodecs(Device& device, std::size_t world, bool is_ring, bool wants_scales)
      : device_(device), world_(world), is_ring_(is_ring), wants_scales_(wants_scales) {}

  /// Makes one, if it is not there and not `none`. Ok also where the device has no kernels for it:
  /// then problem() says so.
  Status prepare(DType dtype, ReduceOp op, const std::string& specification);
  /// Why one of them cannot be used here; ok: all can.
  const Status& problem() const { return problem_; }
  bool is_empty() const { return cache_.is_empty(); }
  /// Whether any of them has coordinate scales.
  bool have_scales() const { return have_scales_; }
  /// Which of them can be used, as one number; more than 0. Ranks compare it.
  std::int32_t number() const { return static_cast<std::int32_t>(usable_ >> 34) + 1; }
  /// Null: calls of this type and operation have no such codec.
  const PreparedCodec* find(const Call& call, std::string_view specification) const {
    return cache_.find(specification, static_cast<DType>(call.dtype),
                       static_cast<ReduceOp>(call.op));
  }

  /// Room for calls with any of them. `hosts`: that exchange exact sums; 0: none do. `gathers`:
  /// all-gathers are compressed, too.
  WorkspaceShape room(std::size_t hosts, bool gathers) const;

 private:
  Status check_forms(const DeviceCodec& codec) const;
  Status make_projection(DType dtype, ReduceOp op, const std::string& specification,
                         PreparedCodec* made) const;
  Status make_scaled(DType dtype, ReduceOp op, const std::string& specification,
                     PreparedCodec* made) const;
  Result<PreparedCodec> make(DType dtype, ReduceOp op, const std::string& specification) const;
  std::size_t most_rounds() const;
  void size_lane(LaneShape* shape, std::size_t world) const;

  Device& device_;
  const std::size_t world_;
  const bool is_ring_;
  const bool wants_scales_;
  bool have_scales_ = false;
  CodecCache<PreparedCodec> cache_;
  Status problem_ = Status::ok();
  std::uint64_t usable_ = 0;
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_COMM_CODECS_H_
