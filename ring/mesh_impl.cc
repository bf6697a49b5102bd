#include "ring/mesh_impl.h"

#include <sched.h>

#include <algorithm>

namespace ringpress::ring {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// How long a wait tries again before it sleeps: waking a sleeper costs several times the travel of
// a small frame. Only for the first moment, and only with a core of its own, does it not give way
// to other threads: what it waits for may have to run on this very core.
constexpr microseconds kSpinTime{4};
constexpr microseconds kYieldTime{100};
constexpr unsigned kAttemptsPerAdvance = 8;
constexpr milliseconds kConnectPause{50};  // While a connection may have to be made, or let in.
constexpr std::size_t kLargeBytes = 256 * 1024;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

/// The owner's right to touch the transports, for the length of one call.
class MeshImpl::Turn {
 public:
  explicit Turn(MeshImpl& mesh) : mesh_(mesh) { mesh_.owner_.take(); }
  ~Turn() {
    const bool arm = mesh_.parts_.progress_thread && mesh_.large_outstanding_ > 0;
    mesh_.owner_.give();
    // An abort() that found the mesh in use has left the spreading to us. One that did not may be
    // at it: the caller's memory must stay until it is done.
    if (mesh_.failed_.load()) {
      mesh_.owner_.take();
      mesh_.spread_failure();
      mesh_.owner_.give();
    }
    if (arm) mesh_.arm_progress_thread();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  MeshImpl& mesh_;
};

MeshImpl::MeshImpl(MeshParts parts) : parts_(std::move(parts)), peers_(parts_.endpoints.size()) {
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
    peers_[peer].transport = preferred_transport(parts_.endpoints[peer], 0);
  }
  if (parts_.progress_thread) thread_ = std::thread([this] { run_progress_thread(); });
}

MeshImpl::~MeshImpl() {
  if (thread_.joinable()) {
    {
      const std::lock_guard<std::mutex> lock(thread_mutex_);
      thread_stop_ = true;
    }
    thread_wake_.notify_one();
    parts_.reactor->wake();
    thread_.join();
  }
  owner_.take();
  if (!failed_.load()) {
    say_goodbye();
  }
  // Channels refer to their transports, transports to the reactor.
  peers_.clear();
}

bool MeshImpl::is_local(int peer) const {
  return parts_.endpoints[static_cast<std::size_t>(peer)].local;
}

// --- starting ---

Result<Request*> MeshImpl::isend(int peer, ConstBuffer payload, const FrameLabel& label) {
  Turn turn(*this);
  MeshRequest* request = requests_.take();
  request->direction = Direction::kSend;
  request->peer = static_cast<std::size_t>(peer);
  request->source = payload;
  request->label = label;
  return start(request);
}

Result<Request*> MeshImpl::irecv(int peer, Buffer into, const FrameLabel& label) {
  Turn turn(*this);
  MeshRequest* request = requests_.take();
  request->direction = Direction::kReceive;
  request->peer = static_cast<std::size_t>(peer);
  request->into = into;
  request->label = label;
  return start(request);
}

Result<Request*> MeshImpl::irecv_view(int peer, FrameLength length, const FrameLabel& label) {
  Turn turn(*this);
  MeshRequest* request = requests_.take();
  request->direction = Direction::kReceiveView;
  request->peer = static_cast<std::size_t>(peer);
  request->into = Buffer{};
  request->into.bytes = length.bytes;
  request->is_limit = length.is_limit;
  request->label = label;
  return start(request);
}

Result<Request*> MeshImpl::start(MeshRequest* request) {
  request->inner = nullptr;
  request->done = false;
  if (failed_.load()) {
    requests_.give(request);
    return failure();
  }
  RINGPRESS_EXPECTS(request->peer < peers_.size() && request->peer != std::size_t(parts_.rank),
                    "a frame to or from a rank that is not a peer");
  Peer& peer = peers_[request->peer];
  const bool sends = request->direction == Direction::kSend;
  if (request_outstanding(*request)) ++large_outstanding_;
  if (sends ? peer.send != nullptr : peer.receive != nullptr) {
    const Status issued = issue(*request);
    if (!issued.is_ok()) return fail(issued);
    return static_cast<Request*>(request);
  }
  (sends ? peer.unsent : peer.unreceived).push_back(request);
  ++unconnected_;
  const Status connected = connect_peers();
  if (!connected.is_ok()) return fail(connected);
  return static_cast<Request*>(request);
}

Status MeshImpl::issue(MeshRequest& request) {
  Peer& peer = peers_[request.peer];
  const auto store = [&request](Result<Request*> inner) {
    if (!inner.is_ok()) return inner.status();
    request.inner = inner.value();
    return Status::ok();
  };
  switch (request.direction) {
    case Direction::kSend:
      return store(peer.send->isend(request.source, request.label));
    case Direction::kReceive:
      return store(peer.receive->irecv(request.into, request.label));
    case Direction::kReceiveView:
      return store(peer.receive->irecv_view({request.into.bytes, request.is_limit}, request.label));
  }
  return Status(Code::kInternal, "a request without a direction");
}

Status MeshImpl::issue_all(std::deque<MeshRequest*>& requests) {
  while (!requests.empty()) {
    MeshRequest* request = requests.front();
    requests.pop_front();
    --unconnected_;
    RINGPRESS_RETURN_IF_ERROR(issue(*request));
  }
  return Status::ok();
}

bool MeshImpl::request_outstanding(const MeshRequest& request) const {
  const std::size_t bytes =
      request.direction == Direction::kSend ? request.source.bytes : request.into.bytes;
  return bytes >= kLargeBytes && !request.done;
}

// --- waiting ---

void MeshImpl::return_inner(MeshRequest& request) {
  if (request.inner == nullptr) return;
  Peer& peer = peers_[request.peer];
  if (request.direction == Direction::kSend) {
    peer.send->release(request.inner);
  } else {
    peer.receive->release(request.inner);
  }
  request.inner = nullptr;
}

Status MeshImpl::finish_if_done(MeshRequest& request) {
  if (request.done || request.inner == nullptr) return Status::ok();
  Peer& peer = peers_[request.peer];
  RINGPRESS_ASSIGN_OR_RETURN(const Completion completion, request.direction == Direction::kSend
                                                              ? peer.send->test(request.inner)
                                                              : peer.receive->test(request.inner));
  if (!completion.done) return Status::ok();
  if (request_outstanding(request)) --large_outstanding_;
  request.done = true;
  request.view = completion.view;
  if (request.direction != Direction::kReceiveView) return_inner(request);
  return Status::ok();
}

Status MeshImpl::advance() {
  for (const auto& transport : parts_.transports) {
    RINGPRESS_RETURN_IF_ERROR(transport->progress().status());
  }
  RINGPRESS_RETURN_IF_ERROR(accept_peers());
  RINGPRESS_RETURN_IF_ERROR(notice_gone_peers());
  return connect_peers();
}

Result<ConstBuffer> MeshImpl::wait(Request* request) {
  Turn turn(*this);
  if (failed_.load()) return failure();
  auto& waited = *static_cast<MeshRequest*>(request);
  Status status = finish_if_done(waited);
  if (status.is_ok() && !waited.done) status = sleep_until_done(waited);
  if (!status.is_ok()) return fail(status);
  return waited.view;
}

Status MeshImpl::sleep_until_done(MeshRequest& request) {
  Deadline now = Clock::now();
  Deadline last_moved = now;
  const Deadline spin_until = parts_.cores_to_spare ? now + kSpinTime : now;
  const Deadline yield_until = now + kYieldTime;
  std::uint64_t moved = moved_bytes();
  for (unsigned attempt = 0;; ++attempt) {
    if (failed_.load()) return failure();
    // Looking at this request alone is cheaper than looking at everything.
    const bool awake = now < yield_until;
    if (!awake || attempt % kAttemptsPerAdvance == 0) RINGPRESS_RETURN_IF_ERROR(advance());
    RINGPRESS_RETURN_IF_ERROR(finish_if_done(request));
    if (request.done) return Status::ok();
    now = Clock::now();
    if (now < spin_until) {
      relax();
      continue;
    }
    if (now < yield_until) {
      sched_yield();
      continue;
    }
    if (moved_bytes() != moved) {
      moved = moved_bytes();
      last_moved = now;
    }
    Deadline until = last_moved + timeout_.load();
    if (now >= until) return timed_out(request);
    if (unconnected_ > 0 || is_shaking_hands()) until = std::min(until, now + kConnectPause);
    any_transport().wait(until);
  }
}

Result<bool> MeshImpl::poll(Request* request) {
  Turn turn(*this);
  if (failed_.load()) return failure();
  auto& polled = *static_cast<MeshRequest*>(request);
  Status status = finish_if_done(polled);
  if (status.is_ok() && !polled.done) {
    status = advance();
    if (status.is_ok()) status = finish_if_done(polled);
  }
  if (!status.is_ok()) return fail(status);
  return polled.done;
}

Status MeshImpl::check() {
  Turn turn(*this);
  if (failed_.load()) return failure();
  const Status moved = advance();
  return moved.is_ok() ? moved : fail(moved);
}

void MeshImpl::release(Request* request) {
  Turn turn(*this);
  if (failed_.load() || request == nullptr) return;
  auto& released = *static_cast<MeshRequest*>(request);
  if (!released.done) return;  // It stays until the mesh goes: bytes may still move.
  return_inner(released);
  requests_.give(&released);
}

std::uint64_t MeshImpl::moved_bytes() const {
  std::uint64_t moved = 0;
  for (const auto& transport : parts_.transports) {
    const TransportCounters counters = transport->counters();
    moved += counters.sent_bytes + counters.received_bytes;
  }
  return moved;
}

Status MeshImpl::timed_out(const MeshRequest& request) const {
  const bool sends = request.direction == Direction::kSend;
  const std::string peer = "rank " + std::to_string(request.peer);
  std::string text = "rank " + std::to_string(parts_.rank) + " waited " +
                     std::to_string(timeout_.load().count()) + " ms for " + peer + " to " +
                     (sends ? "take" : "send") + " a frame of " + describe(request.label.call);
  if (request.inner == nullptr) text += " (" + peer + " has not connected)";
  return Status(Code::kTimeout, text);
}

// --- staging ---

Result<Buffer> MeshImpl::staging(std::size_t slot, std::size_t bytes) {
  Turn turn(*this);
  if (failed_.load()) return failure();
  if (slot >= staging_.size()) {
    staging_.resize(slot + 1);
    private_staging_.resize(slot + 1);
  }
  Buffer& buffer = staging_[slot];
  if (buffer.data != nullptr && buffer.bytes >= bytes) return buffer;
  for (const auto& transport : parts_.transports) {
    RINGPRESS_ASSIGN_OR_RETURN(buffer, transport->allocate(bytes));
    if (buffer.data != nullptr) return buffer;
  }
  auto& memory = private_staging_[slot];
  if (memory == nullptr) memory = std::make_unique<transport::ViewMemory>();
  buffer = Buffer{};
  buffer.data = memory->reserve(std::max<std::size_t>(bytes, 1));
  buffer.bytes = bytes;
  return buffer;
}

bool MeshImpl::reads_staging(int peer, std::size_t bytes) const {
  const std::size_t way = peers_[static_cast<std::size_t>(peer)].transport;
  return way < parts_.transports.size() && parts_.transports[way]->reads_in_place(bytes);
}

MeshCounters MeshImpl::counters() const {
  MeshCounters total;
  for (const auto& transport : parts_.transports) {
    const TransportCounters counters = transport->counters();
    total.sent_bytes += counters.sent_bytes;
    total.received_bytes += counters.received_bytes;
  }
  return total;
}

}  // namespace ringpress::ring
