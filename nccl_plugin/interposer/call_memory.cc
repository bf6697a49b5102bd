#include "nccl_plugin/interposer/call_memory.h"

#include "nccl_plugin/block_pool.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

// What a codec on host memory keeps of a chunk. On a device less is wanted: some 100 bytes a rank.
constexpr std::size_t kLargestBlockBytes = 4 * 1024 * 1024;

}  // namespace

std::pmr::memory_resource* call_memory() {
  thread_local BlockPool memory(kLargestBlockBytes);
  return &memory;
}

}  // namespace ringpress::nccl_plugin::interposer
