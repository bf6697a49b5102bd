#include "ring/mesh_turns.h"

namespace ringpress::ring {

MeshTurns::MeshTurns(const MeshParts& parts, Connections& connections, MeshFailure& failure,
                     const Transfers& transfers)
    : connections_(connections),
      failure_(failure),
      transfers_(transfers),
      reactor_(*parts.reactor) {
  if (parts.progress_thread) thread_.emplace(reactor_, [this] { return move_bytes(); });
}

/// When a call of the user is under way it moves the bytes itself.
bool MeshTurns::move_bytes() {
  if (!owner_.try_take()) return false;
  const bool useful = transfers_.has_large() && !failure_.has_failed();
  const Status moved = useful ? connections_.advance() : Status::ok();
  if (!moved.is_ok()) static_cast<void>(failure_.fail(moved));
  owner_.give();
  if (useful) reactor_.await_ready(Clock::now() + std::chrono::milliseconds(20));
  return useful;
}

void MeshTurns::end() {
  const bool arm = thread_ && transfers_.has_large();
  owner_.give();
  // An abort() that found the mesh in use has left the spreading to us. One that did not may be at
  // it: the caller's memory must stay until it is done.
  if (failure_.has_failed()) {
    owner_.take();
    failure_.spread();
    owner_.give();
  }
  if (arm) thread_->arm();
}

void MeshTurns::spread_failure() {
  if (failure_.is_spread() || !owner_.try_take()) return;
  failure_.spread();
  owner_.give();
}

void MeshTurns::stop() {
  thread_.reset();
  owner_.take();
}

}  // namespace ringpress::ring
