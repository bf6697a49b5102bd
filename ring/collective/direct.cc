// Small uncompressed all-reduce, in one of two ways:
//
//   all at once   each rank sends its tensor to every other rank and adds all of them, in rank
//   order doubling      N = 4, 8, 16...: in step s each rank exchanges the sum it has so far with
//   the rank
//                 whose number differs in bit s. Both add the sum of the lower ranks first, so both
//                 get the same bits. log2(N) messages a rank instead of N - 1: fewer where sending
//                 a message costs more than waiting for one
#include "ring/collective/direct.h"

#include <bit>
#include <cstring>
#include <vector>

#include "ring/collective/chunked_call.h"
#include "ring/collective/pipeline.h"

namespace ringpress::ring {
namespace {

// Bytes that a rank may send in one exchange; above, the second latency of sra costs less.
constexpr std::size_t kLargestExchangeBytes = 48 * 1024;

Status exchange_with_all(const CollectiveContext& context, const void* values, void* receive,
                         std::size_t count) {
  Mesh& mesh = *context.mesh;
  const std::size_t bytes = count * dtype_size(context.codec->dtype());
  const FrameLabel label{context.call, 0, 0};
  const int world = mesh.size();
  SendWindow sending(&mesh, 0, 1, 0);
  for (int distance = 1; distance < world; ++distance) {
    RINGPRESS_RETURN_IF_ERROR(
        sending.send(0, (mesh.rank() + distance) % world, {values, bytes}, label));
  }
  std::vector<Request*> views;
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
  DecodeAddEncodeArgs hop;
  hop.wires = wires;
  hop.own_position = static_cast<std::size_t>(mesh.rank());
  hop.values = values;
  hop.count = count;
  hop.divisor = divisor_of(context);
  hop.decoded = receive;
  context.codec->decode_add_encode(hop);
  for (Request* view : views) mesh.release(view);
  return sending.drain();
}

/// Two staging slots hold the sum so far in turn: one is being sent while the next is made.
Status exchange_doubling(const CollectiveContext& context, const void* values, void* receive,
                         std::size_t count) {
  Mesh& mesh = *context.mesh;
  const std::size_t bytes = count * dtype_size(context.codec->dtype());
  const int steps = std::countr_zero(static_cast<unsigned>(mesh.size()));
  SendWindow sending(&mesh, 1, 2, bytes);
  const void* sum = values;
  for (int step = 0; step < steps; ++step) {
    const int peer = mesh.rank() ^ (1 << step);
    const FrameLabel label{context.call, static_cast<std::uint32_t>(step), 0};
    const auto turn = static_cast<std::size_t>(step);
    RINGPRESS_RETURN_IF_ERROR(sending.send(turn, peer, {sum, bytes}, label));
    RINGPRESS_ASSIGN_OR_RETURN(Request * view, mesh.irecv_view(peer, bytes, label));
    RINGPRESS_ASSIGN_OR_RETURN(const ConstBuffer payload, mesh.wait(view));
    const bool is_last = step == steps - 1;
    void* next = receive;
    if (!is_last) {
      RINGPRESS_ASSIGN_OR_RETURN(next, sending.acquire(turn + 1));
    }
    DecodeAddEncodeArgs hop;
    hop.wires = {&payload.data, 1};
    hop.own_position = peer < mesh.rank() ? 1 : 0;
    hop.values = sum;
    hop.count = count;
    hop.divisor = is_last ? divisor_of(context) : 1;
    hop.decoded = next;
    context.codec->decode_add_encode(hop);
    mesh.release(view);
    sum = next;
  }
  return sending.drain();
}

}  // namespace

bool exchanges_whole(const CollectiveContext& context, std::size_t count) {
  if (!sends_in_place(context)) return false;
  const auto peers = static_cast<std::size_t>(context.mesh->size() - 1);
  return count * dtype_size(context.codec->dtype()) * peers <= kLargestExchangeBytes;
}

Status all_reduce_whole(const CollectiveContext& context, const AllReduceArgs& args) {
  const void* values = args.send;
  // The result must not overwrite what is still being sent.
  const std::size_t bytes = args.count * dtype_size(context.codec->dtype());
  if (args.send == args.receive || any_reads_staging(*context.mesh, bytes)) {
    RINGPRESS_ASSIGN_OR_RETURN(const Buffer copy, context.mesh->staging(0, bytes));
    std::memcpy(copy.data, args.send, bytes);
    values = copy.data;
  }
  const auto world = static_cast<unsigned>(context.mesh->size());
  return std::has_single_bit(world) && world > 2
             ? exchange_doubling(context, values, args.receive, args.count)
             : exchange_with_all(context, values, args.receive, args.count);
}

}  // namespace ringpress::ring
