// The model of a job (ringpress/internal/job_model.h) that a recorded step shows.
#ifndef NCCL_PLUGIN_SESSION_STEPS_STEP_MODEL_H_
#define NCCL_PLUGIN_SESSION_STEPS_STEP_MODEL_H_

#include <cstddef>
#include <string>

#include "nccl_plugin/session/steps/step_recorder.h"
#include "ringpress/internal/cost_model.h"
#include "ringpress/internal/job_model.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin {

/// Of `world` ranks, at least 2, whose calls had this codec. Compute is what no call is under way
/// in: the pauses. The overhead is what the line through sizes and times of calls leaves at no
/// size; it is 0 of calls of one size. The link's rate is what explains the rest of the time: of
/// all calls, and after the codec, of which no more than half of the time is counted, as most of it
/// may be hidden behind the wire. kInvalidUsage: the step sent nothing.
Result<JobModel> model_of(const RecordedStep& step, std::size_t world, const CodecSpeed& codec);

/// As a member of a job file (nccl_plugin/command/plan/model_file.h).
std::string model_text(const JobModel& model, std::size_t world, const std::string& codec);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_STEPS_STEP_MODEL_H_
