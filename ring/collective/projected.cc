#include "ring/collective/projected.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "ring/collective/chunked_call.h"
#include "ring/collective/pipeline.h"
#include "ringpress/internal/hash.h"
#include "ringpress/internal/projection.h"

namespace ringpress::ring {
namespace {

// Label of the frames with tags; those of the collectives count from 0.
constexpr std::uint32_t kTagStep = 0x50000000;

/// What is compared before the first round.
struct Tag {
  std::uint64_t state = 0;   // ProjectionState::call.
  std::uint64_t layers = 0;  // Hash of the layers.
};
static_assert(sizeof(Tag) == 16);

/// What all ranks have alike.
struct Common {
  bool state = false;
  bool layers = false;
};

std::uint64_t hash_of(std::span<const Layer> layers) {
  std::uint64_t hash = 0;
  for (const Layer& layer : layers) {
    for (const std::uint64_t field : {layer.offset, layer.count, layer.rows, layer.columns}) {
      hash = combine_hash(hash, field);
    }
    hash = combine_hash(hash, layer.exact ? 1 : 0);
  }
  return hash;
}

class ProjectedCall {
 public:
  ProjectedCall(const Collective& inner, const CollectiveContext& context,
                const AllReduceArgs& args)
      : inner_(inner),
        context_(context),
        mesh_(*context.mesh),
        projection_(*context.codec->projection()),
        tensor_(args),
        own_(static_cast<std::size_t>(projection_.rounds())),
        summed_(own_.size()),
        dropped_(own_.size()) {}

  Status run() {
    const FailOnUnwind guard(mesh_);
    RINGPRESS_ASSIGN_OR_RETURN(const Common common, compare_tags());
    prepare(common);
    for (std::size_t round = 0; round < own_.size(); ++round) {
      RINGPRESS_RETURN_IF_ERROR(run_round(round));
    }
    projection_.finish(args_);
    if (args_.state != nullptr) {
      context_.projection_state->call = context_.call.sequence + 1;
      context_.projection_state->layers = hash_of(args_.shape.layers);
    }
    return Status::ok();
  }

 private:
  /// A state that does not fit the layers of now is none.
  Tag own_tag() const {
    Tag tag{0, hash_of(context_.layers)};
    const ProjectionState* state = context_.projection_state;
    if (state != nullptr && state->layers == tag.layers &&
        has_room({tensor_.count, context_.layers})) {
      tag.state = state->call;
    }
    return tag;
  }

  /// Everybody sends its tag to everybody.
  Result<Common> compare_tags() {
    const Tag own = own_tag();
    const FrameLabel label{context_.call, kTagStep, 0};
    SendWindow sending(context_, 0, 1, 0);
    std::vector<Request*> views;
    for (int distance = 1; distance < mesh_.size(); ++distance) {
      const int peer = (mesh_.rank() + distance) % mesh_.size();
      RINGPRESS_ASSIGN_OR_RETURN(Request * view,
                                 mesh_.irecv_view(peer, FrameLength::exactly(sizeof own), label));
      views.push_back(view);
      RINGPRESS_RETURN_IF_ERROR(sending.keep(
          0, mesh_.isend(peer, {reinterpret_cast<const std::byte*>(&own), sizeof own}, label)));
    }
    Common common{own.state != 0, true};
    for (Request* view : views) {
      RINGPRESS_ASSIGN_OR_RETURN(const ConstBuffer payload, mesh_.wait(view));
      Tag other;
      std::memcpy(&other, payload.data, sizeof other);
      common.state &= other.state == own.state;
      common.layers &= other.layers == own.layers;
      mesh_.release(view);
    }
    RINGPRESS_RETURN_IF_ERROR(sending.drain());
    return common;
  }

  void prepare(const Common& common) {
    args_.shape = {tensor_.count, common.layers ? context_.layers : std::span<const Layer>()};
    args_.values = tensor_.send;
    args_.residual = context_.residual;
    args_.seed = context_.random_seed;
    args_.step = context_.call.sequence;
    args_.turn = context_.turn;
    args_.own = own_;
    args_.summed = summed_;
    args_.dropped = dropped_;
    args_.divisor = divisor_of(context_);
    args_.result = tensor_.receive;
    ProjectionState* state = context_.projection_state;
    if (state == nullptr) return;
    state->call = 0;  // Until this call has succeeded.
    args_.state_is_warm = common.state && common.layers;
    if (has_room(args_.shape)) args_.state = state->values.data();
  }

  bool has_room(const TensorShape& shape) const {
    return context_.projection_state->values.size() >= projection_.state_count(shape);
  }

  Status run_round(std::size_t round) {
    const auto number = static_cast<int>(round);
    const std::size_t count = projection_.projected_count(number, args_.shape);
    own_[round] = memory_for(count);
    summed_[round] = memory_for(count);
    projection_.project(number, args_);
    if (count == 0) return Status::ok();
    CollectiveContext context = context_of(round);
    if (args_.residual != nullptr && !projection_.inner().traits().lossless) {
      dropped_[round] = memory_for(count);
      std::fill_n(dropped_[round], count, 0.0f);
      context.residual = dropped_[round];
    }
    return inner_.all_reduce(context, {own_[round], summed_[round], count});
  }

  float* memory_for(std::size_t count) {
    memory_.push_back(std::make_unique_for_overwrite<float[]>(count));
    return memory_.back().get();
  }

  /// Frames of different rounds differ in the codec's hash, their random bits in the seed.
  CollectiveContext context_of(std::size_t round) const {
    CollectiveContext context;
    context.mesh = &mesh_;
    context.memory = context_.memory;
    context.codec = &projection_.inner();
    context.call = context_.call;
    context.call.codec_hash = combine_hash(context_.call.codec_hash, round);
    context.chunk_elements = context_.chunk_elements;
    context.random_seed = combine_hash(context_.random_seed, round);
    return context;
  }

  const Collective& inner_;
  const CollectiveContext& context_;
  Mesh& mesh_;
  const Projection& projection_;
  const AllReduceArgs& tensor_;
  ProjectArgs args_;
  std::vector<float*> own_;  // By round, as in ProjectArgs.
  std::vector<float*> summed_;
  std::vector<float*> dropped_;
  std::vector<std::unique_ptr<float[]>> memory_;
};

}  // namespace

Status check_no_projection(const CollectiveContext& context) {
  if (context.codec->projection() == nullptr) return Status::ok();
  return {Code::kUnsupported,
          "codec " + context.codec->specification() + " takes part in all-reduces only"};
}

Status all_reduce_projected(const Collective& inner, const CollectiveContext& context,
                            const AllReduceArgs& args) {
  return ProjectedCall(inner, context, args).run();
}

}  // namespace ringpress::ring
