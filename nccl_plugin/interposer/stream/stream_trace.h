// RINGPRESS_TRACE on streams: the training step that rank 0's all-reduces show, those of the real
// library too.
#ifndef NCCL_PLUGIN_INTERPOSER_STREAM_STREAM_TRACE_H_
#define NCCL_PLUGIN_INTERPOSER_STREAM_STREAM_TRACE_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "nccl_plugin/interposer/stream/stream_clock.h"
#include "nccl_plugin/session/end_report.h"
#include "nccl_plugin/session/steps/step_recorder.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::interposer {

/// Of one communicator, on rank 0. One thread at a time, but for close() at the exit.
class StreamTrace {
 public:
  static bool is_wanted(const Settings& settings, int rank, int world);

  /// `device` outlives this. `world`: ranks. `sequence`: of the communicator's calls.
  StreamTrace(Device& device, int world, std::shared_ptr<CallSequence> sequence);

  /// A call of ours begins: what its frame is to have. `is_trial`: it may be made otherwise than it
  /// will be.
  void time(const TensorCall& call, Stream stream, bool is_trial, CallFrame* frame);
  /// It cannot be timed: steps are learnt only after it.
  void skip();

  /// The real library is about to make a call, and later it has made all such.
  void begin_exact(const TensorCall& call, Stream stream);
  void end_exact();

  /// Writes the step to the file `path`. `codec`: of the last call. At the exit, without what only
  /// the device knows: the calls after which none came.
  void close(const std::string& path, const std::string& codec, ReportTime time);

 private:
  struct ExactCall {
    Stream stream = nullptr;
    CallFrame frame;
  };

  bool begin_timing(const TensorCall& call, Stream stream, bool is_trial, CallFrame* frame);
  void collect();

  Device& device_;
  const int world_;
  StreamClock clock_;
  std::mutex recorder_mutex_;
  StepRecorder recorder_;
  std::vector<ExactCall> exact_;  // That have begun.
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_STREAM_STREAM_TRACE_H_
