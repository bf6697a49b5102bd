// Scatter-reduce-allgather as in ring/collective/sra.cc, with the same shards: rank r owns shard r.
// For each chunk:
//
//   1. scatter   encode the chunk of every other rank's shard (our stream), send each to its owner
//   2. reduce    on the owner: decode, add own values, in rank order; encode (ours); send to all
//   3. gather    decode what each owner sent (ours); the owner has decoded its own bytes too
//
// What the ranks agree on comes before that (agreeing_stream_call.h): a step about the tensor, and
// L rounds about each chunk. Round t does agreement a of chunk t - a for a < L, stage 1 of chunk
// t - L, stage 2 of chunk t - L - 1, stage 3 of chunk t - L - 2, so one chunk is encoded while the
// one before it is on the wire. A round has two steps, one for each exchange: what goes to owners,
// and what they send to all. Regions of a slot, and why two slots are enough (t: chunk t's first
// round after those of its agreement):
//   outgoing, one a rank   own values for each owner; written again by encode(t + 2), after
//                          reduce(t) has waited for scatter(t)
//   incoming, one a rank   what the others sent to this owner; by scatter(t + 2), after the
//                          caller's stream has waited for reduce(t)
//   gathered, one a rank   the sums of the other owners; by the exchange of t + 2, which waits for
//                          reduce(t + 2), after gather stage (t)
//   result                 the sum that this owner sends to everybody; by reduce(t + 2), after
//                          gather stage (t) has waited for the exchange of t
// What was agreed on for a chunk is read last by its gather stage, L + 2 rounds after it was begun:
// the chunk that begins L + 3 rounds later may have its memory.
#include "nccl_plugin/interposer/calls/agreeing_stream_call.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

constexpr std::size_t kSlots = 2;

/// Regions of a chunk's slot.
struct SraRegions {
  const Lane& lane;
  const std::size_t world;

  std::byte* outgoing(std::size_t chunk, std::size_t rank) const {
    return lane.region(chunk, rank);
  }
  std::byte* incoming(std::size_t chunk, std::size_t rank) const {
    return lane.region(chunk, world + rank);
  }
  std::byte* gathered(std::size_t chunk, std::size_t rank) const {
    return lane.region(chunk, 2 * world + rank);
  }
  std::byte* result(std::size_t chunk) const { return lane.region(chunk, 3 * world); }
};

class SraCall final : public AgreeingStreamCall {
 public:
  explicit SraCall(const StreamCallParts& parts)
      : AgreeingStreamCall(parts),
        before_(has_tensor_summary() ? 1 : 0),
        lead_(agreement_stages() / 2),
        rounds_(lead_ + chunks_ + (scatters_only_ ? 1 : 2)) {}

  std::size_t steps() const override { return before_ + 2 * rounds_; }
  bool exchanges(std::size_t step) const override;
  Status prepare(std::size_t step) override;
  ncclResult_t exchange(std::size_t step) override;
  Status conclude(std::size_t step) override;

 private:
  std::size_t round_of(std::size_t step) const { return (step - before_) / 2; }
  bool is_second(std::size_t step) const { return (step - before_) % 2 == 1; }
  /// True if there is a chunk that began `age` rounds ago.
  bool has_chunk(std::size_t round, std::size_t age) const {
    return round >= age && round - age < chunks_;
  }
  /// True if some chunk is being agreed on.
  bool agrees(std::size_t round) const;
  /// The round in which chunk number `chunk` is scattered.
  std::size_t scatter_round(std::size_t chunk) const { return lead_ + chunk; }

  Status prepare_first(std::size_t round);
  Status prepare_second(std::size_t round);
  /// Stages 2 a or 2 a + 1 of the agreement.
  Status agree(std::size_t round, std::size_t half);
  ncclResult_t exchange_summaries(std::size_t round, std::size_t half);
  Status encode(std::size_t chunk);
  Status reduce(std::size_t chunk);
  DecodeAddEncodeArgs reduction(const Range& own, std::size_t chunk) const;
  Status decode(std::size_t chunk);
  ncclResult_t scatter(std::size_t chunk);
  ncclResult_t gather(std::size_t chunk);

  const std::size_t before_;  // Steps before the first round.
  const std::size_t lead_;    // Rounds in which a chunk is agreed on.
  const std::size_t rounds_;
  const SraRegions regions_{*parts_.lane, parts_.world};
  struct {  // Of the codec, for one stage at a time.
    CallVector<EncodeArgs> encodes;
    CallVector<DecodeArgs> decodes;
    CallVector<const std::byte*> wires;
    CallVector<std::size_t> wire_sizes;
  } arguments_;
};

bool SraCall::agrees(std::size_t round) const {
  return lead_ > 0 && round < chunks_ + lead_ - 1;
}

bool SraCall::exchanges(std::size_t step) const {
  if (step < before_) return true;
  const std::size_t round = round_of(step);
  if (agrees(round)) return true;
  return is_second(step) ? !scatters_only_ && has_chunk(round, lead_ + 1) : has_chunk(round, lead_);
}

Status SraCall::prepare(std::size_t step) {
  Lane& lane = *parts_.lane;
  if (step == 0) RINGPRESS_RETURN_IF_ERROR(begin());
  if (step < before_) return summarise_tensor();
  if (step == 1 && before_ == 1) RINGPRESS_RETURN_IF_ERROR(merge_tensor_summaries());
  const std::size_t round = round_of(step);
  RINGPRESS_RETURN_IF_ERROR(is_second(step) ? prepare_second(round) : prepare_first(round));
  if (exchanges(step)) {
    const Event ready = is_second(step) ? lane.events().reduced : lane.events().encoded;
    RINGPRESS_RETURN_IF_ERROR(hand_over(ready, lane.stream(), parts_.stream));
  }
  // The exchange does not wait for what is decoded.
  const bool decodes = is_second(step) && !scatters_only_ && has_chunk(round, lead_ + 2);
  if (decodes) RINGPRESS_RETURN_IF_ERROR(decode(round - lead_ - 2));
  return step + 1 == steps() ? end() : Status::ok();
}

Status SraCall::prepare_first(std::size_t round) {
  const Lane& lane = *parts_.lane;
  if (round > 0 && agrees(round - 1)) {
    const Event agreed = lane.events().gathered[(round - 1) % kExchangesUnderWay];
    RINGPRESS_RETURN_IF_ERROR(parts_.device->wait(lane.stream(), agreed));
  }
  RINGPRESS_RETURN_IF_ERROR(agree(round, 0));
  return has_chunk(round, lead_) ? encode(round - lead_) : Status::ok();
}

Status SraCall::prepare_second(std::size_t round) {
  const Lane& lane = *parts_.lane;
  if (has_chunk(round, lead_ + 1)) RINGPRESS_RETURN_IF_ERROR(reduce(round - lead_ - 1));
  if (!agrees(round)) return Status::ok();
  const Event summarised = lane.events().scattered[round % kExchangesUnderWay];
  RINGPRESS_RETURN_IF_ERROR(parts_.device->wait(lane.stream(), summarised));
  return agree(round, 1);
}

Status SraCall::agree(std::size_t round, std::size_t half) {
  for (std::size_t age = 0; age < lead_; ++age) {
    if (!has_chunk(round, age)) continue;
    RINGPRESS_RETURN_IF_ERROR(prepare_agreement(2 * age + half, round - age));
  }
  return Status::ok();
}

ncclResult_t SraCall::exchange_summaries(std::size_t round, std::size_t half) {
  for (std::size_t age = 0; age < lead_; ++age) {
    if (!has_chunk(round, age)) continue;
    const ncclResult_t result = exchange_agreement(2 * age + half, round - age);
    if (result != ncclSuccess) return result;
  }
  return ncclSuccess;
}

ncclResult_t SraCall::exchange(std::size_t step) {
  if (step < before_) return exchange_tensor_summaries();
  const std::size_t round = round_of(step);
  const ncclResult_t result = exchange_summaries(round, is_second(step) ? 1 : 0);
  if (result != ncclSuccess) return result;
  if (!is_second(step)) return has_chunk(round, lead_) ? scatter(round - lead_) : ncclSuccess;
  const bool gathers = !scatters_only_ && has_chunk(round, lead_ + 1);
  return gathers ? gather(round - lead_ - 1) : ncclSuccess;
}

Status SraCall::conclude(std::size_t step) {
  if (step < before_) return Status::ok();
  const Lane::Events& events = parts_.lane->events();
  const auto& ends = is_second(step) ? events.gathered : events.scattered;
  return parts_.device->record(ends[round_of(step) % kExchangesUnderWay], parts_.stream);
}

Status SraCall::encode(std::size_t chunk) {
  arguments_.encodes.clear();
  for (std::size_t peer = 0; peer < parts_.world; ++peer) {
    if (peer == parts_.rank || chunk_of_shard(peer, chunk).count == 0) continue;
    arguments_.encodes.push_back(encode_arguments(peer, chunk, 1, regions_.outgoing(chunk, peer)));
  }
  const Lane& lane = *parts_.lane;
  return arguments_.encodes.empty()
             ? Status::ok()
             : parts_.codec->encode(lane.stream(), arguments_.encodes, lane.scratch());
}

/// Of what the others sent and own values, in rank order.
DecodeAddEncodeArgs SraCall::reduction(const Range& own, std::size_t chunk) const {
  DecodeAddEncodeArgs args = hop_arguments(parts_.rank, chunk, parts_.world);
  args.wires = arguments_.wires;
  args.wire_sizes = arguments_.wire_sizes;
  args.own_position = parts_.rank;
  args.divisor = divisor();
  args.residual = scatters_only_ ? nullptr : residual(own);
  args.wire = scatters_only_ ? nullptr : regions_.result(chunk);
  args.decoded = receive_at(own.offset);
  return args;
}

Status SraCall::reduce(std::size_t chunk) {
  const Lane& lane = *parts_.lane;
  const Event scattered = lane.events().scattered[scatter_round(chunk) % kExchangesUnderWay];
  RINGPRESS_RETURN_IF_ERROR(parts_.device->wait(lane.stream(), scattered));
  const Range own = chunk_of_shard(parts_.rank, chunk);
  if (own.count == 0) return Status::ok();
  arguments_.wires.clear();
  arguments_.wire_sizes.clear();
  for (std::size_t peer = 0; peer < parts_.world; ++peer) {
    if (peer == parts_.rank) continue;
    arguments_.wires.push_back(regions_.incoming(chunk, peer));
    arguments_.wire_sizes.push_back(wire_bytes(own, 1));
  }
  return parts_.codec->decode_add_encode(lane.stream(), reduction(own, chunk), lane.scratch());
}

Status SraCall::decode(std::size_t chunk) {
  const Lane& lane = *parts_.lane;
  const Event gathered_all =
      lane.events().gathered[(scatter_round(chunk) + 1) % kExchangesUnderWay];
  RINGPRESS_RETURN_IF_ERROR(parts_.device->wait(lane.stream(), gathered_all));
  arguments_.decodes.clear();
  for (std::size_t peer = 0; peer < parts_.world; ++peer) {
    if (peer == parts_.rank || chunk_of_shard(peer, chunk).count == 0) continue;
    arguments_.decodes.push_back(decode_arguments(peer, chunk, regions_.gathered(chunk, peer)));
  }
  return arguments_.decodes.empty()
             ? Status::ok()
             : parts_.codec->decode(lane.stream(), arguments_.decodes, lane.scratch());
}

ncclResult_t SraCall::scatter(std::size_t chunk) {
  const Range own = chunk_of_shard(parts_.rank, chunk);
  return exchange_with_all(
      [&](std::size_t to) {
        return frame(regions_.outgoing(chunk, to), chunk_of_shard(to, chunk), 1);
      },
      [&](std::size_t from) { return frame(regions_.incoming(chunk, from), own, 1); });
}

ncclResult_t SraCall::gather(std::size_t chunk) {
  const Range own = chunk_of_shard(parts_.rank, chunk);
  return exchange_with_all(
      [&](std::size_t) { return frame(regions_.result(chunk), own, parts_.world); },
      [&](std::size_t from) {
        return frame(regions_.gathered(chunk, from), chunk_of_shard(from, chunk), parts_.world);
      });
}

}  // namespace

StreamCallPointer make_sra_call(const StreamCallParts& parts) {
  return make_stream_call<SraCall>(parts);
}

LaneShape sra_lane(std::size_t world, std::size_t rounds) {
  LaneShape shape;
  shape.slots = kSlots;
  shape.regions = 3 * world + 1;
  shape.agreement_slots = rounds + 3;
  return shape;
}

}  // namespace ringpress::nccl_plugin::interposer
