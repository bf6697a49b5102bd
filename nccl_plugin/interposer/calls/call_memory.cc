#include "nccl_plugin/interposer/calls/call_memory.h"

#include <memory>

#include "nccl_plugin/session/block_pool.h"
#include "ringpress/internal/per_thread.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

// What a codec on host memory keeps of a chunk. On a device less is wanted: some 100 bytes a rank.
constexpr std::size_t kLargestBlockBytes = 4 * 1024 * 1024;

}  // namespace

std::pmr::memory_resource* call_memory() {
  static const auto& pools = *new PerThread<BlockPool>;
  return &pools.get([] { return std::make_unique<BlockPool>(kLargestBlockBytes); });
}

}  // namespace ringpress::nccl_plugin::interposer
