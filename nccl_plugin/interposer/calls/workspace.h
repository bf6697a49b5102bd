// The memory on a device that the compressed calls of one communicator work in. Calls that a
// program makes share one workspace. Calls that it captures have one for each graph, which lasts as
// long as the graph does: a replay runs none of our code, so nothing could put it in order with
// what others do in the same memory.
#ifndef NCCL_PLUGIN_INTERPOSER_CALLS_WORKSPACE_H_
#define NCCL_PLUGIN_INTERPOSER_CALLS_WORKSPACE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "nccl_plugin/interposer/calls/lane.h"
#include "ringpress/internal/device.h"

namespace ringpress::nccl_plugin::interposer {

/// What a workspace has room for.
struct WorkspaceShape {
  LaneShape whole;                  // Calls among all ranks.
  LaneShape cross;                  // Those between hosts; no slots: there are none.
  std::size_t projected_bytes = 0;  // What tensors are projected to.
};

class Workspace {
 public:
  static Result<std::unique_ptr<Workspace>> make(Device& device, const WorkspaceShape& shape);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  Lane& whole() { return *whole_; }
  Lane& cross() { return *cross_; }
  /// What is asked for in its lanes from now on comes after what was asked for in those of `other`.
  Status begin_after(const Workspace& other);
  /// So many zeros that last as long as this; null if there is no room. Waits for `stream`, in
  /// which they are zeroed and which is not captured.
  float* add_residual(std::size_t count, Stream stream);
  std::size_t residual_bytes() const { return residual_bytes_; }
  /// Memory for what one call at a time projects, 256-byte aligned; more than the shape has room
  /// for is made when it is first asked for. What a call once got lasts as long as this: a captured
  /// one uses it again.
  Result<std::byte*> projected(std::size_t bytes);

 private:
  explicit Workspace(Device& device) : device_(device) {}

  Device& device_;
  std::unique_ptr<Lane> whole_;
  std::unique_ptr<Lane> cross_;
  std::vector<void*> residuals_;
  std::vector<void*> projected_;  // The largest is the last.
  std::size_t projected_bytes_ = 0;
  std::size_t residual_bytes_ = 0;
};

/// The workspaces of captured graphs.
class CapturedWorkspaces {
 public:
  explicit CapturedWorkspaces(std::shared_ptr<Device> device);
  /// Frees those whose graphs are no more. Those of others last as long as their graphs, for a
  /// replay may use them: a thread of its own then frees each.
  ~CapturedWorkspaces();
  CapturedWorkspaces(const CapturedWorkspaces&) = delete;
  CapturedWorkspaces& operator=(const CapturedWorkspaces&) = delete;

  /// That of the graph with this number, which `stream` is captured for.
  Result<Workspace*> of(std::uint64_t capture, Stream stream, const WorkspaceShape& shape);
  std::size_t residual_bytes() const;

 private:
  /// Where a graph's end, in a thread that must not ask anything of the device, leaves its
  /// workspace.
  struct Ended {
    std::mutex mutex;
    bool is_closed = false;
    std::vector<std::unique_ptr<Workspace>> workspaces;
  };
  void free_ended();

  const std::shared_ptr<Device> device_;
  const std::shared_ptr<Ended> ended_;
  std::map<std::uint64_t, std::weak_ptr<Workspace>> living_;
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_CALLS_WORKSPACE_H_
