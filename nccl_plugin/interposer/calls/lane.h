// What the compressed calls of one communicator use on its device: a stream of their own, events,
// and memory for chunks on their way. Several chunks are under way at a time, each in a slot of
// equal regions; every algorithm says what its regions are for. What ranks agree on before they
// encode has memory of its own: agreeing_stream_call.h.
#ifndef NCCL_PLUGIN_INTERPOSER_CALLS_LANE_H_
#define NCCL_PLUGIN_INTERPOSER_CALLS_LANE_H_

#include <array>
#include <cstddef>
#include <memory>

#include "ringpress/internal/device.h"

namespace ringpress::nccl_plugin::interposer {

/// How much memory a lane has.
struct LaneShape {
  std::size_t slots = 0;
  std::size_t regions = 0;          // Of one slot.
  std::size_t chunk_elements = 0;   // The most that a chunk of one shard may have.
  std::size_t region_bytes = 0;     // The most that its encoded form takes.
  std::size_t agreement_slots = 0;  // Chunks that are agreed on or under way at a time.
  std::size_t agreement_bytes = 0;  // The most that the summaries of one of all shards take.
  std::size_t scratch_bytes = 0;    // The most that an operation of a codec wants.
  std::size_t scales_bytes = 0;     // The same with coordinate scales, which graphs have not.
};

/// Exchanges that are under way at a time, while the one after them is prepared.
inline constexpr std::size_t kExchangesUnderWay = 2;

class Lane {
 public:
  static Result<std::unique_ptr<Lane>> make(Device& device, LaneShape shape);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  std::size_t chunk_elements() const { return shape_.chunk_elements; }
  Stream stream() const { return stream_; }
  /// Memory for chunk number `chunk`, which it shares with the chunks that come `slots` later.
  std::byte* region(std::size_t chunk, std::size_t number) const {
    return memory_ + (chunk % shape_.slots * shape_.regions + number) * shape_.region_bytes;
  }

  /// Memory for the summary of a tensor, and those that other ranks have sent.
  std::byte* tensor_agreement() const { return agreement_memory_; }
  /// Memory for what is agreed on for chunk number `chunk`. As region(), of `agreement_slots`.
  std::byte* chunk_agreement(std::size_t chunk) const {
    return agreement_memory_ + (1 + chunk % shape_.agreement_slots) * shape_.agreement_bytes;
  }

  /// Memory for one operation of a codec at a time: all are asked for in stream(). Null if none
  /// wants any. Between two calls, that of what is learnt of one.
  std::byte* scratch() const { return scratch_; }

  struct Events {
    Event started, encoded, reduced, done;
    // The ends of exchanges of two kinds, by number.
    std::array<Event, kExchangesUnderWay> scattered, gathered;
  };
  const Events& events() const { return events_; }
  /// True once events().done stands for the end of a call.
  bool was_used = false;

 private:
  static constexpr std::size_t kEvents = 4 + 2 * kExchangesUnderWay;

  Lane(Device& device, const LaneShape& shape) : device_(device), shape_(shape) {}

  Device& device_;
  LaneShape shape_;
  Stream stream_ = nullptr;
  bool has_stream_ = false;
  std::byte* memory_ = nullptr;
  std::byte* agreement_memory_ = nullptr;  // A part of that memory.
  std::byte* scratch_ = nullptr;           // Another part of it.
  std::array<Event, kEvents> all_events_{};
  std::size_t made_events_ = 0;
  Events events_{};
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_CALLS_LANE_H_
