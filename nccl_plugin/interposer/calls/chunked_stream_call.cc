#include "nccl_plugin/interposer/calls/chunked_stream_call.h"

#include <algorithm>

namespace ringpress::nccl_plugin::interposer {
namespace {

// A call is cut into about so many chunks, if they do not become small: below some 100 KB, starting
// a group of sends costs more than what overlaps.
constexpr std::size_t kChunks = 8;
constexpr std::size_t kSmallestSlice = 256 * 1024;  // Elements of all shards' chunks together.

}  // namespace

ChunkedStreamCall::ChunkedStreamCall(const StreamCallParts& parts)
    : parts_(parts),
      scatters_only_(parts.kind == CollectiveKind::kReduceScatter),
      element_bytes_(dtype_size(parts.codec->codec().dtype())) {
  const std::size_t shard_count = shard(0).count;  // The largest.
  std::size_t wanted = parts.chunk_elements;
  if (wanted == 0) wanted = std::max(shard_count / kChunks, kSmallestSlice / parts.world);
  chunk_elements_ = std::min({whole_tiles(std::max<std::size_t>(wanted, 1)),
                              whole_tiles(shard_count), parts.lane->chunk_elements()});
  chunks_ = (shard_count + chunk_elements_ - 1) / chunk_elements_;
}

ElementRange ChunkedStreamCall::shard(std::size_t owner) const {
  // All but all-reduces count elements by rank.
  if (parts_.kind != CollectiveKind::kAllReduce) return {owner * parts_.count, parts_.count};
  return even_shard(parts_.count, parts_.world, kTileElements, owner);
}

ElementRange ChunkedStreamCall::chunk_of_shard(std::size_t owner, std::size_t chunk) const {
  return chunk_of(shard(owner), chunk, chunk_elements_);
}

const std::byte* ChunkedStreamCall::send_at(std::size_t element) const {
  return static_cast<const std::byte*>(parts_.send) + element * element_bytes_;
}

std::byte* ChunkedStreamCall::receive_at(std::size_t element) const {
  const std::size_t origin = scatters_only_ ? shard(parts_.rank).offset : 0;
  return static_cast<std::byte*>(parts_.receive) + (element - origin) * element_bytes_;
}

std::size_t ChunkedStreamCall::divisor() const {
  return parts_.codec->codec().op() == ReduceOp::kAvg ? parts_.world : 1;
}

std::uint64_t ChunkedStreamCall::raw_bytes() const {
  const std::uint64_t bytes = parts_.count * element_bytes_;
  return parts_.kind != CollectiveKind::kAllReduce ? bytes * (parts_.world - 1)
                                                   : bytes * 2 * (parts_.world - 1) / parts_.world;
}

Status ChunkedStreamCall::hand_over(Event event, Stream from, Stream to) {
  RINGPRESS_RETURN_IF_ERROR(parts_.device->record(event, from));
  return parts_.device->wait(to, event);
}

Status ChunkedStreamCall::begin() {
  Lane& lane = *parts_.lane;
  if (lane.was_used) {
    RINGPRESS_RETURN_IF_ERROR(parts_.device->wait(parts_.stream, lane.events().done));
  }
  return hand_over(lane.events().started, parts_.stream, lane.stream());
}

Status ChunkedStreamCall::end() {
  Lane& lane = *parts_.lane;
  lane.was_used = true;
  return hand_over(lane.events().done, lane.stream(), parts_.stream);
}

ncclResult_t ChunkedStreamCall::send(const std::byte* memory, std::size_t bytes, std::size_t to) {
  sent_bytes_ += bytes;
  return parts_.real->Send(memory, bytes, ncclUint8, static_cast<int>(to), parts_.comm,
                           static_cast<cudaStream_t>(parts_.stream));
}

ncclResult_t ChunkedStreamCall::receive(std::byte* memory, std::size_t bytes, std::size_t from) {
  return parts_.real->Recv(memory, bytes, ncclUint8, static_cast<int>(from), parts_.comm,
                           static_cast<cudaStream_t>(parts_.stream));
}

}  // namespace ringpress::nccl_plugin::interposer
