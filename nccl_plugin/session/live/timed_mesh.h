// A mesh whose waits are told to a CallWatch: for whom a call waits, and for how long.
#ifndef NCCL_PLUGIN_SESSION_LIVE_TIMED_MESH_H_
#define NCCL_PLUGIN_SESSION_LIVE_TIMED_MESH_H_

#include <deque>
#include <memory>
#include <vector>

#include "nccl_plugin/session/live/call_watch.h"
#include "ringpress/internal/mesh.h"

namespace ringpress::nccl_plugin {

/// A request of a mesh, and what it is.
struct TimedRequest final : Request {
  Request* request = nullptr;
  int peer = 0;
  bool is_send = false;
};

/// Requests under way. (What a failed mesh does not give back stays until the end of this.)
class TimedRequests {
 public:
  TimedRequest* take();
  void give_back(TimedRequest* request) { free_.push_back(request); }

 private:
  std::deque<TimedRequest> all_;
  std::vector<TimedRequest*> free_;
};

/// `watch` outlives it. Threads: as any mesh.
class TimedMesh final : public Mesh {
 public:
  TimedMesh(std::unique_ptr<Mesh> mesh, CallWatch& watch) : mesh_(std::move(mesh)), watch_(watch) {}

  int rank() const override { return mesh_->rank(); }
  int size() const override { return mesh_->size(); }
  bool is_local(int peer) const override { return mesh_->is_local(peer); }
  int ranks_per_host() const override { return mesh_->ranks_per_host(); }
  std::uint32_t root_word() const override { return mesh_->root_word(); }

  Result<Request*> isend(int peer, ConstBuffer payload, const FrameLabel& label) override;
  Result<Request*> irecv(int peer, Buffer into, const FrameLabel& label) override;
  Result<Request*> irecv_view(int peer, FrameLength length, const FrameLabel& label) override;
  Result<ConstBuffer> wait(Request* request) override;
  Result<bool> poll(Request* request) override;
  void release(Request* request) override;

  Result<Buffer> staging(std::size_t slot, std::size_t bytes) override {
    return mesh_->staging(slot, bytes);
  }
  void give_back_staging() override { mesh_->give_back_staging(); }
  std::size_t spare_bytes() const override { return mesh_->spare_bytes(); }
  bool reads_staging(int peer, std::size_t bytes) const override {
    return mesh_->reads_staging(peer, bytes);
  }
  void set_timeout(std::chrono::milliseconds timeout) override { mesh_->set_timeout(timeout); }
  void abort(const Status& reason) override { mesh_->abort(reason); }
  Status check() override { return mesh_->check(); }
  Status failure() const override { return mesh_->failure(); }
  MeshCounters counters() const override { return mesh_->counters(); }
  Result<UniqueId> survivors_id(std::span<const int> survivors) override {
    return mesh_->survivors_id(survivors);
  }

 private:
  Result<Request*> take(int peer, bool is_send, const Result<Request*>& request);

  const std::unique_ptr<Mesh> mesh_;
  CallWatch& watch_;
  TimedRequests requests_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_LIVE_TIMED_MESH_H_
