#include "nccl_plugin/interposer/comm/lifetime.h"

#include <chrono>
#include <thread>

#include "nccl_plugin/errors/firewall.h"
#include "nccl_plugin/interposer/last_error.h"

namespace ringpress::nccl_plugin::interposer {

void revoke(const ringpressRealNccl& real, ncclComm_t handle) noexcept {
  constexpr std::chrono::seconds kPatience{1};
  if (real.CommRevoke == nullptr || handle == nullptr) return;
  ncclResult_t result = real.CommRevoke(handle, NCCL_REVOKE_DEFAULT);
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (result == ncclInProgress && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (real.CommGetAsyncError == nullptr) return;
    if (real.CommGetAsyncError(handle, &result) != ncclSuccess) return;
  }
}

void CommLifetime::end_groups(bool is_abort) noexcept {
  if (groups_ended_.exchange(true)) return;
  // What is in there stays: another thread may be reading it.
  HostGroups ended = groups_;
  ended.end(is_abort ? real_.CommAbort : real_.CommDestroy);
}

void CommLifetime::give_up(ncclResult_t failure) noexcept {
  ncclResult_t none = ncclSuccess;
  if (!failure_.compare_exchange_strong(none, failure) || !enter()) return;
  // Not ncclCommAbort(): that would take the handle from the program.
  revoke(real_, handle_);
  leave();
  end_groups(true);
}

bool CommLifetime::enter() {
  inside_.fetch_add(1);
  if (!is_retired_.load()) return true;
  inside_.fetch_sub(1);
  return false;
}

void CommLifetime::retire() {
  constexpr std::chrono::milliseconds kPatience{100};
  is_retired_.store(true);
  // Who is inside may be waiting for what the real library is about to abort: not longer than this.
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (inside_.load() > 0 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// What a call of the real library would answer in our place, so that a program that would go on
/// and look for errors is not kept from that until the wait times out.
Status CommLifetime::find_failure(Stream stream) {
  RINGPRESS_RETURN_IF_ERROR(device_.find_failure(stream));
  if (real_.CommGetAsyncError == nullptr || !enter()) return Status::ok();
  ncclResult_t error = ncclSuccess;
  const ncclResult_t asked = real_.CommGetAsyncError(handle_, &error);
  leave();
  if (asked != ncclSuccess || error == ncclInProgress) return Status::ok();
  return answered("ncclCommGetAsyncError", error);
}

}  // namespace ringpress::nccl_plugin::interposer
