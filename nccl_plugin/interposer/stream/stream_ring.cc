// A ring whose partial sums come to a shard's owner from both sides:
// ring/collective/two_way_ring.cc says which rank does what in which stage and why, and makes the
// same bytes. Sums of codes, which a ring of one direction makes there, are the same in any order.
// Here slice c is in stage s at tick 2 s + c: what a tick computes needs what arrived two ticks
// before, so that it is computed while the exchange of the tick before is under way. Each tick is
// one step. What ranks agree on is a step before all ticks, for the tensor, and stages before all
// others, for each slice (agreeing_stream_call.h).
//
// Regions of a slot, all of one slice; three slots are enough:
//   arriving, one a stage and side   written in the exchange of a tick t, read and sent on at
//                                    t + 2; written again at t + 3
//   leaving, one a stage and side    own values and partial sums: written and sent at t; written
//                                    again at t + 3, which waits for the exchange of t + 1
//   result                           the complete sum of this rank's shard: as leaving
#include <array>

#include "nccl_plugin/interposer/calls/agreeing_stream_call.h"
#include "ringpress/internal/two_way_schedule.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

constexpr std::size_t kLag = 2;
constexpr std::size_t kSlots = 3;

constexpr auto row = TwoWaySchedule::row;

class RingCall final : public AgreeingStreamCall {
 public:
  explicit RingCall(const StreamCallParts& parts)
      : AgreeingStreamCall(parts),
        schedule_(parts.ring_order, parts.rank, parts.world, scatters_only_),
        before_(has_tensor_summary() ? 1 : 0),
        lead_(agreement_stages()),
        middle_(schedule_.middle()),
        last_(schedule_.last()) {}

  std::size_t steps() const override { return before_ + kLag * (lead_ + last_) + chunks_; }
  bool exchanges(std::size_t step) const override;
  Status prepare(std::size_t step) override;
  ncclResult_t exchange(std::size_t step) override;
  Status conclude(std::size_t step) override {
    return parts_.device->record(exchanged(step), parts_.stream);
  }

 private:
  Event exchanged(std::size_t step) const {
    return parts_.lane->events().scattered[step % kExchangesUnderWay];
  }
  /// True if some slice is in a stage at a tick. Here those of the agreement count: what has the
  /// number s below is stage lead_ + s.
  bool has_slice(std::size_t tick, std::size_t stage) const {
    return tick >= kLag * stage && tick - kLag * stage < chunks_;
  }

  std::byte* arriving(std::size_t stage, Side side, std::size_t slice) const {
    return parts_.lane->region(slice, row(stage, side));
  }
  std::byte* leaving(std::size_t stage, Side side, std::size_t slice) const {
    return parts_.lane->region(slice, row(2 * middle_ + 1 + stage, side));
  }
  std::byte* result(std::size_t slice) const {
    return parts_.lane->region(slice, row(3 * middle_ + 1, Side::kRight));
  }
  Range range_in(std::size_t stage, Side side, std::size_t slice) const {
    return chunk_of_shard(schedule_.shard_in(stage, side), slice);
  }

  Status compute(std::size_t stage, std::size_t slice);
  ncclResult_t exchange_frames(std::size_t stage, std::size_t slice);
  Status add_own(std::size_t stage, Side side, std::size_t slice, const Range& range);
  Status complete(std::size_t slice);
  Status take_result(std::size_t stage, Side side, std::size_t slice);
  ncclResult_t send_frame(std::size_t stage, Side side, std::size_t slice);
  ncclResult_t receive_frame(std::size_t stage, Side side, std::size_t slice);

  const TwoWaySchedule schedule_;
  const std::size_t before_;  // Steps before the first tick.
  const std::size_t lead_;    // Stages of the agreement.
  const std::size_t middle_;  // The stage in which the shards are complete.
  const std::size_t last_;
};

bool RingCall::exchanges(std::size_t step) const {
  if (step < before_) return true;
  for (std::size_t stage = 0; stage < lead_ + last_; ++stage) {
    if (has_slice(step - before_, stage)) return true;
  }
  return false;
}

Status RingCall::prepare(std::size_t step) {
  Lane& lane = *parts_.lane;
  if (step == 0) RINGPRESS_RETURN_IF_ERROR(begin());
  if (step < before_) return summarise_tensor();
  if (step == 1 && before_ == 1) RINGPRESS_RETURN_IF_ERROR(merge_tensor_summaries());
  if (step >= kLag && exchanges(step - kLag)) {
    RINGPRESS_RETURN_IF_ERROR(parts_.device->wait(lane.stream(), exchanged(step - kLag)));
  }
  const std::size_t tick = step - before_;
  for (std::size_t stage = 0; stage <= lead_ + last_; ++stage) {
    if (!has_slice(tick, stage)) continue;
    const std::size_t slice = tick - kLag * stage;
    RINGPRESS_RETURN_IF_ERROR(stage < lead_ ? prepare_agreement(stage, slice)
                                            : compute(stage - lead_, slice));
  }
  if (step + 1 == steps()) return end();
  return hand_over(lane.events().encoded, lane.stream(), parts_.stream);
}

Status RingCall::compute(std::size_t stage, std::size_t slice) {
  if (stage == middle_) return complete(slice);
  for (const Side side : kSides) {
    if (!schedule_.is_busy(stage, side)) continue;
    const Range range = range_in(stage, side, slice);
    if (range.count == 0) continue;
    RINGPRESS_RETURN_IF_ERROR(stage < middle_ ? add_own(stage, side, slice, range)
                                              : take_result(stage, side, slice));
  }
  return Status::ok();
}

/// Own values, or the sum of them and of what arrived.
Status RingCall::add_own(std::size_t stage, Side side, std::size_t slice, const Range& range) {
  const Stream stream = parts_.lane->stream();
  const std::size_t shard = schedule_.shard_in(stage, side);
  const std::size_t summed = schedule_.summed_in(stage, side);
  if (stage == schedule_.first_stage(side)) {
    const EncodeArgs args = encode_arguments(shard, slice, summed, leaving(stage, side, slice));
    return parts_.codec->encode(stream, {&args, 1}, parts_.lane->scratch());
  }
  const std::byte* const wires[] = {arriving(stage, side, slice)};
  const std::size_t wire_sizes[] = {wire_bytes(range, schedule_.summed_in(stage - 1, side))};
  DecodeAddEncodeArgs args = hop_arguments(shard, slice, summed);
  args.wires = wires;
  args.wire_sizes = wire_sizes;
  args.wire_contributions = schedule_.summed_in(stage - 1, side);
  args.residual = residual(range);
  args.wire = leaving(stage, side, slice);
  return parts_.codec->decode_add_encode(stream, args, parts_.lane->scratch());
}

/// The middle stage: adds both sums to own values. Two ranks have one sum only.
Status RingCall::complete(std::size_t slice) {
  const Range range = chunk_of_shard(parts_.rank, slice);
  if (range.count == 0) return Status::ok();
  std::array<const std::byte*, 2> wires{};
  std::array<std::size_t, 2> wire_sizes{};
  std::size_t sums = 0;
  for (const Side side : kSides) {
    if (schedule_.reach_of_sums(side) == 0) continue;
    wires[sums] = arriving(middle_, side, slice);
    wire_sizes[sums++] = wire_bytes(range, middle_);
  }
  DecodeAddEncodeArgs args = hop_arguments(parts_.rank, slice, parts_.world);
  args.wires = {wires.data(), sums};
  args.wire_sizes = {wire_sizes.data(), sums};
  args.wire_contributions = middle_;
  args.divisor = divisor();
  args.residual = scatters_only_ ? nullptr : residual(range);
  args.wire = scatters_only_ ? nullptr : result(slice);
  args.decoded = receive_at(range.offset);
  return parts_.codec->decode_add_encode(parts_.lane->stream(), args, parts_.lane->scratch());
}

Status RingCall::take_result(std::size_t stage, Side side, std::size_t slice) {
  const DecodeArgs args =
      decode_arguments(schedule_.shard_in(stage, side), slice, arriving(stage, side, slice));
  return parts_.codec->decode(parts_.lane->stream(), {&args, 1}, parts_.lane->scratch());
}

/// Both sides send the complete sum from the same memory, and results from where they arrived.
ncclResult_t RingCall::send_frame(std::size_t stage, Side side, std::size_t slice) {
  const Range range = range_in(stage, side, slice);
  if (range.count == 0) return ncclSuccess;
  const std::byte* memory = stage == middle_  ? result(slice)
                            : stage < middle_ ? leaving(stage, side, slice)
                                              : arriving(stage, side, slice);
  return send(memory, wire_bytes(range, schedule_.summed_in(stage, side)),
              schedule_.neighbour(side));
}

/// The frame travelling to `side` that stage + 1 of this slice works on.
ncclResult_t RingCall::receive_frame(std::size_t stage, Side side, std::size_t slice) {
  const Range range = range_in(stage + 1, side, slice);
  if (range.count == 0) return ncclSuccess;
  return receive(arriving(stage + 1, side, slice),
                 wire_bytes(range, schedule_.summed_in(stage, side)),
                 schedule_.neighbour(opposite(side)));
}

/// In the same order on both ends of a link: of two ranks, both sides are one link.
ncclResult_t RingCall::exchange_frames(std::size_t stage, std::size_t slice) {
  for (const Side side : kSides) {
    if (!schedule_.sends(stage, side)) continue;
    ncclResult_t outcome = send_frame(stage, side, slice);
    if (outcome == ncclSuccess) outcome = receive_frame(stage, side, slice);
    if (outcome != ncclSuccess) return outcome;
  }
  return ncclSuccess;
}

ncclResult_t RingCall::exchange(std::size_t step) {
  if (step < before_) return exchange_tensor_summaries();
  const std::size_t tick = step - before_;
  for (std::size_t stage = 0; stage < lead_ + last_; ++stage) {
    if (!has_slice(tick, stage)) continue;
    const std::size_t slice = tick - kLag * stage;
    const ncclResult_t outcome =
        stage < lead_ ? exchange_agreement(stage, slice) : exchange_frames(stage - lead_, slice);
    if (outcome != ncclSuccess) return outcome;
  }
  return ncclSuccess;
}

}  // namespace

StreamCallPointer make_ring_call(const StreamCallParts& parts) {
  return make_stream_call<RingCall>(parts);
}

LaneShape ring_lane(std::size_t world, std::size_t rounds) {
  const std::size_t middle = world / 2;
  LaneShape shape;
  shape.slots = kSlots;
  shape.regions = 2 * (3 * middle + 1) + 1;
  // Until the last stage of a slice has read what was agreed on.
  shape.agreement_slots = kLag * (2 * rounds + 2 * middle) + 1;
  return shape;
}

}  // namespace ringpress::nccl_plugin::interposer
