#include "nccl_plugin/session/mesh/mesh_steps.h"

#include <optional>
#include <span>

#include "nccl_plugin/session/tuning/calibration.h"
#include "ringpress/internal/log.h"

namespace ringpress::nccl_plugin {
namespace {

/// On rank 0: by what calls are made that the plan leaves exact. Each is one piece of work, so what
/// takes least alone does so in the step.
void choose_collectives(const MeshSession& session, const tuning::TunedCalls& tuned,
                        StepMessage* message) {
  for (PlannedStepCall& call : message->calls) {
    if (call.stays_exact == 0) continue;
    const PlanRequest request =
        session.request(CollectiveKind::kAllReduce, call.count, static_cast<DType>(call.dtype),
                        {static_cast<ReduceOp>(call.op)});
    const std::optional<Choice> choice =
        tuned.quickest_exact(request, session.planner->plan(request));
    if (!choice) continue;
    call.algorithm = static_cast<std::uint8_t>(choice->algorithm);
    call.chunk_bytes = static_cast<std::uint32_t>(choice->chunk_bytes);
  }
}

}  // namespace

MeshSteps::MeshSteps(MeshSession& session, const tuning::TunedCalls* tuned)
    : session_(session), tuned_(tuned) {
  // Of calls that are put off, no step can be made out.
  if (session.lazy != nullptr) return;
  steps_.open(session.settings, session.rank(), session.size(), session.shape.crosses_hosts,
              session.call_sequence);
  wants_link_ = (session.mesh->root_word() & MeshSession::kRootRecordsSteps) != 0;
}

Status MeshSteps::begin_all_reduce(const TensorCall& call) {
  under_way_ = call;
  is_untold_ = true;
  // What is decided before the call is a part of it: no pause of the program.
  steps_.begin_timing(call, [this] { return session_.mesh->counters().sent_bytes; });
  if (steps_.is_due()) RINGPRESS_RETURN_IF_ERROR(broadcast_plan());
  steps_.begin_call(call);
  return Status::ok();
}

Status MeshSteps::measure_link() {
  if (!std::exchange(wants_link_, false)) return Status::ok();
  return session_.decide([this]() -> Status {
    const std::uint64_t sent_before = session_.peers.sent_bytes();
    RINGPRESS_ASSIGN_OR_RETURN(const LinkSpeed link, tuning::measure_link_of_ranks(session_.peers));
    link_bytes_ += session_.peers.sent_bytes() - sent_before;
    log_line(LogLevel::kInfo, "for the trace: latency %.0f us, %.3f Gb/s",
             1e6 * link.latency_seconds, 8e-9 * link.bytes_per_second);
    steps_.set_link(link);
    return Status::ok();
  });
}

/// Rank 0's message on the step, where it is due on all ranks.
Status MeshSteps::broadcast_plan() {
  RINGPRESS_RETURN_IF_ERROR(session_.check_usable());
  return session_.decide([this]() -> Status {
    MeshPeers& peers = session_.peers;
    StepMessage message = steps_.message();
    if (tuned_ != nullptr) choose_collectives(session_, *tuned_, &message);
    RINGPRESS_RETURN_IF_ERROR(
        peers.broadcast(std::as_writable_bytes(std::span(&message.header, 1))));
    if (message.header.calls > StepMessage::kMostCalls) {
      return {Code::kMismatch, "rank 0's plan is for a step of too many calls"};
    }
    message.calls.resize(message.header.calls);
    if (!message.calls.empty()) {
      RINGPRESS_RETURN_IF_ERROR(peers.broadcast(std::as_writable_bytes(std::span(message.calls))));
    }
    return steps_.apply(message);
  });
}

}  // namespace ringpress::nccl_plugin
