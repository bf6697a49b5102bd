// The ranks of a mesh, as tuning sees them.
#ifndef NCCL_PLUGIN_SESSION_MESH_PEERS_H_
#define NCCL_PLUGIN_SESSION_MESH_PEERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>

#include "nccl_plugin/session/tuning/peers.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/collective.h"
#include "ringpress/internal/mesh.h"

namespace ringpress::nccl_plugin {

class MeshPeers final : public tuning::Peers {
 public:
  /// All outlive this. `sequence`: of the communicator's calls, among which these are.
  MeshPeers(Mesh& mesh, std::pmr::memory_resource& memory, std::uint64_t& sequence);
  ~MeshPeers() override;

  int rank() const override { return mesh_.rank(); }
  int size() const override { return mesh_.size(); }
  bool is_local(int peer) const override { return mesh_.is_local(peer); }
  Status sum(std::span<float> values) override;
  Status swap(int peer, std::span<const float> sent, std::span<float> received) override;
  Status max(std::span<double> values) override;
  Status broadcast(std::span<std::byte> bytes) override;
  std::uint64_t sent_bytes() const override { return mesh_.counters().sent_bytes; }
  /// `all`: what every rank passes as `own`, by rank.
  Status gather(std::span<const std::byte> own, std::span<std::byte> all);

 private:
  CollectiveContext make_context(CollectiveKind kind, std::size_t count, const Codec& codec);

  Mesh& mesh_;
  std::pmr::memory_resource& memory_;
  std::uint64_t& sequence_;
  const std::unique_ptr<Collective> sra_;
  const std::unique_ptr<Codec> sum_;
  const std::unique_ptr<Codec> max_;
  const std::unique_ptr<Codec> bytes_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_MESH_PEERS_H_
