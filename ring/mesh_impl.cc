#include "ring/mesh_impl.h"

#include "ring/bootstrap/unique_id.h"
#include "ring/transport/common/hello.h"

namespace ringpress::ring {

MeshImpl::~MeshImpl() {
  turns_.stop();
  if (!core_.failure.has_failed()) core_.connections.say_goodbye();
}

bool MeshImpl::is_local(int peer) const {
  return core_.parts.endpoints[static_cast<std::size_t>(peer)].local;
}

// --- starting ---

Result<Request*> MeshImpl::isend(int peer, ConstBuffer payload, const FrameLabel& label) {
  const Turn turn(turns_);
  MeshRequest* request = core_.transfers.take();
  request->direction = MeshRequest::Direction::kSend;
  request->peer = static_cast<std::size_t>(peer);
  request->source = payload;
  request->label = label;
  return core_.transfers.start(request);
}

Result<Request*> MeshImpl::irecv(int peer, Buffer into, const FrameLabel& label) {
  const Turn turn(turns_);
  MeshRequest* request = core_.transfers.take();
  request->direction = MeshRequest::Direction::kReceive;
  request->peer = static_cast<std::size_t>(peer);
  request->into = into;
  request->label = label;
  return core_.transfers.start(request);
}

Result<Request*> MeshImpl::irecv_view(int peer, FrameLength length, const FrameLabel& label) {
  const Turn turn(turns_);
  MeshRequest* request = core_.transfers.take();
  request->direction = MeshRequest::Direction::kReceiveView;
  request->peer = static_cast<std::size_t>(peer);
  request->into = Buffer{};
  request->into.bytes = length.bytes;
  request->is_limit = length.is_limit;
  request->label = label;
  return core_.transfers.start(request);
}

// --- waiting ---

Result<ConstBuffer> MeshImpl::wait(Request* request) {
  const Turn turn(turns_);
  return core_.transfers.wait(*static_cast<MeshRequest*>(request));
}

Result<bool> MeshImpl::poll(Request* request) {
  const Turn turn(turns_);
  return core_.transfers.poll(*static_cast<MeshRequest*>(request));
}

Status MeshImpl::check() {
  const Turn turn(turns_);
  if (core_.failure.has_failed()) return failure();
  const Status moved = core_.connections.advance();
  return moved.is_ok() ? moved : core_.failure.fail(moved);
}

void MeshImpl::release(Request* request) {
  const Turn turn(turns_);
  if (request != nullptr) core_.transfers.release(*static_cast<MeshRequest*>(request));
}

Result<Buffer> MeshImpl::staging(std::size_t slot, std::size_t bytes) {
  const Turn turn(turns_);
  return core_.transfers.staging(slot, bytes);
}

void MeshImpl::give_back_staging() {
  const Turn turn(turns_);
  core_.transfers.give_back_staging();
}

bool MeshImpl::reads_staging(int peer, std::size_t bytes) const {
  return core_.connections.read_in_place(static_cast<std::size_t>(peer), bytes);
}

MeshCounters MeshImpl::counters() const {
  const TransportCounters counters = core_.parts.counters();
  return {counters.sent_bytes, counters.received_bytes};
}

// --- ending ---

void MeshImpl::abort(const Status& reason) {
  core_.failure.latch(reason.is_ok() ? Status(Code::kAborted, "aborted") : reason);
  core_.parts.reactor->wake();
  turns_.spread_failure();
}

Result<UniqueId> MeshImpl::survivors_id(std::span<const int> survivors) {
  RINGPRESS_EXPECTS(!survivors.empty(), "nobody survives");
  std::string name = "survivors " + std::to_string(survivors_ids_++);
  for (const int rank : survivors) name += "," + std::to_string(rank);
  bootstrap::UniqueId id;
  id.secret = transport::mix_secret(core_.parts.secret, name);
  id.address = core_.parts.endpoints[static_cast<std::size_t>(survivors.front())].addresses.back();
  id.rank_zero_serves = true;
  return bootstrap::pack_id(id);
}

}  // namespace ringpress::ring
