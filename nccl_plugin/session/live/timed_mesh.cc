#include "nccl_plugin/session/live/timed_mesh.h"

namespace ringpress::nccl_plugin {

TimedRequest* TimedRequests::take() {
  if (free_.empty()) {
    free_.reserve(all_.size() + 1);  // So that give_back() asks for no memory.
    return &all_.emplace_back();
  }
  TimedRequest* const request = free_.back();
  free_.pop_back();
  return request;
}

Result<Request*> TimedMesh::take(int peer, bool is_send, const Result<Request*>& request) {
  if (!request.is_ok()) return request.status();
  TimedRequest* const timed = requests_.take();
  timed->request = request.value();
  timed->peer = peer;
  timed->is_send = is_send;
  return static_cast<Request*>(timed);
}

Result<Request*> TimedMesh::isend(int peer, ConstBuffer payload, const FrameLabel& label) {
  const CallWatch::Phase phase(watch_, CallPhase::kSend, peer);
  return take(peer, true, mesh_->isend(peer, payload, label));
}

Result<Request*> TimedMesh::irecv(int peer, Buffer into, const FrameLabel& label) {
  return take(peer, false, mesh_->irecv(peer, into, label));
}

Result<Request*> TimedMesh::irecv_view(int peer, FrameLength length, const FrameLabel& label) {
  return take(peer, false, mesh_->irecv_view(peer, length, label));
}

Result<ConstBuffer> TimedMesh::wait(Request* request) {
  const auto& timed = static_cast<const TimedRequest&>(*request);
  const CallPhase what = timed.is_send ? CallPhase::kSend : watch_.phase_of_wait(timed.peer);
  const CallWatch::Phase phase(watch_, what, timed.peer);
  Result<ConstBuffer> waited = mesh_->wait(timed.request);
  if (!timed.is_send && waited.is_ok()) watch_.hear(timed.peer);
  return waited;
}

Result<bool> TimedMesh::poll(Request* request) {
  return mesh_->poll(static_cast<TimedRequest*>(request)->request);
}

void TimedMesh::release(Request* request) {
  if (request == nullptr) return;
  auto* const timed = static_cast<TimedRequest*>(request);
  mesh_->release(timed->request);
  requests_.give_back(timed);
}

}  // namespace ringpress::nccl_plugin
