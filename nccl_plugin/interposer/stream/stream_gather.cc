// All-gathers with RINGPRESS_ALL_GATHER. For each chunk of a rank's own values, the same on all:
//
//   1. gather   encode it (our stream); the real library's own all-gather of the bytes
//   2. decode   what every rank has sent, this one too, so that all end with the same bytes (ours)
//
// Step t does stage 1 of chunk t and stage 2 of chunk t - 1. Regions of a slot, and why two slots
// are enough:
//   own             what this rank sends; written again by encode(t + 2), after decode(t) has
//                   waited for the exchange of t
//   all, in a row   what all ranks sent; by the exchange of t + 2, which waits for what our stream
//                   was asked for before it, so for decode(t)
#include <algorithm>

#include "nccl_plugin/interposer/calls/chunked_stream_call.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

class GatherCall final : public ChunkedStreamCall {
 public:
  explicit GatherCall(const StreamCallParts& parts) : ChunkedStreamCall(parts) {}

  std::size_t steps() const override { return chunks_ + 1; }
  bool exchanges(std::size_t step) const override { return step < chunks_; }
  Status prepare(std::size_t step) override;
  ncclResult_t exchange(std::size_t step) override;
  Status conclude(std::size_t step) override {
    return parts_.device->record(gathered(step), parts_.stream);
  }
  std::uint64_t sent_bytes() const override { return sent_bytes_; }

 private:
  Event gathered(std::size_t chunk) const {
    return parts_.lane->events().gathered[chunk % kExchangesUnderWay];
  }
  std::byte* own(std::size_t chunk) const { return parts_.lane->region(chunk, 0); }
  std::byte* all(std::size_t chunk) const { return parts_.lane->region(chunk, 1); }
  std::size_t bytes_of(std::size_t chunk) const {
    return wire_bytes(chunk_of_shard(parts_.rank, chunk), parts_.world);
  }
  Status encode(std::size_t chunk);
  Status decode(std::size_t chunk);

  std::uint64_t sent_bytes_ = 0;
};

Status GatherCall::prepare(std::size_t step) {
  const Lane& lane = *parts_.lane;
  if (step == 0) RINGPRESS_RETURN_IF_ERROR(begin());
  if (step < chunks_) {
    RINGPRESS_RETURN_IF_ERROR(encode(step));
    RINGPRESS_RETURN_IF_ERROR(hand_over(lane.events().encoded, lane.stream(), parts_.stream));
  }
  if (step > 0) RINGPRESS_RETURN_IF_ERROR(decode(step - 1));
  return step == chunks_ ? end() : Status::ok();
}

ncclResult_t GatherCall::exchange(std::size_t step) {
  const std::size_t bytes = bytes_of(step);
  sent_bytes_ += bytes * (parts_.world - 1);
  return parts_.real->AllGather(own(step), all(step), bytes, ncclUint8, parts_.comm,
                                static_cast<cudaStream_t>(parts_.stream));
}

Status GatherCall::encode(std::size_t chunk) {
  const Range range = chunk_of_shard(parts_.rank, chunk);
  EncodeArgs args;
  // The send buffer holds this rank's values only.
  args.values = send_at(range.offset - parts_.rank * parts_.count);
  args.count = range.count;
  args.wire = own(chunk);
  args.random = random_key(range);
  args.form = {parts_.world, parts_.world};
  const Lane& lane = *parts_.lane;
  return parts_.codec->encode(lane.stream(), {&args, 1}, lane.scratch());
}

Status GatherCall::decode(std::size_t chunk) {
  const Lane& lane = *parts_.lane;
  RINGPRESS_RETURN_IF_ERROR(parts_.device->wait(lane.stream(), gathered(chunk)));
  CallVector<DecodeArgs> decodes;
  for (std::size_t peer = 0; peer < parts_.world; ++peer) {
    const Range range = chunk_of_shard(peer, chunk);
    DecodeArgs args;
    args.wire = all(chunk) + peer * bytes_of(chunk);
    args.wire_size = bytes_of(chunk);
    args.count = range.count;
    args.values = receive_at(range.offset);
    args.form = {parts_.world, parts_.world};
    decodes.push_back(args);
  }
  return parts_.codec->decode(lane.stream(), decodes, lane.scratch());
}

}  // namespace

StreamCallPointer make_gather_call(const StreamCallParts& parts) {
  return make_stream_call<GatherCall>(parts);
}

void make_room_to_gather(std::size_t world, LaneShape* shape) {
  constexpr std::size_t kSlots = 2;
  shape->slots = std::max(shape->slots, kSlots);
  shape->regions = std::max(shape->regions, world + 1);
}

}  // namespace ringpress::nccl_plugin::interposer
