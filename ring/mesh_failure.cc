// How a mesh ends, in good order or not: every connected rank hears why.
#include <algorithm>

#include "ring/mesh_impl.h"

namespace ringpress::ring {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSpreadPatience{1000};
constexpr milliseconds kGoodbyePatience{2000};

}  // namespace

template <typename Function>
void MeshImpl::for_each_channel(Function function) {
  for (Peer& peer : peers_) {
    if (peer.send != nullptr) function(*peer.send);
    if (peer.receive != nullptr) function(*peer.receive);
  }
}

/// Owner only. Frames that were started are sent first.
void MeshImpl::say_goodbye() {
  for_each_channel([](auto& channel) { channel.close(Status::ok()); });
  flush_channels(std::min(parts_.timeout, kGoodbyePatience));
}

void MeshImpl::latch_failure(const Status& reason) {
  const std::lock_guard<std::mutex> lock(failure_mutex_);
  if (!failure_.is_ok()) return;
  failure_ = reason;
  failed_.store(true);
}

/// Owner only. Returns the first failure, which may not be `reason`.
Status MeshImpl::fail(const Status& reason) {
  latch_failure(reason);
  spread_failure();
  return failure();
}

/// Owner only. Sends the reason to all connected peers, once. Frames that are half sent end first,
/// so that the peer can read the reason behind them; the caller's memory is still valid now.
void MeshImpl::spread_failure() {
  if (spread_.exchange(true)) return;
  const Status reason = failure();
  static_cast<void>(accept_peers());
  for_each_channel([&reason](auto& channel) { channel.close(reason); });
  flush_channels(kSpreadPatience);
}

void MeshImpl::spread_failure_if_free() {
  if (spread_.load() || !owner_.try_lock()) return;
  spread_failure();
  owner_.unlock();
}

void MeshImpl::flush_channels(milliseconds patience) {
  const Deadline until = Clock::now() + patience;
  while (Clock::now() < until) {
    bool flushed = true;
    for_each_channel([&flushed](auto& channel) { flushed = flushed && channel.flushed(); });
    if (flushed) return;
    parts_.tcp->wait(until);
    if (parts_.shm != nullptr) static_cast<void>(parts_.shm->progress());
  }
}

void MeshImpl::abort(const Status& reason) {
  latch_failure(reason.is_ok() ? Status(Code::kAborted, "aborted") : reason);
  parts_.reactor->wake();
  spread_failure_if_free();
}

Status MeshImpl::failure() const {
  const std::lock_guard<std::mutex> lock(failure_mutex_);
  return failure_;
}

}  // namespace ringpress::ring
