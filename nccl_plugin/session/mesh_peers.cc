#include "nccl_plugin/session/mesh_peers.h"

#include <array>

#include "compress_kernels/factory.h"
#include "ring/factory.h"

namespace ringpress::nccl_plugin {
namespace {

std::unique_ptr<Codec> make_exact(DType dtype, ReduceOp op) {
  return compress_kernels::make_codec("none", dtype, op).value();
}

}  // namespace

MeshPeers::MeshPeers(Mesh& mesh, std::pmr::memory_resource& memory, std::uint64_t& sequence)
    : mesh_(mesh),
      memory_(memory),
      sequence_(sequence),
      sra_(ring::make_collective(Algorithm::kSra)),
      sum_(make_exact(DType::kFloat32, ReduceOp::kSum)),
      max_(make_exact(DType::kFloat64, ReduceOp::kMax)),
      bytes_(make_exact(DType::kUint8, ReduceOp::kSum)) {}

MeshPeers::~MeshPeers() = default;

CollectiveContext MeshPeers::make_context(CollectiveKind kind, std::size_t count,
                                          const Codec& codec) {
  CollectiveContext context;
  context.mesh = &mesh_;
  context.memory = &memory_;
  context.codec = &codec;
  context.call.sequence = sequence_++;
  context.call.count = count;
  context.call.kind = kind;
  context.call.dtype = codec.dtype();
  context.call.op = codec.op();
  context.call.algorithm = Algorithm::kSra;
  context.call.root = kind == CollectiveKind::kBroadcast ? 0 : -1;
  return context;
}

Status MeshPeers::sum(std::span<float> values) {
  return sra_->all_reduce(make_context(CollectiveKind::kAllReduce, values.size(), *sum_),
                          {values.data(), values.data(), values.size()});
}

Status MeshPeers::swap(int peer, std::span<const float> sent, std::span<float> received) {
  // Also of who swaps with nobody: calls are numbered alike on all ranks.
  const CallSignature call = make_context(CollectiveKind::kSendRecv, sent.size(), *sum_).call;
  if (peer < 0) return Status::ok();
  const std::array<ring::PointToPoint, 2> transfers = {
      {{true, const_cast<float*>(sent.data()), sent.size_bytes(), peer, call},
       {false, received.data(), received.size_bytes(), peer, call}}};
  return ring::exchange(mesh_, transfers, 0);
}

Status MeshPeers::max(std::span<double> values) {
  return sra_->all_reduce(make_context(CollectiveKind::kAllReduce, values.size(), *max_),
                          {values.data(), values.data(), values.size()});
}

Status MeshPeers::broadcast(std::span<std::byte> bytes) {
  return ring::broadcast(make_context(CollectiveKind::kBroadcast, bytes.size(), *bytes_),
                         bytes.data(), bytes.data(), bytes.size(), 0);
}

Status MeshPeers::gather(std::span<const std::byte> own, std::span<std::byte> all) {
  return sra_->all_gather(make_context(CollectiveKind::kAllGather, own.size(), *bytes_),
                          {own.data(), all.data(), own.size()});
}

}  // namespace ringpress::nccl_plugin
