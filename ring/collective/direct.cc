// Small uncompressed all-reduce, in two phases:
//
//   1. exchange   send the whole tensor to every other rank, receive theirs
//   2. reduce     add all contributions in rank order
#include "ring/collective/direct.h"

#include <vector>

#include "ring/collective/pipeline.h"

namespace ringpress::ring {
namespace {

// Bytes that a rank may send in one exchange; above, the second latency of sra costs less.
constexpr std::size_t kLargestExchangeBytes = 48 * 1024;

}  // namespace

bool exchanges_whole(const CollectiveContext& context, std::size_t count) {
  if (!sends_in_place(context)) return false;
  const auto peers = static_cast<std::size_t>(context.mesh->size() - 1);
  return count * dtype_size(context.codec->dtype()) * peers <= kLargestExchangeBytes;
}

Status all_reduce_whole(const CollectiveContext& context, const AllReduceArgs& args) {
  Mesh& mesh = *context.mesh;
  const std::size_t bytes = args.count * dtype_size(context.codec->dtype());
  const FrameLabel label{context.call, 0, 0};
  const int world = mesh.size();
  SendWindow sending(&mesh, 0, 1, 0);
  std::vector<Request*> views;
  for (int distance = 1; distance < world; ++distance) {
    RINGPRESS_RETURN_IF_ERROR(
        sending.send(0, (mesh.rank() + distance) % world, {args.send, bytes}, label));
  }
  for (int peer = 0; peer < world; ++peer) {
    if (peer == mesh.rank()) continue;
    RINGPRESS_ASSIGN_OR_RETURN(Request * view, mesh.irecv_view(peer, bytes, label));
    views.push_back(view);
  }
  std::vector<const std::byte*> wires;
  for (Request* view : views) {
    RINGPRESS_ASSIGN_OR_RETURN(const ConstBuffer payload, mesh.wait(view));
    wires.push_back(payload.data);
  }
  RINGPRESS_RETURN_IF_ERROR(sending.drain());  // Before the result overwrites what was sent.
  DecodeAddEncodeArgs hop;
  hop.wires = wires;
  hop.own_position = static_cast<std::size_t>(mesh.rank());
  hop.values = args.send;
  hop.count = args.count;
  hop.divisor = divisor_of(context);
  hop.decoded = args.receive;
  context.codec->decode_add_encode(hop);
  for (Request* view : views) mesh.release(view);
  return Status::ok();
}

}  // namespace ringpress::ring
