#include "tests/examples/collective/one_shot.h"

#include <vector>

#include "ring/collective/chunked_call.h"
#include "ring/collective/fail_on_unwind.h"
#include "ring/collective/pipeline.h"
#include "ring/collective/projected.h"
#include "ring/collective/schedule.h"

namespace ringpress::examples {
namespace {

/// One call on one rank.
class OneShotCall {
 public:
  OneShotCall(const CollectiveContext& context, const AllReduceArgs& args)
      : context_(context),
        mesh_(*context.mesh),
        codec_(*context.codec),
        args_(args),
        element_bytes_(dtype_size(codec_.dtype())),
        chunk_elements_(ring::elements_per_chunk(context, args.count)),
        sending_(context, /*first_slot=*/0, /*slots=*/2, codec_.wire_bytes(chunk_elements_)),
        views_(static_cast<std::size_t>(mesh_.size())),
        wires_(views_.size()),
        sizes_(views_.size()) {}

  Status run() {
    const ring::FailOnUnwind guard(mesh_);
    for (std::size_t chunk = 0; chunk * chunk_elements_ < args_.count; ++chunk) {
      const ring::Range range = chunk_of({0, args_.count}, chunk, chunk_elements_);
      RINGPRESS_RETURN_IF_ERROR(send(chunk, range));
      RINGPRESS_RETURN_IF_ERROR(reduce(range));
    }
    return sending_.drain();
  }

 private:
  /// Receives are posted first: what comes early has a place to go.
  Status send(std::size_t chunk, const ring::Range& range) {
    const FrameLabel label{context_.call, 0, static_cast<std::uint32_t>(chunk)};
    const FrameLength length{codec_.wire_bytes(range.count), !codec_.traits().fixed_size};
    for (int peer = 0; peer < mesh_.size(); ++peer) {
      if (peer == mesh_.rank()) continue;
      RINGPRESS_ASSIGN_OR_RETURN(views_[static_cast<std::size_t>(peer)],
                                 mesh_.irecv_view(peer, length, label));
    }
    RINGPRESS_ASSIGN_OR_RETURN(std::byte * wire, sending_.acquire(chunk));
    const ConstBuffer own(wire, encode(range, wire));
    const auto rank = static_cast<std::size_t>(mesh_.rank());
    wires_[rank] = own.data;
    sizes_[rank] = own.bytes;
    for (int distance = 1; distance < mesh_.size(); ++distance) {
      const int peer = (mesh_.rank() + distance) % mesh_.size();
      RINGPRESS_RETURN_IF_ERROR(sending_.keep(chunk, mesh_.isend(peer, own, label)));
    }
    return Status::ok();
  }

  std::size_t encode(const ring::Range& range, std::byte* wire) const {
    EncodeArgs args;
    args.values = static_cast<const std::byte*>(args_.send) + range.offset * element_bytes_;
    args.count = range.count;
    args.input_scale = context_.input_scale;
    if (context_.residual != nullptr) args.residual = context_.residual + range.offset;
    args.wire = wire;
    args.random = {context_.random_seed, context_.call.sequence,
                   static_cast<std::uint32_t>(mesh_.rank()), range.offset};
    return codec_.encode(args);
  }

  Status reduce(const ring::Range& range) {
    for (std::size_t peer = 0; peer < views_.size(); ++peer) {
      if (views_[peer] == nullptr) continue;
      RINGPRESS_ASSIGN_OR_RETURN(const ConstBuffer payload, mesh_.wait(views_[peer]));
      wires_[peer] = payload.data;
      sizes_[peer] = payload.bytes;
    }
    std::byte* const result =
        static_cast<std::byte*>(args_.receive) + range.offset * element_bytes_;
    DecodeArgs first;
    first.wire = wires_[0];
    first.wire_size = sizes_[0];
    first.count = range.count;
    first.values = result;
    codec_.decode(first);
    DecodeAddEncodeArgs others;
    others.wires = std::span(wires_).subspan(1);
    others.wire_sizes = std::span(sizes_).subspan(1);
    others.values = result;
    others.count = range.count;
    others.divisor = ring::divisor_of(context_);
    others.decoded = result;
    others.memory = context_.memory;
    codec_.decode_add_encode(others);
    for (Request*& view : views_) {
      if (view != nullptr) mesh_.release(view);
      view = nullptr;
    }
    return Status::ok();
  }

  const CollectiveContext& context_;
  Mesh& mesh_;
  const Codec& codec_;
  const AllReduceArgs& args_;
  const std::size_t element_bytes_;
  const std::size_t chunk_elements_;
  ring::SendWindow sending_;
  std::vector<Request*> views_;          // By rank; null for this one.
  std::vector<const std::byte*> wires_;  // By rank.
  std::vector<std::size_t> sizes_;       // Of those, in bytes.
};

Status no_halves() {
  return {Code::kUnsupported, "oneshot is for all-reduces"};
}

}  // namespace

Status OneShot::all_reduce(const CollectiveContext& context, const AllReduceArgs& args) const {
  if (context.codec->projection() != nullptr) {
    return ring::all_reduce_projected(*this, context, args);
  }
  return OneShotCall(context, args).run();
}

Status OneShot::reduce_scatter(const CollectiveContext&, const ReduceScatterArgs&) const {
  return no_halves();
}

Status OneShot::all_gather(const CollectiveContext&, const AllGatherArgs&) const {
  return no_halves();
}

}  // namespace ringpress::examples
