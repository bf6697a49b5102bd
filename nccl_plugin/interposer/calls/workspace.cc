#include "nccl_plugin/interposer/calls/workspace.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include "ringpress/internal/log.h"

namespace ringpress::nccl_plugin::interposer {

namespace {

/// Of a graph that outlived its communicator. This thread may ask nothing of the device.
void free_elsewhere(Workspace* workspace, std::shared_ptr<Device> device) {
  try {
    std::thread([workspace, device = std::move(device)] { delete workspace; }).detach();
  } catch (const std::exception& error) {
    log_line(LogLevel::kWarn, "the memory of a graph is not freed: %s", error.what());
  }
}

}  // namespace

Result<std::unique_ptr<Workspace>> Workspace::make(Device& device, const WorkspaceShape& shape) {
  std::unique_ptr<Workspace> workspace(new Workspace(device));
  RINGPRESS_ASSIGN_OR_RETURN(workspace->whole_, Lane::make(device, shape.whole));
  if (shape.cross.slots > 0) {
    RINGPRESS_ASSIGN_OR_RETURN(workspace->cross_, Lane::make(device, shape.cross));
  }
  RINGPRESS_RETURN_IF_ERROR(workspace->projected(shape.projected_bytes).status());
  return workspace;
}

Workspace::~Workspace() {
  for (void* residual : residuals_) device_.free(residual);
  for (void* memory : projected_) device_.free(memory);
}

Status Workspace::begin_after(const Workspace& other) {
  RINGPRESS_ASSIGN_OR_RETURN(const Event end, device_.create_event());
  Status status;
  for (const Lane* const before : {other.whole_.get(), other.cross_.get()}) {
    if (before == nullptr) continue;
    if (status.is_ok()) status = device_.record(end, before->stream());
    for (const Lane* const lane : {whole_.get(), cross_.get()}) {
      if (lane != nullptr && status.is_ok()) status = device_.wait(lane->stream(), end);
    }
  }
  device_.destroy_event(end);
  return status;
}

float* Workspace::add_residual(std::size_t count, Stream stream) {
  residuals_.reserve(residuals_.size() + 1);
  Result<void*> memory = device_.allocate(count * sizeof(float));
  if (!memory.is_ok()) return nullptr;
  residuals_.push_back(memory.value());
  if (!device_.zero(stream, memory.value(), count * sizeof(float)).is_ok()) return nullptr;
  if (!device_.synchronize(stream).is_ok()) return nullptr;
  residual_bytes_ += count * sizeof(float);
  return static_cast<float*>(memory.value());
}

Result<std::byte*> Workspace::projected(std::size_t bytes) {
  if (bytes > projected_bytes_) {
    // Twice as much each time, if there is so much: all that came before is no more than the last.
    std::size_t wanted = std::max(bytes, 2 * projected_bytes_);
    projected_.reserve(projected_.size() + 1);
    Result<void*> memory = device_.allocate(wanted);
    if (!memory.is_ok() && wanted > bytes) {
      wanted = bytes;
      memory = device_.allocate(wanted);
    }
    RINGPRESS_RETURN_IF_ERROR(memory.status());
    projected_.push_back(memory.value());
    projected_bytes_ = wanted;
  }
  return projected_.empty() ? nullptr : static_cast<std::byte*>(projected_.back());
}

CapturedWorkspaces::CapturedWorkspaces(std::shared_ptr<Device> device)
    : device_(std::move(device)), ended_(std::make_shared<Ended>()) {}

CapturedWorkspaces::~CapturedWorkspaces() {
  free_ended();
  const std::lock_guard lock(ended_->mutex);
  ended_->is_closed = true;
}

Result<Workspace*> CapturedWorkspaces::of(std::uint64_t capture, Stream stream,
                                          const WorkspaceShape& shape) {
  free_ended();
  if (const auto known = living_[capture].lock()) return known.get();
  RINGPRESS_ASSIGN_OR_RETURN(std::unique_ptr<Workspace> made, Workspace::make(*device_, shape));
  const auto leave = [ended = ended_, device = device_](Workspace* workspace) {
    const std::lock_guard lock(ended->mutex);
    if (ended->is_closed) return free_elsewhere(workspace, device);
    ended->workspaces.emplace_back(workspace);
  };
  const std::shared_ptr<Workspace> shared(made.release(), leave);
  RINGPRESS_RETURN_IF_ERROR(device_->keep_with_graph(stream, shared));
  living_[capture] = shared;
  return shared.get();
}

std::size_t CapturedWorkspaces::residual_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [capture, workspace] : living_) {
    if (const auto known = workspace.lock()) bytes += known->residual_bytes();
  }
  return bytes;
}

void CapturedWorkspaces::free_ended() {
  std::vector<std::unique_ptr<Workspace>> ended;
  {
    const std::lock_guard lock(ended_->mutex);
    ended.swap(ended_->workspaces);
  }
  std::erase_if(living_, [](const auto& entry) { return entry.second.expired(); });
}

}  // namespace ringpress::nccl_plugin::interposer
