// Small uncompressed all-reduce in exchanges of whole tensors
// (ringpress/internal/whole_exchange.h). When ranks double, the sum of the lower ranks comes first
// on both sides of an exchange, so both get the same bits.
#include "ring/collective/direct.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ring/collective/chunked_call.h"
#include "ring/collective/fail_on_unwind.h"
#include "ring/collective/pipeline.h"
#include "ringpress/internal/whole_exchange.h"

namespace ringpress::ring {
namespace {

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
      RINGPRESS_RETURN_IF_ERROR(
          sending_.keep(chunk, mesh_.isend(peer, {payload, bytes}, label(chunk))));
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

/// By doubling. Two staging slots hold the sum so far in turn: one is being sent while the next is
/// made.
class DoublingCall {
 public:
  /// `values`, the own tensor, stay as they are until the call ends.
  DoublingCall(const CollectiveContext& context, const AllReduceArgs& args, const void* values)
      : context_(context),
        mesh_(*context.mesh),
        args_(args),
        bytes_(args.count * dtype_size(context.codec->dtype())),
        doubling_(mesh_.size()),
        sending_(context, 1, 2, bytes_),
        sum_(values) {}

  Status run() {
    RINGPRESS_RETURN_IF_ERROR(doubling_.is_left_out(mesh_.rank()) ? tell_and_be_told() : add_all());
    return sending_.drain();
  }

 private:
  bool is_paired() const { return doubling_.is_paired(mesh_.rank()); }
  std::uint32_t last_step() const { return static_cast<std::uint32_t>(doubling_.exchanges()) + 1; }

  FrameLabel label(std::uint32_t step) const { return {context_.call, step, 0}; }

  Status send_sum(int peer, std::uint32_t step) {
    return sending_.keep(turn_, mesh_.isend(peer, {sum_, bytes_}, label(step)));
  }

  /// Adds what the peer sends to the sum. The new one is where the next send may take it from, or,
  /// if none follows, where the caller wants it.
  Status add_from(int peer, std::uint32_t step, bool is_last) {
    void* next = args_.receive;
    if (!is_last || is_paired()) {
      RINGPRESS_ASSIGN_OR_RETURN(next, sending_.acquire(turn_ + 1));
    }
    RINGPRESS_ASSIGN_OR_RETURN(Request * view,
                               mesh_.irecv_view(peer, FrameLength::exactly(bytes_), label(step)));
    RINGPRESS_ASSIGN_OR_RETURN(const ConstBuffer payload, mesh_.wait(view));
    DecodeAddEncodeArgs hop;
    hop.wires = {&payload.data, 1};
    hop.own_position = peer < mesh_.rank() ? 1 : 0;
    hop.values = sum_;
    hop.count = args_.count;
    hop.divisor = is_last ? divisor_of(context_) : 1;
    hop.decoded = next;
    context_.codec->decode_add_encode(hop);
    mesh_.release(view);
    sum_ = next;
    ++turn_;
    return Status::ok();
  }

  Status add_all() {
    if (is_paired()) RINGPRESS_RETURN_IF_ERROR(add_from(mesh_.rank() + 1, 0, false));
    for (std::uint32_t step = 1; step < last_step(); ++step) {
      const int peer = doubling_.rank_at(doubling_.place_of(mesh_.rank()) ^ (1 << (step - 1)));
      RINGPRESS_RETURN_IF_ERROR(send_sum(peer, step));
      RINGPRESS_RETURN_IF_ERROR(add_from(peer, step, step + 1 == last_step()));
    }
    if (!is_paired()) return Status::ok();
    RINGPRESS_RETURN_IF_ERROR(send_sum(mesh_.rank() + 1, last_step()));
    std::memcpy(args_.receive, sum_, bytes_);
    return Status::ok();
  }

  Status tell_and_be_told() {
    const int peer = mesh_.rank() - 1;
    RINGPRESS_RETURN_IF_ERROR(send_sum(peer, 0));
    RINGPRESS_ASSIGN_OR_RETURN(
        Request * view, mesh_.irecv_view(peer, FrameLength::exactly(bytes_), label(last_step())));
    RINGPRESS_ASSIGN_OR_RETURN(const ConstBuffer payload, mesh_.wait(view));
    std::memcpy(args_.receive, payload.data, bytes_);
    mesh_.release(view);
    return Status::ok();
  }

  const CollectiveContext& context_;
  Mesh& mesh_;
  const AllReduceArgs& args_;
  const std::size_t bytes_;
  const RecursiveDoubling doubling_;
  SendWindow sending_;
  const void* sum_;       // So far.
  std::size_t turn_ = 0;  // The slot that sends the sum.
};

WholeExchange exchange_of(const CollectiveContext& context, std::size_t count) {
  const Mesh& mesh = *context.mesh;
  return whole_exchange_of({count * dtype_size(context.codec->dtype()), context.call.algorithm,
                            mesh.size(), mesh.ranks_per_host()});
}

}  // namespace

bool exchanges_whole(const CollectiveContext& context, std::size_t count) {
  return sends_in_place(context) && exchange_of(context, count) != WholeExchange::kNone;
}

Status all_reduce_whole(const CollectiveContext& context, const AllReduceArgs& args) {
  const FailOnUnwind guard(*context.mesh);
  // The result must not overwrite what is still being sent.
  const std::size_t bytes = args.count * dtype_size(context.codec->dtype());
  const std::size_t frame_bytes = std::min(bytes, kExchangeFrameBytes);
  std::byte* copy = nullptr;
  if (args.send == args.receive || any_reads_staging(*context.mesh, frame_bytes)) {
    RINGPRESS_ASSIGN_OR_RETURN(const Buffer staging, context.mesh->staging(0, bytes));
    copy = staging.data;
  }
  if (exchange_of(context, args.count) != WholeExchange::kDoubling) {
    return ExchangeWithAll(context, args, copy).run();
  }
  if (copy != nullptr) std::memcpy(copy, args.send, bytes);
  return DoublingCall(context, args, copy != nullptr ? copy : args.send).run();
}

}  // namespace ringpress::ring
