#include "ring/mesh_impl.h"

#include "ring/bootstrap/unique_id.h"
#include "ring/transport/common/hello.h"

namespace ringpress::ring {

/// The owner's right to touch the transports, for the length of one call.
class MeshImpl::Turn {
 public:
  explicit Turn(MeshImpl& mesh) : mesh_(mesh) { mesh_.owner_.take(); }
  ~Turn() {
    const bool arm = mesh_.thread_ && mesh_.transfers_.has_large();
    mesh_.owner_.give();
    // An abort() that found the mesh in use has left the spreading to us. One that did not may be
    // at it: the caller's memory must stay until it is done.
    if (mesh_.failure_.has_failed()) {
      mesh_.owner_.take();
      mesh_.failure_.spread();
      mesh_.owner_.give();
    }
    if (arm) mesh_.thread_->arm();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  MeshImpl& mesh_;
};

MeshImpl::MeshImpl(MeshParts parts) : parts_(std::move(parts)) {
  if (!parts_.progress_thread) return;
  thread_.emplace(*parts_.reactor, [this] {
    // When a call of the user is under way it moves the bytes itself.
    if (!owner_.try_take()) return false;
    const bool useful = transfers_.has_large() && !failure_.has_failed();
    const Status moved = useful ? connections_.advance() : Status::ok();
    if (!moved.is_ok()) static_cast<void>(failure_.fail(moved));
    owner_.give();
    if (useful) parts_.reactor->await_ready(Clock::now() + std::chrono::milliseconds(20));
    return useful;
  });
}

MeshImpl::~MeshImpl() {
  thread_.reset();
  owner_.take();
  if (!failure_.has_failed()) connections_.say_goodbye();
}

bool MeshImpl::is_local(int peer) const {
  return parts_.endpoints[static_cast<std::size_t>(peer)].local;
}

// --- starting ---

Result<Request*> MeshImpl::isend(int peer, ConstBuffer payload, const FrameLabel& label) {
  Turn turn(*this);
  MeshRequest* request = transfers_.take();
  request->direction = MeshRequest::Direction::kSend;
  request->peer = static_cast<std::size_t>(peer);
  request->source = payload;
  request->label = label;
  return start(request);
}

Result<Request*> MeshImpl::irecv(int peer, Buffer into, const FrameLabel& label) {
  Turn turn(*this);
  MeshRequest* request = transfers_.take();
  request->direction = MeshRequest::Direction::kReceive;
  request->peer = static_cast<std::size_t>(peer);
  request->into = into;
  request->label = label;
  return start(request);
}

Result<Request*> MeshImpl::irecv_view(int peer, FrameLength length, const FrameLabel& label) {
  Turn turn(*this);
  MeshRequest* request = transfers_.take();
  request->direction = MeshRequest::Direction::kReceiveView;
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
  if (failure_.has_failed()) {
    transfers_.give(request);
    return failure();
  }
  RINGPRESS_EXPECTS(
      request->peer < parts_.endpoints.size() && request->peer != std::size_t(parts_.rank),
      "a frame to or from a rank that is not a peer");
  const Status started = transfers_.start(*request);
  if (!started.is_ok()) return failure_.fail(started);
  return static_cast<Request*>(request);
}

// --- waiting ---

Result<ConstBuffer> MeshImpl::wait(Request* request) {
  Turn turn(*this);
  if (failure_.has_failed()) return failure();
  auto& waited = *static_cast<MeshRequest*>(request);
  Status status = transfers_.test(waited);
  if (status.is_ok() && !waited.done) status = transfers_.sleep_until_done(waited);
  if (!status.is_ok()) return failure_.fail(status);
  return waited.view;
}

Result<bool> MeshImpl::poll(Request* request) {
  Turn turn(*this);
  if (failure_.has_failed()) return failure();
  auto& polled = *static_cast<MeshRequest*>(request);
  Status status = transfers_.test(polled);
  if (status.is_ok() && !polled.done) {
    status = connections_.advance();
    if (status.is_ok()) status = transfers_.test(polled);
  }
  if (!status.is_ok()) return failure_.fail(status);
  return polled.done;
}

Status MeshImpl::check() {
  Turn turn(*this);
  if (failure_.has_failed()) return failure();
  const Status moved = connections_.advance();
  return moved.is_ok() ? moved : failure_.fail(moved);
}

void MeshImpl::release(Request* request) {
  Turn turn(*this);
  if (failure_.has_failed() || request == nullptr) return;
  auto& released = *static_cast<MeshRequest*>(request);
  if (!released.done) return;  // It stays until the mesh goes: bytes may still move.
  connections_.release(released);
  transfers_.give(&released);
}

Result<Buffer> MeshImpl::staging(std::size_t slot, std::size_t bytes) {
  Turn turn(*this);
  if (failure_.has_failed()) return failure();
  return transfers_.staging(slot, bytes);
}

bool MeshImpl::reads_staging(int peer, std::size_t bytes) const {
  return connections_.read_in_place(static_cast<std::size_t>(peer), bytes);
}

MeshCounters MeshImpl::counters() const {
  const TransportCounters counters = parts_.counters();
  return {counters.sent_bytes, counters.received_bytes};
}

// --- ending ---

void MeshImpl::abort(const Status& reason) {
  failure_.latch(reason.is_ok() ? Status(Code::kAborted, "aborted") : reason);
  parts_.reactor->wake();
  if (failure_.is_spread() || !owner_.try_take()) return;
  failure_.spread();
  owner_.give();
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

}  // namespace ringpress::ring
