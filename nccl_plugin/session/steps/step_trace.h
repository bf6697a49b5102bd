// RINGPRESS_TRACE: the training step that a communicator's all-reduces show, as a job file for
// `ringpress plan`, written when the communicator is destroyed, or the process exits with it.
#ifndef NCCL_PLUGIN_SESSION_STEPS_STEP_TRACE_H_
#define NCCL_PLUGIN_SESSION_STEPS_STEP_TRACE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "nccl_plugin/session/end_report.h"
#include "nccl_plugin/session/steps/step_recorder.h"

namespace ringpress::nccl_plugin {

/// A recorded step as JSON (nccl_plugin/command/plan/job_file.h), without a compressor: `plan`
/// measures that. Its model is of `codec`, which the calls had. `measured`: as of link_behind().
/// kInvalidUsage: the step sent nothing.
Result<std::string> job_text(const RecordedStep& step, int world, const CodecSpeed& codec,
                             const std::optional<LinkSpeed>& measured = {});

/// Where the model of a job has the time of codecs.
enum class CodecTime {
  kMeasured,    // That of this machine's processor, which takes milliseconds to measure.
  kPartOfLink,  // A device's, which is not known alone: the link's rate is what it leaves of it.
};

/// What calls a trace is of.
struct TracedCalls {
  int world = 1;
  std::string codec;  // Of the last one.
  CodecTime codec_time = CodecTime::kMeasured;
  std::optional<LinkSpeed> link = {};  // If the ranks have measured it.
};

/// Writes the step to the file `path`, with mode 0600 and never through a symbolic link. Of the
/// communicators of a process, the step with the most bytes stays in the file. Nobody changes the
/// recorder meanwhile. A failure is logged, never returned.
void write_trace(const std::string& path, const StepRecorder& recorder, const TracedCalls& calls,
                 ReportTime time);

/// What a thread has had of cores.
struct ThreadUse {
  double busy_seconds = 0;
  long waits = 0;  // How often it gave up its core to wait for something.
};

/// Times calls for recorders. Of one communicator: one thread at a time. Whether the thread
/// computed in a pause that is over at once is not asked, as that takes as long again: it counts as
/// if it had.
class CallClock {
 public:
  /// A call begins, or has been issued (IssuedCalls); `sent_bytes` by this rank since the
  /// communicator was made.
  void begin_call(std::uint64_t sent_bytes);
  /// It has succeeded.
  RecordedCall end_call(const TensorCall& call, std::uint64_t sent_bytes);

 private:
  double busy_since_end(double gap) const;

  std::optional<CallIssue> issue_;
  double begin_seconds_ = 0;
  double end_seconds_ = 0;  // Of the call before.
  ThreadUse at_end_;        // At the last return.
  double busy_before_seconds_ = 0;
  std::uint64_t sent_before_ = 0;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_STEPS_STEP_TRACE_H_
