// NCCL's staging memory of one CollNet communicator. It is zero at first, and a call's part of it
// is ours until the call is done. If it is cleared then, a later tensor has zeros behind its end
// there, so that a piece may be compressed of which nobody knows where its tensor ends. Where the
// end is known, clearing is left out.
#ifndef NCCL_PLUGIN_PLUGIN_STAGING_H_
#define NCCL_PLUGIN_PLUGIN_STAGING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nccl_plugin/plugin/registered_memory.h"

namespace ringpress::nccl_plugin::plugin {

/// Which of it is not zero but where the next tensor is written. The same on all nodes, as NCCL
/// gives their calls the same places in it. One thread at a time.
class Staging {
 public:
  Staging() { soiled_.reserve(kRangesAtFirst); }

  void soil(const MemoryRange& range);
  void clear(const MemoryRange& range);
  bool is_clear(const MemoryRange& range) const;

 private:
  // NCCL has eight steps, each of one range.
  static constexpr std::size_t kRangesAtFirst = 64;

  struct Range {
    std::uintptr_t begin;
    std::uintptr_t end;
  };
  static Range range_of(const MemoryRange& range);

  std::vector<Range> soiled_;  // In no order; none overlaps or touches another.
};

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_STAGING_H_
