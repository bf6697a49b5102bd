#include "nccl_plugin/plugin/staging.h"

#include <algorithm>

namespace ringpress::nccl_plugin::plugin {

Staging::Range Staging::range_of(const MemoryRange& range) {
  const auto begin = reinterpret_cast<std::uintptr_t>(range.data);
  return {begin, begin + range.bytes};
}

void Staging::soil(const MemoryRange& range) {
  Range joined = range_of(range);
  for (const Range& soiled : soiled_) {
    if (soiled.begin <= joined.begin && joined.end <= soiled.end) return;
  }
  std::erase_if(soiled_, [&joined](const Range& soiled) {
    if (soiled.end < joined.begin || joined.end < soiled.begin) return false;
    joined = {std::min(joined.begin, soiled.begin), std::max(joined.end, soiled.end)};
    return true;
  });
  soiled_.push_back(joined);
}

void Staging::clear(const MemoryRange& range) {
  const Range cleared = range_of(range);
  for (std::size_t i = soiled_.size(); i-- > 0;) {
    const Range soiled = soiled_[i];
    if (soiled.end <= cleared.begin || cleared.end <= soiled.begin) continue;
    soiled_.erase(soiled_.begin() + static_cast<std::ptrdiff_t>(i));
    if (soiled.begin < cleared.begin) soiled_.push_back({soiled.begin, cleared.begin});
    if (cleared.end < soiled.end) soiled_.push_back({cleared.end, soiled.end});
  }
}

bool Staging::is_clear(const MemoryRange& range) const {
  const Range wanted = range_of(range);
  return std::none_of(soiled_.begin(), soiled_.end(), [&wanted](const Range& soiled) {
    return soiled.begin < wanted.end && wanted.begin < soiled.end;
  });
}

}  // namespace ringpress::nccl_plugin::plugin
