#include "ring/mesh_turns.h"

namespace ringpress::ring {

MeshTurns::MeshTurns(MeshCore& mesh) : mesh_(mesh) {
  if (!mesh.parts.progress_thread) return;
  thread_.emplace(*mesh.parts.reactor, [this] { return move_bytes(); });
}

/// When a call of the user is under way it moves the bytes itself.
bool MeshTurns::move_bytes() {
  if (!owner_.try_take()) return false;
  const bool useful = mesh_.transfers.has_large() && !mesh_.failure.has_failed();
  const Status moved = useful ? mesh_.connections.advance() : Status::ok();
  if (!moved.is_ok()) static_cast<void>(mesh_.failure.fail(moved));
  owner_.give();
  if (useful) mesh_.parts.reactor->await_ready(Clock::now() + std::chrono::milliseconds(20));
  return useful;
}

void MeshTurns::end() {
  const bool arm = thread_ && mesh_.transfers.has_large();
  owner_.give();
  // An abort() that found the mesh in use has left the spreading to us. One that did not may be at
  // it: the caller's memory must stay until it is done.
  if (mesh_.failure.has_failed()) {
    owner_.take();
    mesh_.failure.spread();
    owner_.give();
  }
  if (arm) thread_->arm();
}

void MeshTurns::spread_failure() {
  if (mesh_.failure.is_spread() || !owner_.try_take()) return;
  mesh_.failure.spread();
  owner_.give();
}

void MeshTurns::stop() {
  thread_.reset();
  owner_.take();
}

}  // namespace ringpress::ring
