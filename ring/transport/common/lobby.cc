#include "ring/transport/common/lobby.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace ringpress::ring::transport {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kSpareHandshakes = 256;  // Beyond those that peers need.
constexpr std::size_t kFewestHandshakes = 16;
constexpr std::size_t kMostAtOnce = 1024;
constexpr rlim_t kShareOfFiles = 8;  // So much less than this process may open.
// A peer says hello as soon as it is connected.
constexpr milliseconds kPatienceWithoutFiles{20};
constexpr milliseconds kLongSilence{1000};

}  // namespace

Status Lobby::open(Fd listener, const Identity& identity, HelloPurpose purpose) {
  identity_ = identity;
  purpose_ = purpose;
  listener_ = std::move(listener);
  return reactor_.add(listener_.get(), this);
}

Fd Lobby::stop_listening() {
  if (!listener_.valid()) return {};
  reactor_.remove(listener_.get(), this);
  waits_outside_ = false;
  Fd stopped = std::move(listener_);
  // A process that was forked in between may have it, too.
  if (!reactor_.is_of_this_process()) return {};
  ::shutdown(stopped.get(), SHUT_RDWR);
  return stopped;
}

void Lobby::close() {
  stop_listening();
  inside_.clear();
}

/// For those who have not shown that they know the secret.
std::size_t Lobby::room() const {
  const std::size_t wanted = kSpareHandshakes + expected_;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return wanted;
  const rlim_t share = files.rlim_cur / kShareOfFiles;
  return static_cast<std::size_t>(std::clamp<rlim_t>(share, kFewestHandshakes, wanted));
}

std::size_t Lobby::count_silent() const {
  const auto is_silent = [](const auto& socket) { return socket->is_silent(); };
  return static_cast<std::size_t>(std::count_if(inside_.begin(), inside_.end(), is_silent));
}

/// Those who came before `moment`, oldest first, but not more than `most`.
void Lobby::drop_silent(Deadline moment, std::size_t most) {
  for (auto& socket : inside_) {
    if (most == 0) break;
    if (!socket->give_way(moment)) continue;
    on_dropped_(*socket);
    socket.reset();
    --most;
  }
  std::erase(inside_, nullptr);
}

void Lobby::let_in() {
  const std::size_t most = room();
  std::size_t silent = count_silent();
  for (std::size_t i = 0; i < kMostAtOnce && listener_.valid(); ++i) {
    AcceptedSocket accepted = accept_from(listener_.get());
    waits_outside_ = accepted.is_short_of_files;
    if (accepted.is_short_of_files) {
      drop_silent(Clock::now() - kPatienceWithoutFiles, inside_.size());
    }
    if (!accepted.socket.valid()) return;
    if (silent >= most) drop_silent(Clock::now(), 1);
    set_no_delay(accepted.socket.get());
    inside_.push_back(std::make_unique<HandshakeSocket>(
        reactor_, std::move(accepted.socket),
        AcceptorHandshake(make_hello(identity_, purpose_), identity_.secret)));
    silent = silent >= most ? count_silent() : silent + 1;
  }
  waits_outside_ = listener_.valid();  // Maybe. take() goes on.
}

bool Lobby::is_busy(Deadline now) const {
  return waits_outside_ || std::any_of(inside_.begin(), inside_.end(), [now](const auto& socket) {
           return !socket->is_silent() || socket->since() > now - kLongSilence;
         });
}

std::unique_ptr<HandshakeSocket> Lobby::take(Deadline now) {
  if (waits_outside_) let_in();
  std::unique_ptr<HandshakeSocket> found;
  for (auto& socket : inside_) {
    const bool is_over = socket->is_over(now);
    if (found == nullptr && socket->state() == HandshakeSocket::State::kReady) {
      found = std::move(socket);
    } else if (is_over) {
      on_dropped_(*socket);
      socket.reset();
    }
  }
  std::erase(inside_, nullptr);
  return found;
}

}  // namespace ringpress::ring::transport
