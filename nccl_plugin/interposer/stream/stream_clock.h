// Times all-reduces that are work in streams, for recorders of steps.
#ifndef NCCL_PLUGIN_INTERPOSER_STREAM_STREAM_CLOCK_H_
#define NCCL_PLUGIN_INTERPOSER_STREAM_STREAM_CLOCK_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "nccl_plugin/interposer/calls/framed_call.h"
#include "nccl_plugin/session/steps/step_recorder.h"
#include "ringpress/internal/device.h"

namespace ringpress::nccl_plugin::interposer {

/// Of one communicator. Calls are told of in the order in which they were asked for. A pause
/// between two of them is one of their streams: what keeps the device busy beside them is not seen,
/// but that nothing does so beside the default stream is known. One thread at a time.
class StreamClock {
 public:
  /// `device` outlives this. `world`: ranks.
  StreamClock(Device& device, std::size_t world) : device_(device), world_(world) {}
  ~StreamClock();
  StreamClock(const StreamClock&) = delete;
  StreamClock& operator=(const StreamClock&) = delete;

  /// What the frame of a call is to have so that it is timed. `call`: what is known of it before.
  /// Until its `sent` is known, no later call is told of. False: it cannot be timed, for want of
  /// memory, or as too many are under way.
  bool begin(const RecordedCall& call, Stream stream, CallFrame* frame);

  enum class Seen { kCall, kNothing, kFailure };
  /// The next call, if the device has done it by now. kFailure: the device does not say.
  Seen next(RecordedCall* recorded);
  /// Of calls that next() has yet to tell of: none is, nor is their time one between others. None
  /// of them uses its frame any more.
  void forget();

  std::vector<TensorCall> under_way() const;

 private:
  struct CallUnderWay {
    RecordedCall call;
    Event begin = nullptr, end = nullptr;
    bool blocks_device = false;  // It is in the stream that waits for all others.
    SentByCall sent;
  };

  std::size_t sent_bytes(const CallUnderWay& one) const;
  Event take_event();
  void give_back(Event* event);

  Device& device_;
  const std::size_t world_;
  std::deque<CallUnderWay> under_way_;
  std::vector<Event> free_events_;
  std::size_t events_ = 0;    // That were made.
  Event last_end_ = nullptr;  // Of the call that was told of last.
  double now_ = 0;            // Its time, in seconds since the first one.
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_STREAM_STREAM_CLOCK_H_
