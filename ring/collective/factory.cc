#include "ring/factory.h"
#include "ring/collective/ring.h"
#include "ring/collective/sra.h"

namespace ringpress::ring {

std::unique_ptr<Collective> make_collective(Algorithm algorithm, std::vector<int> ring_order) {
  switch (algorithm) {
    case Algorithm::kRing:
      return std::make_unique<Ring>(std::move(ring_order));
    case Algorithm::kSra:
      return std::make_unique<ScatterReduceAllGather>();
    case Algorithm::kHier:
      break;  // Of several communicators: nccl_plugin/interposer/stream/stream_hier.cc.
  }
  throw std::logic_error("unknown Algorithm");
}

}  // namespace ringpress::ring
