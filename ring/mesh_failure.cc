// How a mesh ends, in good order or not: every connected rank hears why.
#include <algorithm>

#include "ring/bootstrap/unique_id.h"
#include "ring/mesh_impl.h"
#include "ring/transport/common/hello.h"

namespace ringpress::ring {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSpreadPatience{1000};
constexpr milliseconds kGoodbyePatience{2000};
constexpr milliseconds kCausePatience{1000};
constexpr milliseconds kSlice{20};

}  // namespace

/// How long to wait for peers, counted in slices: a process that did not run for a second (stopped,
/// starved, its machine moved) has used one slice of it, not all.
class MeshImpl::Patience {
 public:
  explicit Patience(milliseconds total) : left_(total), seen_(Clock::now()) {}

  bool lasts() const { return left_.count() > 0; }
  /// Sleeps until the transport may have something to do, for a slice at most.
  void wait(Transport& transport) {
    transport.wait(seen_ + kSlice);
    const Deadline now = Clock::now();
    left_ -= std::min<Clock::duration>(now - seen_, kSlice);
    seen_ = now;
  }

 private:
  Clock::duration left_;
  Deadline seen_;
};

template <typename Function>
void MeshImpl::for_each_channel(Function function) {
  for (Peer& peer : peers_) {
    if (peer.send != nullptr) function(*peer.send);
    if (peer.receive != nullptr) function(*peer.receive);
  }
}

/// Owner only. Frames that were started are sent first.
void MeshImpl::say_goodbye() {
  close_channels(Status::ok());
  flush_channels(Patience(std::min(timeout_.load(), kGoodbyePatience)));
}

void MeshImpl::latch_failure(const Status& reason) {
  const std::lock_guard<std::mutex> lock(failure_mutex_);
  if (!failure_.is_ok()) return;
  failure_ = reason;
  failed_.store(true);
}

/// Owner only. Returns the first failure, which may not be `reason`.
Status MeshImpl::fail(const Status& reason) {
  latch_failure(failed_.load() ? reason : cause_of(reason));
  spread_failure();
  return failure();
}

bool MeshImpl::was_told_why() const {
  return std::any_of(parts_.transports.begin(), parts_.transports.end(),
                     [](const auto& transport) { return transport->was_told_why(); });
}

/// A peer that is gone may have failed for a reason that others have heard or will say in a moment.
/// Waits a little for it; gives `reason` itself if nobody knows better. What a peer said is taken
/// at once: it has waited, and around a ring every further wait would add up.
Status MeshImpl::cause_of(const Status& reason) {
  if (reason.code() != Code::kPeerLost || was_told_why()) return reason;
  Patience patience(std::min(timeout_.load(), kCausePatience));
  while (!failed_.load() && patience.lasts()) {
    // The reason may lie behind frames that nobody will receive any more.
    for (Peer& peer : peers_) {
      if (peer.receive != nullptr) peer.receive->drain();
    }
    for (const auto& transport : parts_.transports) {
      const Status heard = transport->progress().status();
      if (!heard.is_ok() && (heard.code() != Code::kPeerLost || transport->was_told_why())) {
        return heard;
      }
    }
    const Status accepted = accept_peers();
    if (!accepted.is_ok() && accepted.code() != Code::kPeerLost) return accepted;
    patience.wait(any_transport());
  }
  return reason;
}

/// Owner only. Sends the reason to all connected peers, once, and then to those whose connections
/// are being made. Frames that are half sent end first, so that the peer can read the reason behind
/// them; the caller's memory is still valid now. Peers that connect later are refused: they must
/// not wait for a rank that has given up.
void MeshImpl::spread_failure() {
  if (spread_.exchange(true)) return;
  const Status reason = failure();
  close_channels(reason);
  finish_connecting(reason);
  flush_channels(Patience(kSpreadPatience));
}

void MeshImpl::close_channels(const Status& reason) {
  for_each_channel([&reason](auto& channel) { channel.close(reason); });
}

/// Peers that this rank connects to expect frames from it, and peers that connect to it wait for it
/// to take theirs: they must hear why neither will happen.
void MeshImpl::finish_connecting(const Status& reason) {
  const auto is_waiting = [](const Peer& peer) { return !peer.unsent.empty(); };
  const auto is_opening = [&] {
    return std::any_of(peers_.begin(), peers_.end(), is_waiting) ||
           std::any_of(parts_.transports.begin(), parts_.transports.end(),
                       [](const auto& transport) { return transport->is_accepting(); });
  };
  Patience patience(std::min(timeout_.load(), kSpreadPatience));
  bool listens = true;
  do {
    for (const auto& transport : parts_.transports) {
      static_cast<void>(transport->progress());
      if (listens) transport->stop_listening();
    }
    listens = false;
    for (std::size_t index = 0; index < peers_.size(); ++index) {
      if (!is_waiting(peers_[index])) continue;
      if (!connect_peer(index).is_ok()) peers_[index].unsent.clear();
    }
    static_cast<void>(accept_peers());
    close_channels(reason);
    if (is_opening()) patience.wait(any_transport());
  } while (is_opening() && patience.lasts());
}

void MeshImpl::spread_failure_if_free() {
  if (spread_.load() || !owner_.try_take()) return;
  spread_failure();
  owner_.give();
}

void MeshImpl::flush_channels(Patience patience) {
  while (patience.lasts()) {
    bool flushed = true;
    for_each_channel([&flushed](auto& channel) { flushed = flushed && channel.flushed(); });
    if (flushed) return;
    patience.wait(any_transport());
    for (const auto& transport : parts_.transports) static_cast<void>(transport->progress());
  }
}

void MeshImpl::abort(const Status& reason) {
  latch_failure(reason.is_ok() ? Status(Code::kAborted, "aborted") : reason);
  parts_.reactor->wake();
  spread_failure_if_free();
}

Result<UniqueId> MeshImpl::survivors_id(std::span<const int> survivors) {
  RINGPRESS_EXPECTS(!survivors.empty(), "nobody survives");
  std::string name = "survivors " + std::to_string(survivors_ids_++);
  for (const int rank : survivors) name += "," + std::to_string(rank);
  bootstrap::UniqueId id;
  id.secret = transport::mix_secret(parts_.secret, name);
  id.address = parts_.endpoints[static_cast<std::size_t>(survivors.front())].addresses.back();
  id.rank_zero_serves = true;
  return bootstrap::pack_id(id);
}

Status MeshImpl::failure() const {
  const std::lock_guard<std::mutex> lock(failure_mutex_);
  return failure_;
}

}  // namespace ringpress::ring
