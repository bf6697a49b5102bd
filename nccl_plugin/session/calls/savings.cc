#include "nccl_plugin/session/calls/savings.h"

#include <cstddef>

#include "ringpress/internal/projection.h"

namespace ringpress::nccl_plugin {
namespace {

/// Without layers, of which ranks may not know the same.
std::size_t projected_bytes(const Projection& projection, std::size_t count) {
  std::size_t bytes = 0;
  for (int round = 0; round < projection.rounds(); ++round) {
    bytes += projection.inner().wire_bytes(projection.projected_count(round, {count, {}}));
  }
  return bytes;
}

}  // namespace

bool saves_bytes(const Codec& codec, const PlanRequest& request) {
  if (codec.traits().identity) return false;
  if (!codec.traits().fixed_size || request.count == 0) return true;
  const std::size_t element = dtype_size(request.dtype);
  if (codec.projection() != nullptr) {
    return projected_bytes(*codec.projection(), request.count) < request.count * element;
  }
  // The part of a rank: all-reduces send it as it is, and the sum of all of them.
  const auto world = static_cast<std::size_t>(request.world);
  const std::size_t part = (request.count + world - 1) / world;
  const std::size_t own = codec.wire_bytes(part, {1, world});
  const std::size_t sum = codec.wire_bytes(part, {world, world});
  if (request.kind == CollectiveKind::kAllReduce) return own + sum < 2 * part * element;
  return (request.kind == CollectiveKind::kAllGather ? sum : own) < part * element;
}

}  // namespace ringpress::nccl_plugin
