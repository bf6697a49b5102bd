// One compressed all-reduce, reduce-scatter or all-gather of one communicator, as work in streams:
// codecs in a stream of our own, sends and receives of the real NCCL in the caller's. A call is a
// number of steps, the same on all ranks: what comes before an exchange, and that exchange. Several
// communicators of one thread take each step together.
#ifndef NCCL_PLUGIN_INTERPOSER_CALLS_STREAM_CALL_H_
#define NCCL_PLUGIN_INTERPOSER_CALLS_STREAM_CALL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>
#include <utility>

#include "nccl_plugin/interposer/calls/call_memory.h"
#include "nccl_plugin/interposer/calls/lane.h"
#include "nccl_plugin/preload/engine.h"
#include "ringpress/internal/device.h"

namespace ringpress::nccl_plugin::interposer {

/// What a call is made of. Everything but `comm`, buffers, residual and rank is equal on all ranks.
struct StreamCallParts {
  const ringpressRealNccl* real = nullptr;
  ncclComm_t comm = nullptr;
  std::size_t rank = 0;
  std::size_t world = 0;
  Device* device = nullptr;
  // Where the tensor is projected, that of the sums; null: they are exact.
  DeviceCodec* codec = nullptr;
  Lane* lane = nullptr;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;  // As in the call: elements per rank, but of an all-reduce.
  Stream stream = nullptr;
  float* residual = nullptr;
  const std::uint8_t* scales = nullptr;  // Of a codec that has some: the tensor's, on the device.
  std::size_t chunk_elements = 0;        // Of a shard; 0: chosen here.
  std::uint64_t seed = 0;
  std::uint64_t sequence = 0;
  std::uint64_t turn = 0;           // CollectiveContext::turn.
  std::span<const int> ring_order;  // Of a ring: as RingNeighbours takes it. Outlives the call.
};

class StreamCall {
 public:
  virtual ~StreamCall() = default;

  /// Asked after each step: a call may find out in the first one, the same on all ranks, how many
  /// there are.
  virtual std::size_t steps() const = 0;
  /// True if a step has something to send. The same on all ranks.
  virtual bool exchanges(std::size_t step) const = 0;
  /// Asks for what comes before the exchange of a step.
  virtual Status prepare(std::size_t step) = 0;
  /// Within a group of the real NCCL. Returns its error.
  virtual ncclResult_t exchange(std::size_t step) = 0;
  /// After that group's end.
  virtual Status conclude(std::size_t step) = 0;
  /// Compressed bytes that this rank has sent, and what they would be uncompressed.
  virtual std::uint64_t sent_bytes() const = 0;
  virtual std::uint64_t raw_bytes() const = 0;
};

/// Ends a call where it was made: in call_memory(), so in the same thread.
struct StreamCallEnd {
  void (*end)(StreamCall*) = nullptr;
  void operator()(StreamCall* call) const { end(call); }
};
using StreamCallPointer = std::unique_ptr<StreamCall, StreamCallEnd>;

template <typename Made, typename... Args>
StreamCallPointer make_stream_call(Args&&... args) {
  const auto end = [](StreamCall* call) {
    std::pmr::polymorphic_allocator<>(call_memory()).delete_object(static_cast<Made*>(call));
  };
  std::pmr::polymorphic_allocator<> allocator(call_memory());
  return {allocator.new_object<Made>(std::forward<Args>(args)...), StreamCallEnd{end}};
}

/// Scatter-reduce-allgather: stream_sra.cc. The lane is of sra_lane(); `rounds` are those of the
/// codec's Agreement, at most.
StreamCallPointer make_sra_call(const StreamCallParts& parts);
LaneShape sra_lane(std::size_t world, std::size_t rounds);

/// A ring whose sums come from both sides: stream_ring.cc. The lane is of ring_lane().
StreamCallPointer make_ring_call(const StreamCallParts& parts);
LaneShape ring_lane(std::size_t world, std::size_t rounds);

/// An all-gather: stream_gather.cc. The lane is one of the above with room for it; the codec has no
/// Agreement.
StreamCallPointer make_gather_call(const StreamCallParts& parts);
void make_room_to_gather(std::size_t world, LaneShape* shape);

/// What `hier` needs besides: the exact sums of the ranks of one host.
struct HostParts {
  ncclComm_t whole = nullptr;  // All ranks.
  ncclComm_t local = nullptr;  // Those of this host, numbered as in `rank`.
  std::size_t rank = 0;
  std::size_t size = 0;
  ncclDataType_t dtype = ncclFloat32;
  ncclRedOp_t op = ncclSum;
};
/// Exact inside each host, compressed between hosts: stream_hier.cc. `parts` are those of the call,
/// but `comm`, `rank` and `world` are those of the ranks with the same number on each host; the
/// residual has one element for each of the part that this rank reduces: hier_part(). All-reduces.
StreamCallPointer make_hier_call(const StreamCallParts& parts, const HostParts& host);
/// Elements of a call that each of so many ranks of a host reduces.
inline std::size_t hier_part(std::size_t count, std::size_t local_size) {
  return count / local_size;
}

/// What an all-reduce by projection needs besides.
struct ProjectionParts {
  DeviceProjection* projection = nullptr;
  /// What is kept of the tensor: a number and state_count() floats; null: nothing. Of no other
  /// call.
  std::uint64_t* state = nullptr;
  std::byte* memory = nullptr;       // projection_bytes(), for this call.
  bool goes_round_the_ring = false;  // The sums that have a codec.
};
/// All-reduces a projection of the tensor: stream_projection.cc. `parts` are those of the call.
StreamCallPointer make_projection_call(const StreamCallParts& parts,
                                       const ProjectionParts& projection);
std::size_t projection_bytes(const DeviceProjection& projection, std::size_t count);
/// Floats of ProjectionParts::state.
std::size_t projection_state_floats(const DeviceProjection& projection, std::size_t count);

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_CALLS_STREAM_CALL_H_
