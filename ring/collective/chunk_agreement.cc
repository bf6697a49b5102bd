#include "ring/collective/chunk_agreement.h"

#include "ring/collective/chunked_call.h"

namespace ringpress::ring {
namespace {

// Labels of these frames; those of the collectives count from 0.
constexpr std::uint32_t kTensorStep = 0x40000000;
constexpr std::uint32_t kFirstStep = kTensorStep + 1;
// A send is given back once the peer has taken it, two stages later at worst.
constexpr std::size_t kSendsUnderWay = 8;
// Chunks between one stage and the next: more than the lag of any pipeline.
constexpr std::size_t kChunksUnderWay = 8;

std::size_t words_for(std::size_t bytes) {
  return (bytes + 7) / 8;
}

std::byte* bytes_of(std::pmr::vector<std::uint64_t>& words) {
  return words.empty() ? nullptr : reinterpret_cast<std::byte*>(words.data());
}

}  // namespace

SummaryMemory::SummaryMemory(const Agreement* agreement, std::size_t world, std::size_t chunks,
                             std::size_t chunk_elements, std::pmr::memory_resource* memory)
    : chunks_(chunks),
      stride_bytes_(agreement == nullptr ? 0 : agreement->chunk_bytes(chunk_elements)),
      tensor_words_(words_for(agreement == nullptr ? 0 : agreement->tensor_bytes()), memory),
      chunk_words_(words_for(stride_bytes_ * world * chunks), memory),
      tensor_summary_(bytes_of(tensor_words_)),
      chunk_summaries_(bytes_of(chunk_words_)) {}

ChunkAgreement::ChunkAgreement(const CollectiveContext& context, const ShardedTensor& tensor,
                               std::size_t chunk_elements)
    : context_(context),
      agreement_(context.codec->agreement()),
      tensor_(tensor),
      chunk_elements_(chunk_elements),
      rank_(static_cast<std::size_t>(context.mesh->rank())),
      world_(tensor.shards.size()),
      rounds_(agreement_ == nullptr ? 0 : agreement_->rounds()),
      memory_(agreement_, world_, chunk_count(tensor.shards, chunk_elements), chunk_elements,
              context.memory),
      sending_(context, /*first_slot=*/0, kSendsUnderWay, /*bytes=*/0),
      arriving_(context, stages() * world_, kChunksUnderWay) {}

Range ChunkAgreement::range_of(std::size_t owner, std::size_t chunk) const {
  return chunk_of(tensor_.shards[owner], chunk, chunk_elements_);
}

FrameLabel ChunkAgreement::label(std::size_t stage, std::size_t chunk) const {
  return {context_.call, kFirstStep + static_cast<std::uint32_t>(stage),
          static_cast<std::uint32_t>(chunk)};
}

Buffer ChunkAgreement::summary_of(std::size_t owner, std::size_t chunk, int round) const {
  const std::size_t count = range_of(owner, chunk).count;
  return {memory_.chunk(owner, chunk) + agreement_->round_offset(round, count),
          agreement_->round_bytes(round, count)};
}

Agreed ChunkAgreement::of(std::size_t owner, std::size_t chunk) const {
  if (agreement_ == nullptr) return {};
  Agreed agreed;
  agreed.tensor = memory_.tensor();
  if (rounds_ > 0) agreed.chunk = summary_of(owner, chunk, 0).data;
  return agreed;
}

Status ChunkAgreement::agree_on_tensor() {
  if (memory_.tensor() == nullptr) return Status::ok();
  SummariseArgs args;
  args.values = tensor_.send;
  args.count = tensor_.shards.back().offset + tensor_.shards.back().count;
  args.residual = context_.residual;
  args.summary = memory_.tensor();
  agreement_->summarise_tensor(args);
  return agreement_->tensor_is_shared() ? exchange_tensor_summaries() : Status::ok();
}

/// Everybody sends its summary to everybody and merges all of them, its own first: it is a few
/// bytes, and merging gives the same bytes in any order.
Status ChunkAgreement::exchange_tensor_summaries() {
  Mesh& mesh = *context_.mesh;
  const std::size_t bytes = agreement_->tensor_bytes();
  const std::pmr::vector<std::uint64_t> own(memory_.tensor_words(), context_.memory);
  const FrameLabel frame{context_.call, kTensorStep, 0};
  ReceiveWindow arriving(context_, world_, 1);
  for (std::size_t distance = 1; distance < world_; ++distance) {
    const auto peer = static_cast<int>((rank_ + distance) % world_);
    const auto view = mesh.irecv_view(peer, FrameLength::exactly(bytes), frame);
    if (!view.is_ok()) return view.status();
    arriving.put(distance, 0, view.value());
    RINGPRESS_RETURN_IF_ERROR(sending_.keep(0, mesh.isend(peer, {own.data(), bytes}, frame)));
  }
  for (std::size_t distance = 1; distance < world_; ++distance) {
    Request* const view = arriving.take(distance, 0);
    RINGPRESS_ASSIGN_OR_RETURN(const ConstBuffer other, mesh.wait(view));
    agreement_->merge_tensor(other.data, memory_.tensor());
    mesh.release(view);
  }
  return sending_.drain();
}

Status ChunkAgreement::run_stage(std::size_t stage, std::size_t chunk) {
  if (stage > 0 && stage % 2 == 0) RINGPRESS_RETURN_IF_ERROR(collect_results(stage - 1, chunk));
  return stage % 2 == 0 ? publish_own(stage, chunk) : merge_and_publish(stage, chunk);
}

Status ChunkAgreement::collect(std::size_t chunk) {
  return stages() == 0 ? Status::ok() : collect_results(stages() - 1, chunk);
}

void ChunkAgreement::summarise(int round, std::size_t owner, std::size_t chunk) {
  const Range range = range_of(owner, chunk);
  SummariseArgs args;
  args.values = tensor_.send_at(range.offset);
  args.count = range.count;
  args.residual = context_.residual == nullptr ? nullptr : context_.residual + range.offset;
  args.agreed = of(owner, chunk);
  args.summary = summary_of(owner, chunk, round).data;
  agreement_->summarise(round, args);
}

Status ChunkAgreement::publish_own(std::size_t stage, std::size_t chunk) {
  const auto round = static_cast<int>(stage / 2);
  RINGPRESS_RETURN_IF_ERROR(sending_.acquire(chunk).status());
  for (std::size_t distance = 0; distance < world_; ++distance) {
    const std::size_t peer = (rank_ + distance) % world_;
    if (range_of(rank_, chunk).count > 0 && peer != rank_) {
      const std::size_t bytes = summary_of(rank_, chunk, round).bytes;
      RINGPRESS_ASSIGN_OR_RETURN(
          Request * view,
          context_.mesh->irecv_view(static_cast<int>(peer), FrameLength::exactly(bytes),
                                    label(stage, chunk)));
      arriving_.put(stage * world_ + peer, chunk, view);
    }
    if (range_of(peer, chunk).count == 0) continue;
    summarise(round, peer, chunk);
    if (peer == rank_) continue;
    RINGPRESS_RETURN_IF_ERROR(sending_.keep(
        chunk, context_.mesh->isend(static_cast<int>(peer), summary_of(peer, chunk, round),
                                    label(stage, chunk))));
  }
  return Status::ok();
}

Status ChunkAgreement::merge_and_publish(std::size_t stage, std::size_t chunk) {
  const auto round = static_cast<int>(stage / 2);
  Mesh& mesh = *context_.mesh;
  const Range own = range_of(rank_, chunk);
  for (std::size_t peer = 0; peer < world_; ++peer) {
    if (peer == rank_) continue;
    if (range_of(peer, chunk).count > 0) {
      // The owner sends its result only after it has this rank's summary, which lies there.
      RINGPRESS_ASSIGN_OR_RETURN(
          Request * result,
          mesh.irecv(static_cast<int>(peer), summary_of(peer, chunk, round), label(stage, chunk)));
      arriving_.put(stage * world_ + peer, chunk, result);
    }
    if (own.count == 0) continue;
    Request* const view = arriving_.take((stage - 1) * world_ + peer, chunk);
    RINGPRESS_ASSIGN_OR_RETURN(const ConstBuffer other, mesh.wait(view));
    agreement_->merge(round, own.count, other.data, summary_of(rank_, chunk, round).data);
    mesh.release(view);
  }
  if (own.count == 0) return Status::ok();
  for (std::size_t distance = 1; distance < world_; ++distance) {
    const auto peer = static_cast<int>((rank_ + distance) % world_);
    RINGPRESS_RETURN_IF_ERROR(sending_.keep(
        chunk, mesh.isend(peer, summary_of(rank_, chunk, round), label(stage, chunk))));
  }
  return Status::ok();
}

Status ChunkAgreement::collect_results(std::size_t stage, std::size_t chunk) {
  for (std::size_t peer = 0; peer < world_; ++peer) {
    if (peer == rank_ || range_of(peer, chunk).count == 0) continue;
    Request* const result = arriving_.take(stage * world_ + peer, chunk);
    RINGPRESS_RETURN_IF_ERROR(context_.mesh->wait(result).status());
    context_.mesh->release(result);
  }
  return Status::ok();
}

}  // namespace ringpress::ring
