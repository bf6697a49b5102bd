#include "ring/transport/shm/handover.h"

#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "ring/transport/common/handshake_socket.h"

namespace ringpress::ring::transport::shm {
namespace {

/// Sixteen random bytes at a known address: whoever can read them here can read this process.
struct Probe {
  std::array<std::byte, 16> bytes;
  Probe() { fill_random(bytes.data(), bytes.size()); }
};

const Probe& process_probe() {
  static const Probe probe;
  return probe;
}

struct Offer {
  std::uint64_t probe_address = 0;
  std::array<std::byte, 16> probe{};
};

struct Reply {
  std::uint32_t mapped = 0;
  std::uint32_t reads_process = 0;
};

constexpr std::size_t kPassed = 2;  // Descriptors: the memory file, the wake descriptor.

int process_of(int socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return 0;
  return credentials.pid;
}

bool can_read(int process, const Offer& offer) {
  std::array<std::byte, 16> seen{};
  const iovec here{seen.data(), seen.size()};
  const iovec there{reinterpret_cast<void*>(offer.probe_address), offer.probe.size()};
  if (process <= 0 || process_vm_readv(process, &here, 1, &there, 1, 0) != ssize_t(seen.size())) {
    return false;
  }
  return seen == offer.probe;
}

}  // namespace

Handover::Handover(Reactor& reactor, const OwnMemory& own, Fd socket, bool connector)
    : reactor_(reactor),
      own_(own),
      connector_(connector),
      expires_(Clock::now() + kConfirmTimeout) {
  link_.control = std::move(socket);
  const Status added = reactor_.add(link_.control.get(), this);
  if (!added.is_ok()) fail(added.message());
  if (!connector_ || !added.is_ok()) return;
  Offer offer;
  offer.probe_address = reinterpret_cast<std::uint64_t>(process_probe().bytes.data());
  offer.probe = process_probe().bytes;
  send_message(&offer, sizeof offer, true);
}

Handover::~Handover() {
  if (link_.control.valid()) reactor_.remove(link_.control.get(), this);
}

bool Handover::is_over(Deadline now) {
  if (now >= expires_) on_events(EPOLLIN);
  return state_ == State::kFailed || (state_ == State::kUnderWay && now >= expires_);
}

Link Handover::take_link() {
  reactor_.remove(link_.control.get(), this);
  return std::move(link_);
}

void Handover::fail(const std::string& why) {
  state_ = State::kFailed;
  failure_ = why;
}

void Handover::send_message(const void* message, std::size_t bytes, bool with_descriptors) {
  iovec piece{const_cast<void*>(message), bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(kPassed * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  if (with_descriptors) {
    const int passed[kPassed] = {own_.segment->descriptor(), own_.wake};
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* item = CMSG_FIRSTHDR(&header);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof passed);
    std::memcpy(CMSG_DATA(item), passed, sizeof passed);
  }
  const ssize_t sent = sendmsg(link_.control.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent != ssize_t(bytes)) fail("cannot pass shared memory to the peer");
}

bool Handover::receive_message(void* message, std::size_t bytes, bool with_descriptors) {
  iovec piece{message, bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(kPassed * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  const ssize_t got = recvmsg(link_.control.get(), &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  int passed[kPassed] = {-1, -1};
  const cmsghdr* item = CMSG_FIRSTHDR(&header);
  if (item != nullptr && item->cmsg_type == SCM_RIGHTS &&
      item->cmsg_len == CMSG_LEN(sizeof passed)) {
    std::memcpy(passed, CMSG_DATA(item), sizeof passed);
    peer_file_ = Fd(passed[0]);
    link_.peer = std::make_shared<PeerMemory>();
    link_.peer->wake = Fd(passed[1]);
  }
  // Local sockets deliver such a short message whole.
  if (got != ssize_t(bytes) || (with_descriptors && !peer_file_.valid())) {
    fail("the peer did not pass its shared memory");
    return false;
  }
  return true;
}

void Handover::map_peer() {
  Result<std::unique_ptr<Segment>> segment = Segment::map(peer_file_.get(), own_.world);
  if (!segment.is_ok()) return fail(segment.status().message());
  link_.peer->segment = std::move(segment).value();
  peer_file_.reset();
}

void Handover::on_events(std::uint32_t) {
  if (state_ != State::kUnderWay) return;
  if (connector_) {
    step_connector();
  } else {
    step_acceptor();
  }
}

void Handover::step_connector() {
  Reply reply;
  if (!receive_message(&reply, sizeof reply, true)) return;
  if (reply.mapped != 1) return fail("the peer could not map this rank's shared memory");
  map_peer();
  if (state_ == State::kFailed) return;
  const char confirm = 1;
  send_message(&confirm, sizeof confirm, false);
  link_.reads_process = reply.reads_process == 1;
  if (state_ == State::kUnderWay) state_ = State::kReady;
}

void Handover::step_acceptor() {
  if (!exchanged_) {
    Offer offer;
    if (!receive_message(&offer, sizeof offer, true)) return;
    map_peer();
    link_.process = process_of(link_.control.get());
    link_.reads_process = own_.reads_process && can_read(link_.process, offer);
    const Reply reply{state_ == State::kFailed ? 0u : 1u, link_.reads_process ? 1u : 0u};
    send_message(&reply, sizeof reply, true);
    exchanged_ = true;
    expires_ = Clock::now() + kConfirmTimeout;
    if (state_ == State::kFailed) return;
  }
  char confirm = 0;
  if (!receive_message(&confirm, sizeof confirm, false)) return;
  state_ = confirm == 1 ? State::kReady : State::kFailed;
}

}  // namespace ringpress::ring::transport::shm
