// Scatter-reduce-allgather as in ring/collective/sra.cc, with the same shards: rank r owns shard r.
// For each chunk:
//
//   1. scatter   encode the chunk of every other rank's shard (our stream), send each to its owner
//   2. reduce    on the owner: decode, add own values, in rank order; encode (ours); send to all
//   3. gather    decode what each owner sent (ours); the owner has decoded its own bytes too
//
// Round t does stage 1 of chunk t, stage 2 of chunk t - 1, stage 3 of chunk t - 2, so chunk t is
// encoded while chunk t - 1 is on the wire. A round has two steps, one for each exchange. Regions
// of a slot, and why two slots are enough:
//   outgoing, one a rank   own values for each owner; written again by encode(t + 2), after
//   reduce(t)
//                          has waited for scatter(t)
//   incoming, one a rank   what the others sent to this owner; by scatter(t + 2), after the
//   caller's
//                          stream has waited for reduce(t)
//   gathered, one a rank   the sums of the other owners; by the exchange of t + 2, which waits for
//                          reduce(t + 2), after gather stage (t)
//   result                 the sum that this owner sends to everybody; by reduce(t + 2), after
//   gather
//                          stage (t) has waited for the exchange of t
#include <vector>

#include "nccl_plugin/interposer/chunked_stream_call.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

constexpr std::size_t kSlots = 2;

class SraCall final : public ChunkedStreamCall {
 public:
  explicit SraCall(const StreamCallParts& parts)
      : ChunkedStreamCall(parts), rounds_(chunks_ + (scatters_only_ ? 1 : 2)) {}

  std::size_t steps() const override { return 2 * rounds_; }
  bool exchanges(std::size_t step) const override;
  Status prepare(std::size_t step) override;
  ncclResult_t exchange(std::size_t step) override;
  Status conclude(std::size_t step) override;

 private:
  std::byte* outgoing(std::size_t chunk, std::size_t rank) const {
    return parts_.lane->region(chunk, rank);
  }
  std::byte* incoming(std::size_t chunk, std::size_t rank) const {
    return parts_.lane->region(chunk, parts_.world + rank);
  }
  std::byte* gathered(std::size_t chunk, std::size_t rank) const {
    return parts_.lane->region(chunk, 2 * parts_.world + rank);
  }
  std::byte* result(std::size_t chunk) const {
    return parts_.lane->region(chunk, 3 * parts_.world);
  }

  Status encode(std::size_t chunk);
  Status reduce(std::size_t chunk);
  DecodeAddEncodeArgs reduction(const Range& own, std::size_t chunk) const;
  Status decode(std::size_t chunk);
  ncclResult_t scatter(std::size_t chunk);
  ncclResult_t gather(std::size_t chunk);

  const std::size_t rounds_;
  std::vector<EncodeArgs> encodes_;
  std::vector<DecodeArgs> decodes_;
  std::vector<const std::byte*> wires_;
  std::vector<std::size_t> wire_sizes_;
};

bool SraCall::exchanges(std::size_t step) const {
  const std::size_t round = step / 2;
  if (step % 2 == 0) return round < chunks_;
  return !scatters_only_ && round >= 1 && round <= chunks_;
}

Status SraCall::prepare(std::size_t step) {
  const std::size_t round = step / 2;
  if (step == 0) RINGPRESS_RETURN_IF_ERROR(begin());
  if (step % 2 == 0) return round < chunks_ ? encode(round) : Status::ok();
  if (round >= 1 && round <= chunks_) RINGPRESS_RETURN_IF_ERROR(reduce(round - 1));
  if (!scatters_only_ && round >= 2) RINGPRESS_RETURN_IF_ERROR(decode(round - 2));
  return step + 1 == steps() ? end() : Status::ok();
}

ncclResult_t SraCall::exchange(std::size_t step) {
  return step % 2 == 0 ? scatter(step / 2) : gather(step / 2 - 1);
}

Status SraCall::conclude(std::size_t step) {
  const Lane::Events& events = parts_.lane->events();
  const std::size_t round = step / 2;
  const Event event = step % 2 == 0 ? events.scattered[round % kExchangesUnderWay]
                                    : events.gathered[(round - 1) % kExchangesUnderWay];
  return parts_.device->record(event, parts_.stream);
}

Status SraCall::encode(std::size_t chunk) {
  Lane& lane = *parts_.lane;
  encodes_.clear();
  for (std::size_t peer = 0; peer < parts_.world; ++peer) {
    const Range range = chunk_of_shard(peer, chunk);
    if (peer == parts_.rank || range.count == 0) continue;
    EncodeArgs args;
    args.values = send_at(range.offset);
    args.count = range.count;
    args.residual = residual(range);
    args.wire = outgoing(chunk, peer);
    args.random = random_key(range);
    args.form = {1, parts_.world};
    encodes_.push_back(args);
  }
  if (!encodes_.empty()) {
    RINGPRESS_RETURN_IF_ERROR(parts_.codec->encode(lane.stream(), encodes_));
  }
  return hand_over(lane.events().encoded, lane.stream(), parts_.stream);
}

/// Of what the others sent and own values, in rank order.
DecodeAddEncodeArgs SraCall::reduction(const Range& own, std::size_t chunk) const {
  DecodeAddEncodeArgs args;
  args.wires = wires_;
  args.wire_sizes = wire_sizes_;
  args.own_position = parts_.rank;
  args.values = send_at(own.offset);
  args.count = own.count;
  args.divisor = divisor();
  args.residual = scatters_only_ ? nullptr : residual(own);
  args.wire = scatters_only_ ? nullptr : result(chunk);
  args.decoded = receive_at(own.offset);
  args.random = random_key(own);
  args.form = {parts_.world, parts_.world};
  return args;
}

Status SraCall::reduce(std::size_t chunk) {
  Lane& lane = *parts_.lane;
  RINGPRESS_RETURN_IF_ERROR(
      parts_.device->wait(lane.stream(), lane.events().scattered[chunk % kExchangesUnderWay]));
  const Range own = chunk_of_shard(parts_.rank, chunk);
  if (own.count > 0) {
    wires_.clear();
    wire_sizes_.clear();
    for (std::size_t peer = 0; peer < parts_.world; ++peer) {
      if (peer == parts_.rank) continue;
      wires_.push_back(incoming(chunk, peer));
      wire_sizes_.push_back(wire_bytes(own, 1));
    }
    RINGPRESS_RETURN_IF_ERROR(
        parts_.codec->decode_add_encode(lane.stream(), reduction(own, chunk)));
  }
  return hand_over(lane.events().reduced, lane.stream(), parts_.stream);
}

Status SraCall::decode(std::size_t chunk) {
  Lane& lane = *parts_.lane;
  RINGPRESS_RETURN_IF_ERROR(
      parts_.device->wait(lane.stream(), lane.events().gathered[chunk % kExchangesUnderWay]));
  decodes_.clear();
  for (std::size_t peer = 0; peer < parts_.world; ++peer) {
    const Range range = chunk_of_shard(peer, chunk);
    if (peer == parts_.rank || range.count == 0) continue;
    DecodeArgs args;
    args.wire = gathered(chunk, peer);
    args.count = range.count;
    args.values = receive_at(range.offset);
    args.wire_size = wire_bytes(range, parts_.world);
    // Codecs that sum codes without decoding leave the average's division to this.
    args.divisor = parts_.codec->codec().traits().summable ? divisor() : 1;
    args.form = {parts_.world, parts_.world};
    decodes_.push_back(args);
  }
  return decodes_.empty() ? Status::ok() : parts_.codec->decode(lane.stream(), decodes_);
}

ncclResult_t SraCall::scatter(std::size_t chunk) {
  const Range own = chunk_of_shard(parts_.rank, chunk);
  for (std::size_t distance = 1; distance < parts_.world; ++distance) {
    const std::size_t to = (parts_.rank + distance) % parts_.world;
    const std::size_t from = (parts_.rank + parts_.world - distance) % parts_.world;
    const Range range = chunk_of_shard(to, chunk);
    ncclResult_t result = ncclSuccess;
    if (range.count > 0) result = send(outgoing(chunk, to), wire_bytes(range, 1), to);
    if (result == ncclSuccess && own.count > 0) {
      result = receive(incoming(chunk, from), wire_bytes(own, 1), from);
    }
    if (result != ncclSuccess) return result;
  }
  return ncclSuccess;
}

ncclResult_t SraCall::gather(std::size_t chunk) {
  const Range own = chunk_of_shard(parts_.rank, chunk);
  for (std::size_t distance = 1; distance < parts_.world; ++distance) {
    const std::size_t to = (parts_.rank + distance) % parts_.world;
    const std::size_t from = (parts_.rank + parts_.world - distance) % parts_.world;
    const Range range = chunk_of_shard(from, chunk);
    ncclResult_t outcome = ncclSuccess;
    if (own.count > 0) outcome = send(result(chunk), wire_bytes(own, parts_.world), to);
    if (outcome == ncclSuccess && range.count > 0) {
      outcome = receive(gathered(chunk, from), wire_bytes(range, parts_.world), from);
    }
    if (outcome != ncclSuccess) return outcome;
  }
  return ncclSuccess;
}

}  // namespace

std::unique_ptr<StreamCall> make_sra_call(const StreamCallParts& parts) {
  return std::make_unique<SraCall>(parts);
}

LaneShape sra_lane(std::size_t world) {
  return {kSlots, 3 * world + 1, 0, 0};
}

}  // namespace ringpress::nccl_plugin::interposer
