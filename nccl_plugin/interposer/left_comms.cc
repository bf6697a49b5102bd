#include "nccl_plugin/interposer/left_comms.h"

#include <mutex>
#include <utility>

#include "nccl_plugin/session/statistics_file.h"

namespace ringpress::nccl_plugin::interposer {

void LeftComms::add(ncclComm_t handle, WhyLeft why, State state) {
  if (settings_.statistics.empty() || handle == nullptr) return;
  auto left = std::make_shared<Left>();
  left->why = std::move(why);
  switch (state) {
    case State::kReady:
      ask(handle, *left);
      break;
    case State::kInTheMaking:
      break;
  }
  left->report.open([this, known = left.get()](ReportTime) { write(*known); });
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

WhyLeft LeftComms::why(ncclComm_t handle) const {
  const std::shared_ptr<Left> left = find(handle);
  return left == nullptr ? WhyLeft() : left->why;
}

void LeftComms::count(ncclComm_t handle) {
  const std::shared_ptr<Left> left = find(handle);
  if (left == nullptr) return;
  ask(handle, *left);
  left->calls.fetch_add(1);
}

/// Once, and not at the exit, when the real library may be gone.
void LeftComms::ask(ncclComm_t handle, Left& left) const {
  if (left.has_asked.load(std::memory_order_relaxed) || left.has_asked.exchange(true)) return;
  int rank = 0, size = 0;
  if (real_.CommUserRank(handle, &rank) != ncclSuccess) return;
  if (real_.CommCount(handle, &size) != ncclSuccess) return;
  left.rank.store(rank);
  left.size.store(size);
}

void LeftComms::end(ncclComm_t handle) {
  const std::shared_ptr<Left> left = find(handle);
  if (left == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    if (comms_.erase(handle) == 0) return;  // Another thread was faster.
    size_.store(comms_.size());
  }
  ask(handle, *left);
  left->report.write();
}

void LeftComms::write(const Left& left) const {
  const int size = left.size.load();
  Statistics statistics;
  statistics.calls = left.calls.load();
  statistics.last_codec = kNoCodec;
  statistics.last_reason = to_text(left.why);
  if (statistics.calls > 0) statistics.exact_calls[statistics.last_reason] = statistics.calls;
  write_statistics(settings_, size == 0 ? 0 : left.rank.load(), size, statistics,
                   StatisticsTime::kOfHost);
}

}  // namespace ringpress::nccl_plugin::interposer
