// Scatter-reduce-allgather. Rank r owns shard r. For each chunk, three stages:
//
//   1. scatter   encode the chunk of every other rank's shard and send it to its owner   (step 0)
//   2. reduce    on the owner: decode what the others sent, add own values, in rank order; encode
//                the sum and send the same bytes to everybody                            (step 1)
//   3. gather    decode what each owner sent; the owner has decoded its own bytes too, so all ranks
//                end with identical values
//
// A codec for which the ranks must agree on something first has stages of its own before these
// (chunk_agreement.h).
//
// Stage s of chunk c runs at tick c + s * kLag (pipeline.h): while chunk c is encoded, earlier ones
// are on the wire or being decoded. Each rank encodes each element once: the elements of foreign
// shards in stage 1, those of its own shard in stage 2, so one residual per element is enough.
//
// Parts of the tensor may have codecs of their own; chunks are cut as if they had one. A chunk's
// frame then holds what its parts are encoded to (part_codecs.h).
//
// Frames of an identity codec are sent from the caller's memory, except to peers that read staging
// memory in place: a copy in this rank's cache costs less than one between processes.
#include "ring/collective/sra.h"

#include <cstring>

#include "ring/collective/chunked_call.h"
#include "ring/collective/direct.h"
#include "ring/collective/pipeline.h"
#include "ring/collective/projected.h"

namespace ringpress::ring {
namespace {

constexpr std::size_t kLag = 2;
constexpr std::size_t kWindow = 2 * kLag;
constexpr std::uint32_t kScatterStep = 0;
constexpr std::uint32_t kGatherStep = 1;
// Slots of staging memory: scatter uses 0..kWindow-1, gather the next ones.
constexpr std::size_t kScatterSlots = 0;
constexpr std::size_t kGatherSlots = kWindow;

std::size_t aligned(std::size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

/// One call on one rank.
class SraCall : ChunkedCall {
 public:
  SraCall(const CollectiveContext& context, ShardedTensor tensor)
      : ChunkedCall(context, std::move(tensor)),
        chunk_wire_bytes_(largest_chunk_bytes()),
        sends_from_caller_(sends_caller_memory_ && !any_reads_staging(mesh_, chunk_wire_bytes_)),
        slot_bytes_(sends_from_caller_ ? 0 : aligned(chunk_wire_bytes_)),
        scattering_(context, kScatterSlots, kWindow, slot_bytes_ * (world_ - 1)),
        gathering_(context, kGatherSlots, kWindow, slot_bytes_),
        contributions_(context, world_, kWindow),
        arrivals_(context, world_ - 1),
        results_(context, world_, kWindow) {}

  Status all_reduce() {
    return run(3, [this](std::size_t stage, std::size_t chunk) {
      if (stage == 0) return scatter(chunk);
      if (stage == 1) return reduce_and_publish(chunk);
      return gather(chunk);
    });
  }

  Status reduce_scatter() {
    return run(2, [this](std::size_t stage, std::size_t chunk) {
      return stage == 0 ? scatter(chunk) : reduce_for_owner(chunk);
    });
  }

  Status all_gather() {
    return run(2, [this](std::size_t stage, std::size_t chunk) {
      return stage == 0 ? encode_and_publish(chunk) : gather(chunk);
    });
  }

 private:
  template <typename Stage>
  Status run(std::size_t stages, Stage&& stage) {
    RINGPRESS_RETURN_IF_ERROR(run_stages(stages, kLag, stage));
    RINGPRESS_RETURN_IF_ERROR(scattering_.drain());
    return gathering_.drain();
  }

  /// Peers in an order that spreads the load: the next rank first.
  std::size_t peer_at(std::size_t distance) const { return (rank_ + distance) % world_; }

  Status scatter(std::size_t chunk) {
    RINGPRESS_RETURN_IF_ERROR(expect_contributions(chunk));
    RINGPRESS_ASSIGN_OR_RETURN(std::byte * memory, scattering_.acquire(chunk));
    for (std::size_t distance = 1; distance < world_; ++distance) {
      const std::size_t peer = peer_at(distance);
      const Range range = chunk_of_shard(peer, chunk);
      if (range.count == 0) continue;
      ConstBuffer payload(tensor_.send_at(range.offset), codec_.wire_bytes(range.count, form(1)));
      if (!sends_caller_memory_ || mesh_.reads_staging(static_cast<int>(peer), chunk_wire_bytes_)) {
        std::byte* wire = memory + (distance - 1) * slot_bytes_;
        payload = {wire, encode(range, encoding(peer, chunk, 1), wire, nullptr)};
      }
      RINGPRESS_RETURN_IF_ERROR(scattering_.keep(
          chunk, mesh_.isend(static_cast<int>(peer), payload, label(kScatterStep, chunk))));
    }
    return Status::ok();
  }

  /// Posts the receives that reduce will wait for.
  Status expect_contributions(std::size_t chunk) {
    const Range own = chunk_of_shard(rank_, chunk);
    if (own.count == 0) return Status::ok();
    for (std::size_t peer = 0; peer < world_; ++peer) {
      if (peer == rank_) continue;
      RINGPRESS_ASSIGN_OR_RETURN(Request * request,
                                 mesh_.irecv_view(static_cast<int>(peer), frame_length(own, 1),
                                                  label(kScatterStep, chunk)));
      contributions_.put(peer, chunk, request);
    }
    return Status::ok();
  }

  Status reduce_and_publish(std::size_t chunk) {
    RINGPRESS_RETURN_IF_ERROR(expect_results(chunk));
    const Range own = chunk_of_shard(rank_, chunk);
    if (own.count == 0) return Status::ok();
    RINGPRESS_ASSIGN_OR_RETURN(std::byte * memory, gathering_.acquire(chunk));
    std::byte* wire = sends_from_caller_ ? tensor_.receive_at(own.offset) : memory;
    RINGPRESS_ASSIGN_OR_RETURN(const std::size_t bytes, reduce(chunk, wire, residual(own)));
    return publish(chunk, {wire, bytes});
  }

  Status reduce_for_owner(std::size_t chunk) {
    const Range own = chunk_of_shard(rank_, chunk);
    return own.count == 0 ? Status::ok() : reduce(chunk, nullptr, nullptr).status();
  }

  Status encode_and_publish(std::size_t chunk) {
    RINGPRESS_RETURN_IF_ERROR(expect_results(chunk));
    const Range own = chunk_of_shard(rank_, chunk);
    if (own.count == 0) return Status::ok();
    RINGPRESS_ASSIGN_OR_RETURN(std::byte * memory, gathering_.acquire(chunk));
    std::byte* own_result = tensor_.receive_at(own.offset);
    if (!sends_from_caller_) {
      return publish(chunk,
                     {memory, encode(own, encoding(rank_, chunk, world_), memory, own_result)});
    }
    const std::size_t bytes = codec_.wire_bytes(own.count);
    if (own_result != tensor_.send_at(own.offset)) {
      std::memcpy(own_result, tensor_.send_at(own.offset), bytes);
    }
    return publish(chunk, {own_result, bytes});
  }

  /// Waits for the others' contributions to a chunk of its own and reduces them with this rank's
  /// values. Gives the bytes written to `wire`.
  Result<std::size_t> reduce(std::size_t chunk, std::byte* wire, float* error_feedback) {
    const Range own = chunk_of_shard(rank_, chunk);
    for (std::size_t peer = 0; peer < world_; ++peer) {
      if (peer == rank_) continue;
      RINGPRESS_RETURN_IF_ERROR(arrivals_.wait_for(contributions_.take(peer, chunk)));
    }
    DecodeAddEncodeArgs hop = hop_arguments(own, encoding(rank_, chunk, world_));
    hop.wires = arrivals_.wires();
    hop.wire_sizes = arrivals_.wire_sizes();
    hop.own_position = rank_;
    hop.divisor = divisor_of(context_);
    hop.residual = error_feedback;
    hop.wire = wire;
    hop.decoded = tensor_.receive_at(own.offset);
    const std::size_t bytes = codecs_.decode_add_encode(own, hop);
    arrivals_.release();
    return bytes;
  }

  Status publish(std::size_t chunk, ConstBuffer payload) {
    for (std::size_t distance = 1; distance < world_; ++distance) {
      RINGPRESS_RETURN_IF_ERROR(gathering_.keep(
          chunk,
          mesh_.isend(static_cast<int>(peer_at(distance)), payload, label(kGatherStep, chunk))));
    }
    return Status::ok();
  }

  /// Posts the receives that gather will wait for. An identity codec's bytes go straight to their
  /// place: a peer publishes a chunk only after it has this rank's contribution to it, so in-place
  /// memory is no longer being sent from.
  Status expect_results(std::size_t chunk) {
    for (std::size_t distance = 1; distance < world_; ++distance) {
      const std::size_t peer = peer_at(distance);
      const Range range = chunk_of_shard(peer, chunk);
      if (range.count == 0) continue;
      const FrameLength length = frame_length(range, world_);
      auto request =
          codec_.traits().identity
              ? mesh_.irecv(static_cast<int>(peer),
                            Buffer{tensor_.receive_at(range.offset), length.bytes},
                            label(kGatherStep, chunk))
              : mesh_.irecv_view(static_cast<int>(peer), length, label(kGatherStep, chunk));
      if (!request.is_ok()) return request.status();
      results_.put(peer, chunk, request.value());
    }
    return Status::ok();
  }

  Status gather(std::size_t chunk) {
    for (std::size_t distance = 1; distance < world_; ++distance) {
      const std::size_t peer = peer_at(distance);
      const Range range = chunk_of_shard(peer, chunk);
      if (range.count == 0) continue;
      Request* request = results_.take(peer, chunk);
      RINGPRESS_ASSIGN_OR_RETURN(const ConstBuffer view, mesh_.wait(request));
      if (!codec_.traits().identity) {
        decode(range, encoding(peer, chunk, world_), view, tensor_.receive_at(range.offset));
      }
      mesh_.release(request);
    }
    return Status::ok();
  }

  const std::size_t chunk_wire_bytes_;  // Of a whole chunk.
  const bool sends_from_caller_;        // No frame passes through staging memory.
  const std::size_t slot_bytes_;
  SendWindow scattering_;
  SendWindow gathering_;
  ReceiveWindow contributions_;  // By peer: for reduce.
  Arrivals arrivals_;            // Of one chunk, in reduce.
  ReceiveWindow results_;        // By peer: for gather.
};

}  // namespace

Status ScatterReduceAllGather::all_reduce(const CollectiveContext& context,
                                          const AllReduceArgs& args) const {
  if (context.codec->projection() != nullptr) return all_reduce_projected(*this, context, args);
  if (exchanges_whole(context, args.count)) return all_reduce_whole(context, args);
  return SraCall(context, tensor_of(context, args)).all_reduce();
}

Status ScatterReduceAllGather::reduce_scatter(const CollectiveContext& context,
                                              const ReduceScatterArgs& args) const {
  RINGPRESS_RETURN_IF_ERROR(check_no_projection(context));
  return SraCall(context, tensor_of(context, args)).reduce_scatter();
}

Status ScatterReduceAllGather::all_gather(const CollectiveContext& context,
                                          const AllGatherArgs& args) const {
  RINGPRESS_RETURN_IF_ERROR(check_no_projection(context));
  return SraCall(context, tensor_of(context, args)).all_gather();
}

}  // namespace ringpress::ring
