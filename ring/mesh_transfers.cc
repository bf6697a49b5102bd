#include "ring/mesh_transfers.h"

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

bool is_large(const MeshRequest& request) {
  const bool sends = request.direction == MeshRequest::Direction::kSend;
  return (sends ? request.source.bytes : request.into.bytes) >= kLargeBytes;
}

std::uint64_t moved_bytes(const MeshParts& parts) {
  const TransportCounters counters = parts.counters();
  return counters.sent_bytes + counters.received_bytes;
}

Status timed_out(int rank, milliseconds timeout, const MeshRequest& request) {
  const bool sends = request.direction == MeshRequest::Direction::kSend;
  const std::string peer = "rank " + std::to_string(request.peer);
  std::string text = "rank " + std::to_string(rank) + " waited " + std::to_string(timeout.count()) +
                     " ms for " + peer + " to " + (sends ? "take" : "send") + " a frame of " +
                     describe(request.label.call);
  if (request.inner == nullptr) text += " (" + peer + " has not connected)";
  return Status(Code::kTimeout, text);
}

}  // namespace

Result<Request*> Transfers::start(MeshRequest* request) {
  request->inner = nullptr;
  request->done = false;
  if (failure_.has_failed()) {
    requests_.give(request);
    return failure_.status();
  }
  RINGPRESS_EXPECTS(
      request->peer < parts_.endpoints.size() && request->peer != std::size_t(parts_.rank),
      "a frame to or from a rank that is not a peer");
  if (is_large(*request)) ++large_outstanding_;
  const Status started = connections_.start(*request);
  if (!started.is_ok()) return failure_.fail(started);
  return static_cast<Request*>(request);
}

Result<ConstBuffer> Transfers::wait(MeshRequest& request) {
  if (failure_.has_failed()) return failure_.status();
  Status status = test(request);
  if (status.is_ok() && !request.done) status = sleep_until_done(request);
  if (!status.is_ok()) return failure_.fail(status);
  return request.view;
}

Result<bool> Transfers::poll(MeshRequest& request) {
  if (failure_.has_failed()) return failure_.status();
  Status status = test(request);
  if (status.is_ok() && !request.done) {
    status = connections_.advance();
    if (status.is_ok()) status = test(request);
  }
  if (!status.is_ok()) return failure_.fail(status);
  return request.done;
}

void Transfers::release(MeshRequest& request) {
  if (failure_.has_failed()) return;
  if (!request.done) return;  // It stays until the mesh goes: bytes may still move.
  connections_.release(request);
  requests_.give(&request);
}

Status Transfers::test(MeshRequest& request) {
  if (request.done) return Status::ok();
  RINGPRESS_RETURN_IF_ERROR(connections_.test(request));
  if (request.done && is_large(request)) --large_outstanding_;
  return Status::ok();
}

Status Transfers::sleep_until_done(MeshRequest& request) {
  Deadline now = Clock::now();
  Deadline last_moved = now;
  const Deadline spin_until = parts_.cores_to_spare ? now + kSpinTime : now;
  const Deadline yield_until = now + kYieldTime;
  std::uint64_t moved = moved_bytes(parts_);
  for (unsigned attempt = 0;; ++attempt) {
    if (failure_.has_failed()) return failure_.status();
    // Looking at this request alone is cheaper than looking at everything.
    const bool awake = now < yield_until;
    if (!awake || attempt % kAttemptsPerAdvance == 0) {
      RINGPRESS_RETURN_IF_ERROR(connections_.advance());
    }
    RINGPRESS_RETURN_IF_ERROR(test(request));
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
    const std::uint64_t moved_now = moved_bytes(parts_);
    if (moved_now != moved) {
      moved = moved_now;
      last_moved = now;
    }
    Deadline until = last_moved + connections_.timeout();
    if (now >= until) return timed_out(parts_.rank, connections_.timeout(), request);
    if (connections_.is_connecting()) until = std::min(until, now + kConnectPause);
    parts_.any_transport().wait(until);
  }
}

Result<Buffer> Transfers::staging(std::size_t slot, std::size_t bytes) {
  if (failure_.has_failed()) return failure_.status();
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

void Transfers::give_back_staging() {
  if (failure_.has_failed()) return;  // Bytes may still move.
  for (std::size_t slot = 0; slot < staging_.size(); ++slot) {
    if (private_staging_[slot] == nullptr) continue;
    private_staging_[slot].reset();
    staging_[slot] = Buffer{};
  }
}

std::size_t Transfers::spare_bytes() const {
  std::size_t bytes = 0;
  for (std::size_t slot = 0; slot < staging_.size(); ++slot) {
    if (private_staging_[slot] != nullptr) bytes += staging_[slot].bytes;
  }
  return bytes;
}

}  // namespace ringpress::ring
