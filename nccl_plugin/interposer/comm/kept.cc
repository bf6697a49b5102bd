#include "nccl_plugin/interposer/comm/kept.h"

#include <algorithm>
#include <utility>

namespace ringpress::nccl_plugin::interposer {

bool MemoryAgreement::is_needed(std::size_t projected_bytes, std::uint64_t capture) const {
  // What a graph keeps of a projected tensor is made anew for each captured call.
  if (capture != 0) return projected_bytes > 0 || agreed_captures_.count(capture) == 0;
  return projected_bytes > agreed_bytes_;
}

void MemoryAgreement::note(std::size_t projected_bytes, std::uint64_t capture, bool all_can) {
  if (capture != 0 && all_can) agreed_captures_.insert(capture);
  if (capture != 0 && !all_can) refused_capture_ = capture;
  if (capture != 0) return;
  if (all_can) {
    agreed_bytes_ = std::max(agreed_bytes_, projected_bytes);
  } else {
    refused_bytes_ = std::min(refused_bytes_, projected_bytes);
  }
}

/// Calls in graphs have none.
WorkspaceShape without_scales(WorkspaceShape shape) {
  shape.whole.scales_bytes = shape.cross.scales_bytes = 0;
  return shape;
}

float* DeviceResiduals::allocate(std::size_t count) {
  Result<void*> memory = device_.allocate(count * sizeof(float));
  if (!memory.is_ok()) return nullptr;
  if (!device_.zero(stream_, memory.value(), count * sizeof(float)).is_ok()) {
    device_.free(memory.value());
    return nullptr;
  }
  return static_cast<float*>(memory.value());
}

KeptMemory::KeptMemory(std::shared_ptr<Device> device, Stream stream, const Settings& settings,
                       std::shared_ptr<CallSequence> sequence, WorkspaceShape shape,
                       std::unique_ptr<Workspace> workspace)
    : settings_(settings),
      device_(*device),
      stream_(stream),
      graph_shape_(without_scales(shape)),
      agreement_(shape.projected_bytes),
      workspace_(std::move(workspace)),
      captured_(std::move(device)),
      residuals_(device_),
      feedback_(settings.feedback_limit_bytes, residuals_, std::move(sequence)) {}

Result<std::unique_ptr<KeptMemory>> KeptMemory::make(std::shared_ptr<Device> device, Stream stream,
                                                     const Settings& settings, WorkspaceShape shape,
                                                     std::shared_ptr<CallSequence> sequence) {
  RINGPRESS_ASSIGN_OR_RETURN(std::unique_ptr<Workspace> workspace, Workspace::make(*device, shape));
  return std::unique_ptr<KeptMemory>(new KeptMemory(
      std::move(device), stream, settings, std::move(sequence), shape, std::move(workspace)));
}

Result<KeptMemory::Room> KeptMemory::room_of(const Call& call, Way way) {
  Workspace* workspace = workspace_.get();
  if (settings_.graph) {
    RINGPRESS_ASSIGN_OR_RETURN(const std::uint64_t capture, device_.capture(call.stream));
    if (capture != 0) {
      RINGPRESS_ASSIGN_OR_RETURN(workspace, captured_.of(capture, call.stream, graph_shape_));
    }
  }
  return Room{workspace, way.is_hierarchical() ? &workspace->cross() : &workspace->whole()};
}

Kept KeptMemory::find(const TensorCall& tensor, const ToKeep& wanted, const Room& room,
                      Stream stream) {
  if (!wanted.residual && wanted.memory_count == 0) return {};
  if (is_of_graph(room)) return find_captured(tensor.count, wanted, room.workspace);
  has_place_ = true;
  // Projections are made in the caller's stream.
  residuals_.use(wanted.memory_count > 0 ? stream : room.lane->stream());
  return feedback_.find(tensor, wanted, name_of_call());
}

/// What lasts as long as a captured call's graph.
Kept KeptMemory::find_captured(std::size_t count, const ToKeep& wanted, Workspace* workspace) {
  Kept kept;
  if (wanted.memory_count > 0) kept.memory = workspace->add_residual(wanted.memory_count, stream_);
  const std::size_t limit = settings_.feedback_limit_bytes;
  if (wanted.residual && (limit == 0 || bytes() + count * sizeof(float) <= limit)) {
    kept.residual = workspace->add_residual(count, stream_);
  }
  return kept;
}

Status KeptMemory::adopt(KeptMemory& parent, Places places) {
  RINGPRESS_RETURN_IF_ERROR(workspace_->begin_after(*parent.workspace_));
  parent.feedback_.forget_projected();
  if (places == Places::kBuffers) parent.feedback_.forget_shapes();
  feedback_.adopt(std::move(parent.feedback_));
  return Status::ok();
}

void KeptMemory::pass(const TensorCall& tensor) {
  feedback_.pass(tensor, name_of_call());
  has_place_ = true;
}

}  // namespace ringpress::nccl_plugin::interposer
