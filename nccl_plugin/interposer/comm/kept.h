// What is kept of a communicator's calls on the device: the memory that they work in, residuals,
// and what projections keep.
#ifndef NCCL_PLUGIN_INTERPOSER_COMM_KEPT_H_
#define NCCL_PLUGIN_INTERPOSER_COMM_KEPT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>

#include "nccl_plugin/interposer/calls/call.h"
#include "nccl_plugin/interposer/calls/workspace.h"
#include "nccl_plugin/interposer/comm/policy.h"
#include "nccl_plugin/session/calls/error_feedback.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::interposer {

/// Which calls all ranks have memory for, as they have told each other. A call's `capture` is
/// capture_of() it, or 0 where graphs are not compressed.
class MemoryAgreement {
 public:
  /// All ranks have so much for what one call projects.
  explicit MemoryAgreement(std::size_t projected_bytes) : agreed_bytes_(projected_bytes) {}

  /// A rank had no memory for a call like this one; or for its graph, if it has one.
  bool has_refused(std::size_t projected_bytes) const { return projected_bytes >= refused_bytes_; }
  bool has_refused_graph(std::uint64_t capture) const { return capture == refused_capture_; }
  /// True if it is not known yet whether all have it.
  bool is_needed(std::size_t projected_bytes, std::uint64_t capture) const;
  void note(std::size_t projected_bytes, std::uint64_t capture, bool all_can);

 private:
  // Of one projected call; and the least for which a rank had none.
  std::size_t agreed_bytes_;
  std::size_t refused_bytes_ = SIZE_MAX;
  // Graphs that all ranks have a workspace for, and the last one that a rank had none for.
  std::set<std::uint64_t> agreed_captures_;
  std::uint64_t refused_capture_ = 0;
};

/// Residuals on a device.
class DeviceResiduals final : public ResidualMemory {
 public:
  explicit DeviceResiduals(Device& device) : device_(device) {}
  /// The stream in which new ones are zeroed and used.
  void use(Stream stream) { stream_ = stream; }
  float* allocate(std::size_t count) override;
  void free(float* memory) override { device_.free(memory); }

 private:
  Device& device_;
  Stream stream_ = nullptr;
};

/// Of one communicator. One thread at a time.
class KeptMemory {
 public:
  /// The memory that a call works in.
  struct Room {
    Workspace* workspace = nullptr;
    Lane* lane = nullptr;
  };

  /// `stream`: of the communicator, not captured. Graphs may outlive this, and what they keep is
  /// freed by `device`. `settings` outlive this. `sequence`: of the communicator's calls.
  static Result<std::unique_ptr<KeptMemory>> make(std::shared_ptr<Device> device, Stream stream,
                                                  const Settings& settings, WorkspaceShape shape,
                                                  std::shared_ptr<CallSequence> sequence);

  MemoryAgreement& agreement() { return agreement_; }

  /// Where a call works. A captured one works in memory of its graph.
  Result<Room> room_of(const Call& call, Way way);
  bool is_of_graph(const Room& room) const { return room.workspace != workspace_.get(); }
  /// What lasts from call to call of a tensor, or as long as the graph does.
  Kept find(const TensorCall& tensor, const ToKeep& wanted, const Room& room, Stream stream);
  /// Memory for so much that is projected, by a call that is not captured.
  Status reserve_projected(std::size_t bytes) { return workspace_->projected(bytes).status(); }

  /// What is kept of tensors by their buffers and names, or by all that tells them apart.
  enum class Places { kBuffers, kAll };
  /// Takes what `parent`, of the same device, keeps of them, which has nothing then. Not what is
  /// kept of projected tensors, nor what graphs keep. Calls of this one come after those of
  /// `parent`.
  Status adopt(KeptMemory& parent, Places places);

  /// A call goes without its residual, which keeps its place among those of other calls.
  void pass(const TensorCall& tensor);
  /// Whether find() or pass() has been asked since forget_place().
  bool has_place() const { return has_place_; }
  void forget_place() { has_place_ = false; }

  /// Of residuals.
  std::size_t bytes() const { return feedback_.bytes() + captured_.residual_bytes(); }

 private:
  KeptMemory(std::shared_ptr<Device> device, Stream stream, const Settings& settings,
             std::shared_ptr<CallSequence> sequence, WorkspaceShape shape,
             std::unique_ptr<Workspace> workspace);
  Kept find_captured(std::size_t count, const ToKeep& wanted, Workspace* workspace);

  const Settings& settings_;
  Device& device_;
  const Stream stream_;
  const WorkspaceShape graph_shape_;  // Of workspaces of graphs.
  MemoryAgreement agreement_;
  std::unique_ptr<Workspace> workspace_;
  CapturedWorkspaces captured_;
  DeviceResiduals residuals_;
  ErrorFeedback feedback_;
  bool has_place_ = false;
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_COMM_KEPT_H_
