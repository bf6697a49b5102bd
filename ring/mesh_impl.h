// The mesh: one owner of its connections at a time, and one failure for all its ranks.
#ifndef RING_MESH_IMPL_H_
#define RING_MESH_IMPL_H_

#include <atomic>
#include <chrono>

#include "ring/mesh_connections.h"
#include "ring/mesh_failure.h"
#include "ring/mesh_transfers.h"
#include "ring/mesh_turns.h"

namespace ringpress::ring {

class MeshImpl final : public Mesh {
 public:
  explicit MeshImpl(MeshParts parts) : core_(std::move(parts)) {}
  ~MeshImpl() override;

  int rank() const override { return core_.parts.rank; }
  int size() const override { return static_cast<int>(core_.parts.endpoints.size()); }
  bool is_local(int peer) const override;
  int ranks_per_host() const override { return core_.parts.ranks_per_host; }
  std::uint32_t root_word() const override { return core_.parts.root_word; }

  void set_timeout(std::chrono::milliseconds timeout) override {
    core_.connections.set_timeout(timeout);
  }
  Result<Request*> isend(int peer, ConstBuffer payload, const FrameLabel& label) override;
  Result<Request*> irecv(int peer, Buffer into, const FrameLabel& label) override;
  Result<Request*> irecv_view(int peer, FrameLength length, const FrameLabel& label) override;
  Result<ConstBuffer> wait(Request* request) override;
  Result<bool> poll(Request* request) override;
  void release(Request* request) override;
  Result<Buffer> staging(std::size_t slot, std::size_t bytes) override;
  void give_back_staging() override;
  std::size_t spare_bytes() const override { return core_.transfers.spare_bytes(); }
  bool reads_staging(int peer, std::size_t bytes) const override;

  void abort(const Status& reason) override;
  Status check() override;
  Status failure() const override { return core_.failure.status(); }
  MeshCounters counters() const override;
  Result<UniqueId> survivors_id(std::span<const int> survivors) override;

 private:
  using Turn = MeshTurns::Turn;

  MeshCore core_;
  MeshTurns turns_{core_};
  std::atomic<unsigned> survivors_ids_{0};
};

}  // namespace ringpress::ring

#endif  // RING_MESH_IMPL_H_
