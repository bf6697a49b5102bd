// Small uncompressed all-reduce, in one of two ways:
//
// - All at once: each rank sends its tensor to every other rank and adds all of them in rank order.
// - Doubling, for N = 4, 8, 16...: in step s each rank exchanges the sum that it has so far with
// the
//   rank whose number differs in bit s. Both add the sum of the lower ranks first, so both get the
//   same bits. log2(N) messages a rank instead of N - 1: fewer where sending a message costs more
//   than waiting for one.
#include "ring/collective/direct.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ring/collective/chunked_call.h"
#include "ring/collective/pipeline.h"

namespace ringpress::ring {
namespace {

// The cost model (tuner/wire_cost.cc) has both limits, too.
// Bytes that a rank may send in one exchange; above, the second latency of sra costs less.
constexpr std::size_t kLargestExchangeBytes = 48 * 1024;
// Two ranks send the same bytes in either way, so until the additional sums cost more than the
// saved latency, the exchange wins. On one host sums cost as much as messages.
constexpr std::size_t kLargestPairExchangeBytes = 256 * 1024;
constexpr std::size_t kExchangeFrameBytes = 128 * 1024;

/// All at once, in chunks: a chunk travels while the one before it is added.
class ExchangeWithAll {
 public:
  /// `copy`, if not null, is where values are sent from; it has the tensor's size.
  ExchangeWithAll(const CollectiveContext& context, const AllReduceArgs& args, std::byte* copy)
      : context_(context),
        mesh_(*context.mesh),
        args_(args),
        copy_(copy),
        element_bytes_(dtype_size(context.codec->dtype())),
        chunks_((args.count * element_bytes_ + kExchangeFrameBytes - 1) / kExchangeFrameBytes),
        sending_(context, 0, std::max<std::size_t>(1, chunks_), 0),
        arriving_(context, static_cast<std::size_t>(mesh_.size()), 1),
        arrivals_(context, static_cast<std::size_t>(mesh_.size()) - 1) {}

  Status run() {
    RINGPRESS_RETURN_IF_ERROR(
        run_pipeline(2, chunks_, kLag, [this](std::size_t stage, std::size_t chunk) {
          return stage == 0 ? send(chunk) : reduce(chunk);
        }));
    return sending_.drain();
  }

 private:
  static constexpr std::size_t kLag = 1;

  Range range_of(std::size_t chunk) const {
    return chunk_of({0, args_.count}, chunk, kExchangeFrameBytes / element_bytes_);
  }
  const std::byte* values_of(const Range& range) const {
    return static_cast<const std::byte*>(args_.send) + range.offset * element_bytes_;
  }
  FrameLabel label(std::size_t chunk) const {
    return {context_.call, 0, static_cast<std::uint32_t>(chunk)};
  }

  Status send(std::size_t chunk) {
    const Range range = range_of(chunk);
    const std::size_t bytes = range.count * element_bytes_;
    const std::byte* payload = values_of(range);
    if (copy_ != nullptr) {
      std::byte* copied = copy_ + range.offset * element_bytes_;
      std::memcpy(copied, payload, bytes);
      payload = copied;
    }
    for (int distance = 1; distance < mesh_.size(); ++distance) {
      const int peer = (mesh_.rank() + distance) % mesh_.size();
      RINGPRESS_RETURN_IF_ERROR(sending_.send(chunk, peer, {payload, bytes}, label(chunk)));
    }
    return Status::ok();
  }

  Status reduce(std::size_t chunk) {
    const Range range = range_of(chunk);
    for (int peer = 0; peer < mesh_.size(); ++peer) {
      if (peer == mesh_.rank()) continue;
      RINGPRESS_ASSIGN_OR_RETURN(
          Request * view,
          mesh_.irecv_view(peer, FrameLength::exactly(range.count * element_bytes_), label(chunk)));
      arriving_.put(static_cast<std::size_t>(peer), chunk, view);
    }
    for (int peer = 0; peer < mesh_.size(); ++peer) {
      if (peer == mesh_.rank()) continue;
      RINGPRESS_RETURN_IF_ERROR(
          arrivals_.wait_for(arriving_.take(static_cast<std::size_t>(peer), chunk)));
    }
    DecodeAddEncodeArgs hop;
    hop.wires = arrivals_.wires();
    hop.own_position = static_cast<std::size_t>(mesh_.rank());
    hop.values = values_of(range);
    hop.count = range.count;
    hop.divisor = divisor_of(context_);
    hop.decoded = static_cast<std::byte*>(args_.receive) + range.offset * element_bytes_;
    context_.codec->decode_add_encode(hop);
    arrivals_.release();
    return Status::ok();
  }

  const CollectiveContext& context_;
  Mesh& mesh_;
  const AllReduceArgs& args_;
  std::byte* const copy_;
  const std::size_t element_bytes_;
  const std::size_t chunks_;
  SendWindow sending_;
  ReceiveWindow arriving_;  // By peer.
  Arrivals arrivals_;       // Of one chunk.
};

/// Two staging slots hold the sum so far in turn: one is being sent while the next is made.
Status exchange_doubling(const CollectiveContext& context, const void* values, void* receive,
                         std::size_t count) {
  Mesh& mesh = *context.mesh;
  const std::size_t bytes = count * dtype_size(context.codec->dtype());
  const int steps = std::countr_zero(static_cast<unsigned>(mesh.size()));
  SendWindow sending(context, 1, 2, bytes);
  const void* sum = values;
  for (int step = 0; step < steps; ++step) {
    const int peer = mesh.rank() ^ (1 << step);
    const FrameLabel label{context.call, static_cast<std::uint32_t>(step), 0};
    const auto turn = static_cast<std::size_t>(step);
    RINGPRESS_RETURN_IF_ERROR(sending.send(turn, peer, {sum, bytes}, label));
    RINGPRESS_ASSIGN_OR_RETURN(Request * view,
                               mesh.irecv_view(peer, FrameLength::exactly(bytes), label));
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
  const auto world = static_cast<std::size_t>(context.mesh->size());
  const std::size_t bytes = count * dtype_size(context.codec->dtype());
  const bool is_pair = world == 2 && !is_on_one_host(*context.mesh);
  return bytes * (world - 1) <= (is_pair ? kLargestPairExchangeBytes : kLargestExchangeBytes);
}

Status all_reduce_whole(const CollectiveContext& context, const AllReduceArgs& args) {
  // The result must not overwrite what is still being sent.
  const std::size_t bytes = args.count * dtype_size(context.codec->dtype());
  const std::size_t frame_bytes = std::min(bytes, kExchangeFrameBytes);
  std::byte* copy = nullptr;
  if (args.send == args.receive || any_reads_staging(*context.mesh, frame_bytes)) {
    RINGPRESS_ASSIGN_OR_RETURN(const Buffer staging, context.mesh->staging(0, bytes));
    copy = staging.data;
  }
  const auto world = static_cast<unsigned>(context.mesh->size());
  if (world <= 2 || !std::has_single_bit(world)) return ExchangeWithAll(context, args, copy).run();
  if (copy != nullptr) std::memcpy(copy, args.send, bytes);
  return exchange_doubling(context, copy != nullptr ? copy : args.send, args.receive, args.count);
}

}  // namespace ringpress::ring
