// A ring whose partial sums come to a shard's owner from both sides, for codecs that requantise.
//
// A sum that is encoded again at each hop gathers an error at each, and the errors grow with what
// it holds. Where all sums go round one way (ring.cc), the last ones hold N - 1 contributions; here
// the owner adds two sums of half as many. For independent values the errors of all hops are then
// half as large, for ranks with equal values a quarter. The bytes are the same, the stages half as
// many.
//
// Rank r owns shard r, and r + k is the rank k places after it; chunks, slices, ticks and labels
// are those of ring.cc. Of the N - 1 other ranks, the H = N / 2 to the left of an owner send their
// sums rightwards, the others leftwards. If these are one less, their way begins one stage later,
// so that both sums arrive at once:
//
//   stage s < H      shard r + (H - s): add own values to what the left neighbour sent, if it was
//                    not the first, and send the sum to the right; shard r - (H - s) the other way
//   stage H          shard r is complete: add both sums to own values, divide for an average,
//                    encode, keep what the bytes decode to, send them to both sides
//   stage H + d      decode shard r + d, which came from the right, and r - d, from the left; send
//                    the same bytes on
//
// Results go H ranks to the left and N - 1 - H to the right, so that both directions carry N - 1
// frames a slice. Each rank encodes each element once per call, so one residual per element is
// enough. The owner decodes sums of equal width: what the shorter side sends it counts as holding
// as many contributions as what the longer one does.
#include "ring/collective/two_way_ring.h"

#include <cstring>

#include "ring/collective/chunked_call.h"
#include "ring/collective/pipeline.h"
#include "ringpress/internal/two_way_schedule.h"

namespace ringpress::ring {
namespace {

constexpr std::size_t kLag = 2;            // Ticks between the stages of a slice.
constexpr std::size_t kWindow = 2 * kLag;  // Slots per stage and side: see ring.cc.

/// One call on one rank.
class TwoWayCall : ChunkedCall {
 public:
  TwoWayCall(const CollectiveContext& context, ShardedTensor tensor, std::span<const int> order,
             bool scatters_only)
      : ChunkedCall(context, std::move(tensor)),
        schedule_(order, rank_, world_, scatters_only),
        middle_(schedule_.middle()),
        sending_(context, /*first_slot=*/0, 2 * (2 * middle_ + 1) * kWindow, largest_chunk_bytes()),
        arriving_(context, 2 * (2 * middle_ + 1), kWindow),
        arrivals_(context, 2) {}

  Status run() {
    RINGPRESS_RETURN_IF_ERROR(run_stages(
        schedule_.last() + 1, kLag,
        [this](std::size_t stage, std::size_t slice) { return run_stage(stage, slice); }));
    return sending_.drain();
  }

 private:
  Status run_stage(std::size_t stage, std::size_t slice) {
    for (const Side side : kSides) RINGPRESS_RETURN_IF_ERROR(expect_next(stage, side, slice));
    if (stage == middle_) return complete(slice);
    for (const Side side : kSides) {
      if (!schedule_.is_busy(stage, side)) continue;
      const Range range = chunk_of_shard(schedule_.shard_in(stage, side), slice);
      if (range.count == 0) continue;
      RINGPRESS_RETURN_IF_ERROR(stage < middle_ ? add_own(stage, side, slice, range)
                                                : take_result(stage, side, slice, range));
    }
    return Status::ok();
  }

  int neighbour(Side side) const { return static_cast<int>(schedule_.neighbour(side)); }

  /// Posts the receive of the frame travelling to `side` that stage + 1 of this slice works on.
  Status expect_next(std::size_t stage, Side side, std::size_t slice) {
    if (!schedule_.sends(stage, side)) return Status::ok();
    const Range range = chunk_of_shard(schedule_.shard_in(stage + 1, side), slice);
    if (range.count == 0) return Status::ok();
    RINGPRESS_ASSIGN_OR_RETURN(
        Request * request, mesh_.irecv_view(neighbour(opposite(side)),
                                            frame_length(range, schedule_.summed_in(stage, side)),
                                            label(stage, slice)));
    arriving_.put(TwoWaySchedule::row(stage + 1, side), slice, request);
    return Status::ok();
  }

  /// Sends own values, or the sum of them and of what arrived.
  Status add_own(std::size_t stage, Side side, std::size_t slice, const Range& range) {
    const Encoding sum =
        encoding(schedule_.shard_in(stage, side), slice, schedule_.summed_in(stage, side));
    if (stage == schedule_.first_stage(side)) {
      RINGPRESS_ASSIGN_OR_RETURN(std::byte * memory, sending_.acquire(slot(stage, side, slice)));
      return send(stage, side, slice, {memory, encode(range, sum, memory, nullptr)});
    }
    Request* view = arriving_.take(TwoWaySchedule::row(stage, side), slice);
    RINGPRESS_ASSIGN_OR_RETURN(const ConstBuffer part, mesh_.wait(view));
    RINGPRESS_ASSIGN_OR_RETURN(std::byte * memory, sending_.acquire(slot(stage, side, slice)));
    DecodeAddEncodeArgs args = hop_arguments(range, sum);
    const std::byte* const wires[] = {part.data};
    const std::size_t wire_sizes[] = {part.bytes};
    args.wires = wires;
    args.wire_sizes = wire_sizes;
    args.wire_contributions = schedule_.summed_in(stage - 1, side);
    args.residual = residual(range);
    args.wire = memory;
    const std::size_t written = codec_.decode_add_encode(args);
    mesh_.release(view);
    return send(stage, side, slice, {memory, written});
  }

  /// The middle stage: adds both sums to own values. Two ranks have one sum only.
  Status complete(std::size_t slice) {
    const Range range = chunk_of_shard(rank_, slice);
    if (range.count == 0) return Status::ok();
    for (const Side side : kSides) {
      if (schedule_.reach_of_sums(side) == 0) continue;
      RINGPRESS_RETURN_IF_ERROR(
          arrivals_.wait_for(arriving_.take(TwoWaySchedule::row(middle_, side), slice)));
    }
    RINGPRESS_ASSIGN_OR_RETURN(std::byte * memory,
                               sending_.acquire(slot(middle_, Side::kRight, slice)));
    const bool is_sent = middle_ < schedule_.last();
    DecodeAddEncodeArgs args = hop_arguments(range, encoding(rank_, slice, world_));
    args.wires = arrivals_.wires();
    args.wire_sizes = arrivals_.wire_sizes();
    args.wire_contributions = middle_;
    args.divisor = divisor_of(context_);
    args.residual = is_sent ? residual(range) : nullptr;
    args.wire = is_sent ? memory : nullptr;
    args.decoded = tensor_.receive_at(range.offset);
    const std::size_t written = codec_.decode_add_encode(args);
    arrivals_.release();
    return is_sent ? publish(slice, {memory, written}) : Status::ok();
  }

  /// Both sides send from the same memory.
  Status publish(std::size_t slice, ConstBuffer payload) {
    for (const Side side : kSides) {
      if (schedule_.reach_of_results(side) == 0) continue;
      RINGPRESS_RETURN_IF_ERROR(
          sending_.keep(slot(middle_, Side::kRight, slice),
                        mesh_.isend(neighbour(side), payload, label(middle_, slice))));
    }
    return Status::ok();
  }

  /// A complete shard: decode it, and send a copy of the bytes on if others wait for them (ring.cc
  /// says why a copy).
  Status take_result(std::size_t stage, Side side, std::size_t slice, const Range& range) {
    Request* view = arriving_.take(TwoWaySchedule::row(stage, side), slice);
    RINGPRESS_ASSIGN_OR_RETURN(const ConstBuffer payload, mesh_.wait(view));
    if (schedule_.sends(stage, side)) {
      RINGPRESS_ASSIGN_OR_RETURN(std::byte * memory, sending_.acquire(slot(stage, side, slice)));
      std::memcpy(memory, payload.data, payload.bytes);
      RINGPRESS_RETURN_IF_ERROR(send(stage, side, slice, {memory, payload.bytes}));
    }
    decode(range, encoding(schedule_.shard_in(stage, side), slice, world_), payload,
           tensor_.receive_at(range.offset));
    mesh_.release(view);
    return Status::ok();
  }

  Status send(std::size_t stage, Side side, std::size_t slice, ConstBuffer payload) {
    return sending_.keep(slot(stage, side, slice),
                         mesh_.isend(neighbour(side), payload, label(stage, slice)));
  }
  /// Each stage has kWindow slots of its own for either side, used in turn.
  std::size_t slot(std::size_t stage, Side side, std::size_t slice) const {
    return TwoWaySchedule::row(stage, side) * kWindow + slice % kWindow;
  }

  const TwoWaySchedule schedule_;
  const std::size_t middle_;  // H, and the stage in which the shards are complete.
  SendWindow sending_;
  ReceiveWindow arriving_;  // By TwoWaySchedule::row(), of the stage that waits.
  Arrivals arrivals_;       // Of one chunk, in the middle stage.
};

}  // namespace

Status all_reduce_two_ways(const CollectiveContext& context, const AllReduceArgs& args,
                           std::span<const int> order) {
  return TwoWayCall(context, tensor_of(context, args), order, false).run();
}

Status reduce_scatter_two_ways(const CollectiveContext& context, const ReduceScatterArgs& args,
                               std::span<const int> order) {
  return TwoWayCall(context, tensor_of(context, args), order, true).run();
}

}  // namespace ringpress::ring
