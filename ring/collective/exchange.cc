// Point-to-point transfers of one group. All frames of all transfers are posted before the first
// wait: whatever order the ranks chose, every frame that somebody sends finds its receive posted.
#include <algorithm>
#include <cstring>
#include <vector>

#include "ring/factory.h"

namespace ringpress::ring {
namespace {

constexpr std::size_t kFrameBytes = 4 * 1024 * 1024;

/// A send to and a receive from this rank itself match in order: a copy.
Status copy_to_self(Mesh& mesh, std::span<const PointToPoint> transfers) {
  std::vector<const PointToPoint*> sends;
  std::vector<const PointToPoint*> receives;
  for (const PointToPoint& transfer : transfers) {
    if (transfer.peer != mesh.rank()) continue;
    (transfer.is_send ? sends : receives).push_back(&transfer);
  }
  if (sends.size() != receives.size()) {
    return {Code::kInvalidUsage, "rank " + std::to_string(mesh.rank()) + " posted " +
                                     std::to_string(sends.size()) + " sends to itself but " +
                                     std::to_string(receives.size()) +
                                     " receives from itself in one group"};
  }
  for (std::size_t i = 0; i < sends.size(); ++i) {
    if (sends[i]->bytes != receives[i]->bytes) {
      return {Code::kMismatch,
              "rank " + std::to_string(mesh.rank()) + " sends " + std::to_string(sends[i]->bytes) +
                  " bytes to itself but receives " + std::to_string(receives[i]->bytes)};
    }
    if (sends[i]->bytes != 0) std::memmove(receives[i]->data, sends[i]->data, sends[i]->bytes);
  }
  return Status::ok();
}

Status post(Mesh& mesh, const PointToPoint& transfer, std::size_t frame_bytes,
            std::vector<Request*>* requests) {
  auto* data = static_cast<std::byte*>(transfer.data);
  std::uint32_t chunk = 0;
  for (std::size_t begin = 0; begin < transfer.bytes; begin += frame_bytes, ++chunk) {
    const std::size_t bytes = std::min(frame_bytes, transfer.bytes - begin);
    const FrameLabel label{transfer.call, 0, chunk};
    auto request = transfer.is_send ? mesh.isend(transfer.peer, {data + begin, bytes}, label)
                                    : mesh.irecv(transfer.peer, {data + begin, bytes}, label);
    if (!request.is_ok()) return request.status();
    requests->push_back(request.value());
  }
  return Status::ok();
}

}  // namespace

Status exchange(Mesh& mesh, std::span<const PointToPoint> transfers, std::size_t chunk_bytes) {
  RINGPRESS_RETURN_IF_ERROR(copy_to_self(mesh, transfers));
  const std::size_t frame_bytes = chunk_bytes != 0 ? chunk_bytes : kFrameBytes;
  std::vector<Request*> requests;
  for (const bool sends : {false, true}) {  // Receives first: what arrives has a place to go.
    for (const PointToPoint& transfer : transfers) {
      if (transfer.peer == mesh.rank() || transfer.is_send != sends) continue;
      RINGPRESS_RETURN_IF_ERROR(post(mesh, transfer, frame_bytes, &requests));
    }
  }
  for (Request* request : requests) {
    RINGPRESS_RETURN_IF_ERROR(mesh.wait(request).status());
    mesh.release(request);
  }
  return Status::ok();
}

}  // namespace ringpress::ring
