// The ring. A tensor is cut into N shards, one per rank, and a shard into chunks, which fit a
// cache. Rank r sends to rank r + 1 and receives from rank r - 1 (modulo N) and owns shard r; where
// the ring has an order of its own (ring_neighbours.h), read r - k as the rank k places before r.
// Slice c is chunk c of every shard. It passes these stages one after the other, while other slices
// are in other stages: at tick t, stage s works on slice t - s * kLag, so what a neighbour needs
// has kLag ticks to travel (pipeline.h says why no rank waits for ever):
//
//   stage 0          encode own values of shard r - 1, send them                         (step 0)
//   stage 1..N-2     the hop: decode the partial sum that arrived, add own values of the same
//                    shard, encode, send on: shard r - 1 - s                             (step s)
//   stage N-1        the last hop: shard r is complete. Divide for an average, encode, keep what
//                    the bytes decode to, send                                         (step N-1)
//   stage N..2N-2    decode a complete shard that arrived and send the same bytes on, but for the
//                    last stage, which only decodes                                      (step s)
//
// What a stage sends, the right neighbour handles in its next stage. So a frame's label carries the
// sender's stage, and a receive that belongs to stage s is posted with label s - 1 during that
// stage: well before it is waited for.
//
// A codec for which the ranks must agree on something first has stages of its own before these
// (chunk_agreement.h).
//
// Memory: encoded frames are sent from the mesh's staging memory, kWindow slots a stage
// (SendWindow). Frames of an identity codec are sent from the caller's memory, and its results are
// received there; everything else arrives as a view of the transport's memory, released once read.
// Small uncompressed tensors do not go round: they are exchanged whole
// (ringpress/internal/whole_exchange.h).
//
// ChunkedCall (chunked_call.h) has what ring and sra share: the tensor, its shards and chunks,
// labels of frames, and encode() with this rank's residual.
//
// Stages 0..N-1 alone are the reduce-scatter, stages N-1..2N-2 the all-gather. The sum of a shard
// is taken in ring order starting after its owner, whatever arrives when. Each rank encodes each
// element once per call, so one residual per element is enough. Codecs that lose something at each
// hop sum in another order (two_way_ring.cc). Each stage has a latency: so `sra` is the default for
// lossy codecs, and for exact calls of few ranks.
#include "ring/collective/ring.h"

#include <cstring>

#include "ring/collective/chunked_call.h"
#include "ring/collective/direct.h"
#include "ring/collective/pipeline.h"
#include "ring/collective/projected.h"
#include "ring/collective/two_way_ring.h"
#include "ringpress/internal/ring_neighbours.h"

namespace ringpress::ring {
namespace {

constexpr std::size_t kLag = 2;  // Ticks between the stages of a slice.
// Slots per stage: a frame is still being read by the neighbour kLag ticks after it was sent, and
// the sender learns of it another kLag ticks later at worst.
constexpr std::size_t kWindow = 2 * kLag;

/// One call on one rank.
class RingCall : ChunkedCall {
 public:
  /// `keeps_partial_sums`: partial sums of an identity codec may be kept in the receive buffer
  /// (it has room for all shards).
  RingCall(const CollectiveContext& context, ShardedTensor tensor, std::span<const int> order,
           bool keeps_partial_sums)
      : ChunkedCall(context, std::move(tensor)),
        neighbours_(order, rank_, world_),
        left_(static_cast<int>(neighbours_.left(1))),
        right_(static_cast<int>(neighbours_.right(1))),
        keeps_partial_sums_(sends_caller_memory_ && keeps_partial_sums),
        sending_(context, /*first_slot=*/0, (2 * world_ - 1) * kWindow,
                 keeps_partial_sums_ ? 0 : largest_chunk_bytes()),
        arriving_(context, 2 * world_ - 1, kWindow) {}

  Status reduce_scatter() { return run(0, last_hop()); }
  Status all_reduce() { return run(0, last_stage()); }
  Status all_gather() { return run(last_hop(), last_stage()); }

 private:
  std::size_t last_hop() const { return world_ - 1; }
  std::size_t last_stage() const { return 2 * (world_ - 1); }

  Status run(std::size_t first, std::size_t last) {
    first_ = first;
    last_ = last;
    RINGPRESS_RETURN_IF_ERROR(run_stages(
        last - first + 1, kLag,
        [this](std::size_t stage, std::size_t slice) { return run_stage(first_ + stage, slice); }));
    return sending_.drain();
  }

  /// The shard that a rank works on in a stage: what it has just received and sends on.
  std::size_t shard_in(std::size_t stage) const {
    return neighbours_.left(stage <= last_hop() ? stage + 1 : stage - last_hop());
  }

  /// Ranks whose values a frame holds that is sent in this stage.
  std::size_t summed_in(std::size_t stage) const { return std::min(stage + 1, world_); }
  Encoding encoding_in(std::size_t stage, std::size_t slice) const {
    return encoding(shard_in(stage), slice, summed_in(stage));
  }

  Status run_stage(std::size_t stage, std::size_t slice) {
    if (stage < last_) RINGPRESS_RETURN_IF_ERROR(expect_next(stage, slice));
    const Range range = chunk_of_shard(shard_in(stage), slice);
    if (range.count == 0) return Status::ok();
    if (stage > last_hop()) return take_result(stage, slice, range);
    if (stage == first_) return start(stage, slice, range);
    return hop(stage, slice, range);
  }

  /// Posts the receive of the frame that stage + 1 of this slice works on. Results that need no
  /// decoding go straight to their place.
  Status expect_next(std::size_t stage, std::size_t slice) {
    const Range range = chunk_of_shard(shard_in(stage + 1), slice);
    if (range.count == 0) return Status::ok();
    const FrameLength length = frame_length(range, summed_in(stage));
    const bool to_its_place = stage + 1 > last_hop() && codec_.traits().identity;
    auto request = to_its_place
                       ? mesh_.irecv(left_, Buffer{tensor_.receive_at(range.offset), length.bytes},
                                     label(stage, slice))
                       : mesh_.irecv_view(left_, length, label(stage, slice));
    if (!request.is_ok()) return request.status();
    arriving_.put(stage + 1, slice, request.value());
    return Status::ok();
  }

  /// The first stage: own values, nothing has arrived yet.
  Status start(std::size_t stage, std::size_t slice, const Range& range) {
    RINGPRESS_ASSIGN_OR_RETURN(std::byte * memory, sending_.acquire(slot(stage, slice)));
    const bool is_result = stage == last_hop();
    std::byte* result = is_result ? tensor_.receive_at(range.offset) : nullptr;
    if (!sends_caller_memory_) {
      const std::size_t written = encode(range, encoding_in(stage, slice), memory, result);
      return send(stage, slice, {memory, written});
    }
    const ConstBuffer own(tensor_.send_at(range.offset), codec_.wire_bytes(range.count));
    if (is_result && result != own.data) std::memcpy(result, own.data, own.bytes);
    return send(stage, slice, own);
  }

  /// Adds own values to the partial sum that arrived and sends it on, or keeps it.
  Status hop(std::size_t stage, std::size_t slice, const Range& range) {
    Request* view = arriving_.take(stage, slice);
    RINGPRESS_ASSIGN_OR_RETURN(const ConstBuffer partial_sum, mesh_.wait(view));
    RINGPRESS_ASSIGN_OR_RETURN(std::byte * memory, sending_.acquire(slot(stage, slice)));
    const bool is_last_hop = stage == last_hop();
    const bool is_sent = stage < last_;
    std::byte* wire = keeps_partial_sums_ ? tensor_.receive_at(range.offset) : memory;
    const std::byte* const wires[] = {partial_sum.data};
    const std::size_t wire_sizes[] = {partial_sum.bytes};
    DecodeAddEncodeArgs args = hop_arguments(range, encoding_in(stage, slice));
    args.wires = wires;
    args.wire_sizes = wire_sizes;
    args.wire_contributions = summed_in(stage - 1);
    args.divisor = is_last_hop ? divisor_of(context_) : 1;
    args.residual = is_sent ? residual(range) : nullptr;
    args.wire = is_sent ? wire : nullptr;
    args.decoded = is_last_hop ? tensor_.receive_at(range.offset) : nullptr;
    const std::size_t written = codec_.decode_add_encode(args);
    mesh_.release(view);
    if (!is_sent) return Status::ok();
    return send(stage, slice, {wire, written});
  }

  /// A complete shard: decode it, and send the same bytes on. They are copied to this rank's own
  /// memory first: holding on to memory of the left neighbour until the right one has read it would
  /// make ranks wait for each other in a circle.
  Status take_result(std::size_t stage, std::size_t slice, const Range& range) {
    Request* request = arriving_.take(stage, slice);
    RINGPRESS_ASSIGN_OR_RETURN(ConstBuffer payload, mesh_.wait(request));
    std::byte* result = tensor_.receive_at(range.offset);
    const bool is_sent = stage < last_;
    if (is_sent) {
      RINGPRESS_ASSIGN_OR_RETURN(std::byte * memory, sending_.acquire(slot(stage, slice)));
      ConstBuffer forwarded(result, codec_.wire_bytes(range.count));
      if (!codec_.traits().identity) {
        std::memcpy(memory, payload.data, payload.bytes);
        forwarded = {memory, payload.bytes};
      }
      RINGPRESS_RETURN_IF_ERROR(send(stage, slice, forwarded));
    }
    if (!codec_.traits().identity) decode(range, encoding_in(stage, slice), payload, result);
    mesh_.release(request);
    return Status::ok();
  }

  Status send(std::size_t stage, std::size_t slice, ConstBuffer payload) {
    return sending_.keep(slot(stage, slice), mesh_.isend(right_, payload, label(stage, slice)));
  }

  /// Each stage has kWindow slots of its own, used in turn.
  std::size_t slot(std::size_t stage, std::size_t slice) const {
    return stage * kWindow + slice % kWindow;
  }

  const RingNeighbours neighbours_;
  const int left_;
  const int right_;
  const bool keeps_partial_sums_;
  SendWindow sending_;
  ReceiveWindow arriving_;  // By the stage that waits for them.
  std::size_t first_ = 0;
  std::size_t last_ = 0;
};

}  // namespace

Status Ring::all_reduce(const CollectiveContext& context, const AllReduceArgs& args) const {
  if (!context.parts.empty()) {
    return {Code::kUnsupported, "a ring has one codec for all parts of a tensor"};
  }
  if (context.codec->projection() != nullptr) return all_reduce_projected(*this, context, args);
  if (exchanges_whole(context, args.count)) return all_reduce_whole(context, args);
  if (goes_two_ways(*context.codec)) return all_reduce_two_ways(context, args, order_);
  return RingCall(context, tensor_of(context, args), order_, true).all_reduce();
}

Status Ring::reduce_scatter(const CollectiveContext& context, const ReduceScatterArgs& args) const {
  RINGPRESS_RETURN_IF_ERROR(check_no_projection(context));
  if (goes_two_ways(*context.codec)) return reduce_scatter_two_ways(context, args, order_);
  return RingCall(context, tensor_of(context, args), order_, false).reduce_scatter();
}

Status Ring::all_gather(const CollectiveContext& context, const AllGatherArgs& args) const {
  RINGPRESS_RETURN_IF_ERROR(check_no_projection(context));
  return RingCall(context, tensor_of(context, args), order_, false).all_gather();
}

}  // namespace ringpress::ring
