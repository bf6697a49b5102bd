#include "nccl_plugin/interposer/stream/stream_clock.h"

#include <algorithm>
#include <utility>

namespace ringpress::nccl_plugin::interposer {
namespace {

// Of a program that is further ahead of its device than so many calls nothing is told.
constexpr std::size_t kMostUnderWay = 4096;

/// cudaStreamLegacy, and what the default stream is without it.
bool is_default_stream(Stream stream) {
  return stream == nullptr || stream == reinterpret_cast<Stream>(1);
}

}  // namespace

StreamClock::~StreamClock() {
  forget();
  for (const Event event : free_events_) device_.destroy_event(event);
}

bool StreamClock::begin(const RecordedCall& call, Stream stream, CallFrame* frame) {
  CallUnderWay one{call, take_event(), take_event(), is_default_stream(stream), {}};
  if (one.begin == nullptr || one.end == nullptr || under_way_.size() == kMostUnderWay) {
    give_back(&one.begin);
    give_back(&one.end);
    return false;
  }
  under_way_.push_back(one);
  frame->begin = one.begin;
  frame->end = one.end;
  frame->sent = &under_way_.back().sent;
  return true;
}

StreamClock::Seen StreamClock::next(RecordedCall* recorded) {
  if (under_way_.empty() || !under_way_.front().sent.is_known) return Seen::kNothing;
  CallUnderWay& one = under_way_.front();
  const Result<double> taken = device_.seconds_between(one.begin, one.end);
  if (!taken.is_ok()) return Seen::kFailure;
  if (taken.value() < 0) return Seen::kNothing;
  double gap = 0, seconds = taken.value();
  if (last_end_ != nullptr) {
    const Result<double> pause = device_.seconds_between(last_end_, one.begin);
    const Result<double> since = device_.seconds_between(last_end_, one.end);
    if (!pause.is_ok() || !since.is_ok()) return Seen::kFailure;
    // Calls of several streams, or of one group, may be under way at once.
    gap = std::max(0.0, pause.value());
    seconds = std::clamp(since.value(), 0.0, seconds);
  }
  *recorded = one.call;
  recorded->begin_seconds = now_ + gap;
  recorded->end_seconds = now_ = recorded->begin_seconds + seconds;
  recorded->busy_before_seconds = one.blocks_device ? gap : 0;
  recorded->sent_bytes = sent_bytes(one);
  give_back(&one.begin);
  give_back(&last_end_);
  last_end_ = one.end;
  under_way_.pop_front();
  return Seen::kCall;
}

/// As if all calls were of all ranks: those of `hier` send a part of that between hosts.
std::size_t StreamClock::sent_bytes(const CallUnderWay& one) const {
  const TensorCall& call = one.call.call;
  const auto bytes = static_cast<double>(call.count * dtype_size(call.dtype));
  const double exact = 2 * bytes * static_cast<double>(world_ - 1) / static_cast<double>(world_);
  if (one.sent.compressed_bytes == 0 || one.sent.raw_bytes == 0) {
    return static_cast<std::size_t>(exact);
  }
  return static_cast<std::size_t>(exact * static_cast<double>(one.sent.compressed_bytes) /
                                  static_cast<double>(one.sent.raw_bytes));
}

void StreamClock::forget() {
  for (CallUnderWay& one : under_way_) {
    give_back(&one.begin);
    give_back(&one.end);
  }
  under_way_.clear();
  give_back(&last_end_);
}

std::vector<TensorCall> StreamClock::under_way() const {
  std::vector<TensorCall> calls;
  for (const CallUnderWay& one : under_way_) calls.push_back(one.call.call);
  return calls;
}

/// Null: there is none.
Event StreamClock::take_event() {
  if (free_events_.empty()) {
    free_events_.reserve(events_ + 1);  // So that giving back needs no memory.
    const Result<Event> made = device_.create_timing_event();
    if (made.is_ok()) ++events_;
    return made.is_ok() ? made.value() : nullptr;
  }
  const Event event = free_events_.back();
  free_events_.pop_back();
  return event;
}

void StreamClock::give_back(Event* event) {
  if (*event != nullptr) free_events_.push_back(std::exchange(*event, nullptr));
}

}  // namespace ringpress::nccl_plugin::interposer
