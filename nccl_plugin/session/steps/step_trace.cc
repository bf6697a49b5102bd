#include "nccl_plugin/session/steps/step_trace.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "compress_kernels/factory.h"
#include "nccl_plugin/errors/fixed_text.h"
#include "nccl_plugin/errors/warn_once.h"
#include "nccl_plugin/session/steps/step_link.h"
#include "nccl_plugin/session/steps/step_model.h"
#include "ringpress/internal/transport.h"

namespace ringpress::nccl_plugin {
namespace {

ThreadUse thread_use() {
  rusage used = {};
  getrusage(RUSAGE_THREAD, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return {seconds(used.ru_utime) + seconds(used.ru_stime), used.ru_nvcsw};
}

std::string problem_of_writing(const std::string& path, const std::string& text) {
  const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const int file = open(path.c_str(), flags, 0600);
  if (file < 0) return std::strerror(errno);
  std::string problem;
  std::size_t written = 0;
  while (written < text.size() && problem.empty()) {
    const ssize_t some = write(file, text.data() + written, text.size() - written);
    if (some > 0) written += static_cast<std::size_t>(some);
    if (some < 0 && errno != EINTR) problem = std::strerror(errno);
  }
  close(file);
  return problem;
}

/// A file that is asked for and does not come should not be looked for in vain.
void warn_of_no_step(const std::string& path) {
  warn_once("RINGPRESS_TRACE=" + path +
            ": nothing is written for a communicator whose all-reduces repeat no step " +
            std::to_string(StepRecorder::kWantedSteps) + " times in a row (" +
            std::to_string(StepRecorder::kCertainCalls) +
            " calls, where addresses change from step to step)");
}

/// On this machine now; of a codec that cannot be measured alone, no ratio and no time.
CodecSpeed speed_of(const std::string& codec, int world, CodecTime time) {
  CodecSpeed speed;
  speed.codec = codec;
  Result<CodecSpeed> measured =
      compress_kernels::measure_codec(codec, DType::kFloat32, {world, world});
  if (!measured.is_ok()) return speed;
  switch (time) {
    case CodecTime::kMeasured:
      return std::move(measured).value();
    case CodecTime::kPartOfLink:
      break;
  }
  speed.ratio = measured.value().ratio;
  speed.sum_ratio = measured.value().sum_ratio;
  speed.projection = measured.value().projection;
  return speed;
}

/// What the step shows of what goes on beside its calls.
std::string overlap_text(const RecordedStep& step) {
  if (!step.overlaps()) return "the program waits for each call before it computes on";
  std::string text = "the program computes while calls are under way";
  if (step.is_overlap_guessed()) {
    text += ", it says, but the trace does not show it: it may as well wait for each call";
  }
  std::size_t hidden = 0;
  for (std::size_t i = 1; i < step.calls.size(); ++i) hidden += is_ready_unseen(step.calls[i]);
  if (hidden == 0) return text;
  return text + "; calls hide when the tensors of " + std::to_string(hidden) +
         " are ready: as soon as the one before, it says, and it may be later; shorter calls, as "
         "of RINGPRESS_CODEC=q4, hide less";
}

std::string link_text(const StepLink& link) {
  if (link.is_sure && link.is_measured)
    return "measured by itself, as the calls do not show it well";
  if (link.is_sure) return "from what was sent and how long calls took";
  return "as it looks, but the trace does not show it well: calls that send more or less may take "
         "longer or shorter than planned";
}

}  // namespace

Result<std::string> job_text(const RecordedStep& recorded, int world, const CodecSpeed& codec,
                             const std::optional<LinkSpeed>& measured) {
  const RecordedStep step = without_lateness(recorded);
  const auto ranks = static_cast<std::size_t>(world);
  RINGPRESS_ASSIGN_OR_RETURN(const StepLink behind, link_behind(step, ranks, codec, measured));
  const LinkSpeed& link = behind.speed;
  RINGPRESS_ASSIGN_OR_RETURN(const JobModel model, model_of(step, ranks, codec));
  const espresso::Job job = job_of(step, ranks, link);
  std::string text = "{\n  \"name\": \"recorded: " + std::to_string(step.calls.size()) +
                     " all-reduces, " + fixed(1e-6 * static_cast<double>(step.bytes()), 1) +
                     " MB\",\n";
  text += "  \"note\": \"" + std::to_string(step.steps) + " steps of " +
          fixed(1e3 * step.seconds(), 3) + " ms; " + overlap_text(step) +
          "; the link: " + link_text(behind) + "\",\n";
  text += "  \"machines\": " + std::to_string(world) + ",\n  \"gpus_per_machine\": 1,\n";
  for (const char* name : {"inside", "between"}) {
    text += std::string("  \"") + name +
            "\": {\"latency_us\": " + fixed(1e6 * link.latency_seconds, 3) +
            ", \"gigabytes_per_second\": " + fixed(1e-9 * link.bytes_per_second, 9) + "},\n";
  }
  text += "  \"model\": " + model_text(model, ranks, codec.codec) + ",\n";
  text += "  \"forward_ms\": " + fixed(1e3 * job.forward_seconds, 6) + ",\n  \"tensors\": [";
  for (std::size_t i = 0; i < job.tensors.size(); ++i) {
    const espresso::Tensor& tensor = job.tensors[i];
    text += std::string(i == 0 ? "" : ",") + "\n    {\"name\": \"" + tensor.name +
            "\", \"bytes\": " + std::to_string(tensor.bytes) +
            ", \"backward_us\": " + fixed(1e6 * tensor.backward_seconds, 3);
    if (tensor.after_seconds) {
      text += ", \"after_call_us\": " + fixed(1e6 * *tensor.after_seconds, 3);
    }
    text += "}";
  }
  return text + "\n  ]\n}\n";
}

void CallClock::begin_call(std::uint64_t sent_bytes) {
  const CallIssue* const issue = IssuedCalls::current();
  issue_ = issue == nullptr ? std::optional<CallIssue>() : *issue;
  // The thread that makes calls for the program may be woken up late, and a group's calls are made
  // one after the other.
  begin_seconds_ = issue_ ? std::max(issue_->issued_seconds, end_seconds_) : issue_clock_seconds();
  const double gap = begin_seconds_ - end_seconds_;
  busy_before_seconds_ = gap <= kAtOnceSeconds ? gap : busy_since_end(gap);
  sent_before_ = sent_bytes;
}

/// A thread that has waited for nothing has computed, though others may have had its core
/// meanwhile.
double CallClock::busy_since_end(double gap) const {
  const ThreadUse now = thread_use();
  return now.waits == at_end_.waits ? gap : now.busy_seconds - at_end_.busy_seconds;
}

RecordedCall CallClock::end_call(const TensorCall& call, std::uint64_t sent_bytes) {
  end_seconds_ = issue_clock_seconds();
  at_end_ = thread_use();
  RecordedCall recorded;
  recorded.call = call;
  recorded.begin_seconds = begin_seconds_;
  recorded.end_seconds = end_seconds_;
  recorded.busy_before_seconds = busy_before_seconds_;
  recorded.sent_bytes = static_cast<std::size_t>(sent_bytes - sent_before_);
  recorded.issue = issue_;
  return recorded;
}

void write_trace(const std::string& path, const StepRecorder& recorder, const TracedCalls& calls,
                 ReportTime time) {
  static std::mutex mutex;
  static std::size_t most_bytes = 0;
  const std::optional<RecordedStep> step = recorder.step();
  if (!step) {
    const auto lock = lock_for_report(mutex, time);
    if (lock.owns_lock() && recorder.has_calls() && most_bytes == 0) warn_of_no_step(path);
    return;
  }
  const CodecSpeed speed = speed_of(calls.codec, calls.world, calls.codec_time);
  const Result<std::string> text = job_text(*step, calls.world, speed, calls.link);
  const auto lock = lock_for_report(mutex, time);
  if (!lock.owns_lock() || !text.is_ok() || step->bytes() <= most_bytes) return;
  const std::string problem = problem_of_writing(path, text.value());
  if (problem.empty()) {
    most_bytes = step->bytes();
  } else {
    warn_once("RINGPRESS_TRACE=" + path + ": " + problem);
  }
}

}  // namespace ringpress::nccl_plugin
