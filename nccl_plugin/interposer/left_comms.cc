#include "nccl_plugin/interposer/left_comms.h"

#include <mutex>

#include "nccl_plugin/statistics_file.h"

namespace ringpress::nccl_plugin::interposer {

void LeftComms::add(ncclComm_t handle, const std::string& reason) {
  if (settings_.statistics.empty() || handle == nullptr) return;
  auto left = std::make_shared<Left>();
  left->reason = reason;
  const std::lock_guard lock(mutex_);
  comms_[handle] = std::move(left);
  size_.store(comms_.size());
}

std::shared_ptr<LeftComms::Left> LeftComms::find(ncclComm_t handle) const {
  if (size_.load() == 0) return nullptr;
  const std::shared_lock lock(mutex_);
  const auto found = comms_.find(handle);
  return found == comms_.end() ? nullptr : found->second;
}

std::string LeftComms::reason_of(ncclComm_t handle) const {
  const std::shared_ptr<Left> left = find(handle);
  return left == nullptr ? "" : left->reason;
}

void LeftComms::count(ncclComm_t handle) {
  if (const std::shared_ptr<Left> left = find(handle)) left->calls.fetch_add(1);
}

void LeftComms::end(ncclComm_t handle) {
  const std::shared_ptr<Left> left = find(handle);
  if (left == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    if (comms_.erase(handle) == 0) return;  // Another thread was faster.
    size_.store(comms_.size());
  }
  int rank = 0, size = 0;
  // 0 of 0 where it does not say: one that failed, or whose making was never waited for.
  const bool says = real_.CommUserRank(handle, &rank) == ncclSuccess &&
                    real_.CommCount(handle, &size) == ncclSuccess;
  Statistics statistics;
  statistics.calls = left->calls.load();
  if (statistics.calls > 0) statistics.exact_calls[left->reason] = statistics.calls;
  statistics.last_codec = "none";
  statistics.last_reason = left->reason;
  write_statistics(settings_, says ? rank : 0, says ? size : 0, statistics,
                   StatisticsTime::kOfHost);
}

}  // namespace ringpress::nccl_plugin::interposer
