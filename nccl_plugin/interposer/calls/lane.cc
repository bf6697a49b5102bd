#include "nccl_plugin/interposer/calls/lane.h"

#include <algorithm>

namespace ringpress::nccl_plugin::interposer {

namespace {

std::size_t aligned(std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Result<std::unique_ptr<Lane>> Lane::make(Device& device, LaneShape shape) {
  shape.region_bytes = aligned(shape.region_bytes);
  shape.agreement_bytes = aligned(shape.agreement_bytes);
  std::unique_ptr<Lane> lane(new Lane(device, shape));
  const std::size_t chunks = shape.slots * shape.regions * shape.region_bytes;
  const std::size_t agreement = (1 + shape.agreement_slots) * shape.agreement_bytes;
  const std::size_t scratch = std::max(shape.scratch_bytes, shape.scales_bytes);
  RINGPRESS_ASSIGN_OR_RETURN(void* memory, device.allocate(chunks + agreement + scratch));
  lane->memory_ = static_cast<std::byte*>(memory);
  lane->agreement_memory_ = lane->memory_ + chunks;
  if (scratch > 0) lane->scratch_ = lane->agreement_memory_ + agreement;
  RINGPRESS_ASSIGN_OR_RETURN(lane->stream_, device.create_stream());
  lane->has_stream_ = true;
  for (Event& event : lane->all_events_) {
    RINGPRESS_ASSIGN_OR_RETURN(event, device.create_event());
    ++lane->made_events_;
  }
  const auto& all = lane->all_events_;
  lane->events_ = {all[0], all[1], all[2], all[3], {all[4], all[5]}, {all[6], all[7]}};
  return lane;
}

Lane::~Lane() {
  for (std::size_t i = 0; i < made_events_; ++i) device_.destroy_event(all_events_[i]);
  if (has_stream_) device_.destroy_stream(stream_);
  if (memory_ != nullptr) device_.free(memory_);
}

}  // namespace ringpress::nccl_plugin::interposer
