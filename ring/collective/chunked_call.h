// What one call of ring or sra holds on one rank, and the arithmetic on it that both share.
#ifndef RING_COLLECTIVE_CHUNKED_CALL_H_
#define RING_COLLECTIVE_CHUNKED_CALL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ring/collective/chunk_agreement.h"
#include "ring/collective/fail_on_unwind.h"
#include "ring/collective/part_codecs.h"
#include "ring/collective/pipeline.h"
#include "ring/collective/schedule.h"
#include "ringpress/internal/collective.h"

namespace ringpress::ring {

/// The caller's tensors as bytes, addressed by the index of an element in the whole tensor, and how
/// the tensor is cut into shards. A buffer that holds one shard only begins at that shard's first
/// element: its origin.
struct ShardedTensor {
  const std::byte* send = nullptr;
  std::byte* receive = nullptr;
  std::size_t element_bytes = 1;
  std::size_t send_origin = 0;
  std::size_t receive_origin = 0;
  std::pmr::vector<Range> shards;  // By rank.

  const std::byte* send_at(std::size_t element) const {
    return send + (element - send_origin) * element_bytes;
  }
  std::byte* receive_at(std::size_t element) const {
    return receive + (element - receive_origin) * element_bytes;
  }
};

/// All-reduce: shards begin at whole tiles, so that blocks are cut alike whatever the number of
/// ranks; at cache lines for an identity codec, so that small tensors spread evenly.
inline ShardedTensor tensor_of(const CollectiveContext& context, const AllReduceArgs& args) {
  const auto world = static_cast<std::size_t>(context.mesh->size());
  const std::size_t alignment = context.codec->traits().identity ? 64 : kTileElements;
  return {static_cast<const std::byte*>(args.send),
          static_cast<std::byte*>(args.receive),
          dtype_size(context.codec->dtype()),
          0,
          0,
          even_shards(args.count, world, alignment, context.memory)};
}

inline ShardedTensor tensor_of(const CollectiveContext& context, const ReduceScatterArgs& args) {
  const auto world = static_cast<std::size_t>(context.mesh->size());
  return {static_cast<const std::byte*>(args.send),
          static_cast<std::byte*>(args.receive),
          dtype_size(context.codec->dtype()),
          0,
          static_cast<std::size_t>(context.mesh->rank()) * args.receive_count,
          equal_shards(args.receive_count, world, context.memory)};
}

inline ShardedTensor tensor_of(const CollectiveContext& context, const AllGatherArgs& args) {
  const auto world = static_cast<std::size_t>(context.mesh->size());
  return {static_cast<const std::byte*>(args.send),
          static_cast<std::byte*>(args.receive),
          dtype_size(context.codec->dtype()),
          static_cast<std::size_t>(context.mesh->rank()) * args.send_count,
          0,
          equal_shards(args.send_count, world, context.memory)};
}

/// True if frames can be sent from and received into the caller's memory as they are.
inline bool sends_in_place(const CollectiveContext& context) {
  return context.codec->traits().identity && !context.pre_multiplied;
}

/// The same on every rank.
inline bool is_on_one_host(const Mesh& mesh) {
  for (int peer = 0; peer < mesh.size(); ++peer) {
    if (!mesh.is_local(peer)) return false;
  }
  return true;
}

inline std::size_t elements_per_chunk(const CollectiveContext& context, std::size_t shard_count) {
  if (context.chunk_elements != 0) {
    // No more than the shard, in whole tiles: memory is reserved by this figure.
    return std::min(context.chunk_elements, whole_tiles(std::max<std::size_t>(1, shard_count)));
  }
  if (!is_on_one_host(*context.mesh)) return choose_chunk_elements(shard_count, *context.codec);
  return choose_local_chunk_elements(shard_count, *context.codec,
                                     static_cast<std::size_t>(context.mesh->size()));
}

/// True if a frame of so many bytes to some peer is worth a copy into staging memory.
inline bool any_reads_staging(const Mesh& mesh, std::size_t bytes) {
  for (int peer = 0; peer < mesh.size(); ++peer) {
    if (peer != mesh.rank() && mesh.reads_staging(peer, bytes)) return true;
  }
  return false;
}

/// What an average divides by.
inline std::size_t divisor_of(const CollectiveContext& context) {
  return context.codec->op() == ReduceOp::kAvg ? static_cast<std::size_t>(context.mesh->size()) : 1;
}

/// How a chunk is encoded.
struct Encoding {
  Contributions form;
  Agreed agreed;
};

class ChunkedCall {
 protected:
  ChunkedCall(const CollectiveContext& context, ShardedTensor tensor)
      : context_(context),
        mesh_(*context.mesh),
        codec_(*context.codec),
        codecs_(context),
        tensor_(std::move(tensor)),
        rank_(static_cast<std::size_t>(mesh_.rank())),
        world_(tensor_.shards.size()),
        sums_(context.call.kind != CollectiveKind::kAllGather),
        chunk_elements_(elements_per_chunk(context, tensor_.shards[0].count)),
        agreement_(context, tensor_, chunk_elements_),
        sends_caller_memory_(sends_in_place(context)) {}
  ~ChunkedCall() = default;
  ChunkedCall(const ChunkedCall&) = delete;
  ChunkedCall& operator=(const ChunkedCall&) = delete;

  /// Chunks in the largest shard; shorter shards have empty ones at the end.
  std::size_t chunks() const { return chunk_count(tensor_.shards, chunk_elements_); }
  /// Chunk number `chunk` of the shard that `owner` reduces.
  Range chunk_of_shard(std::size_t owner, std::size_t chunk) const {
    return chunk_of(tensor_.shards[owner], chunk, chunk_elements_);
  }
  /// An encoded chunk that holds the values of `summed` ranks. An all-gather sums nothing: its
  /// chunks stand alone.
  Contributions form(std::size_t summed) const {
    return sums_ ? Contributions{summed, world_} : Contributions{};
  }
  /// How chunk number `chunk` of a shard is encoded when it holds the values of `summed` ranks.
  Encoding encoding(std::size_t owner, std::size_t chunk, std::size_t summed) const {
    return {form(summed), sums_ ? agreement_.of(owner, chunk) : Agreed{}};
  }
  /// Room for any form of a whole chunk; where parts have codecs of their own, for those of one and
  /// of all ranks.
  std::size_t largest_chunk_bytes() const {
    std::size_t bytes = 0;
    for (std::size_t summed = 1; summed <= world_ && context_.parts.empty(); ++summed) {
      bytes = std::max(bytes, codec_.wire_bytes(chunk_elements_, form(summed)));
    }
    if (context_.parts.empty()) return bytes;
    for (std::size_t owner = 0; owner < world_; ++owner) {
      for (std::size_t chunk = 0; chunk < chunks(); ++chunk) {
        const Range range = chunk_of_shard(owner, chunk);
        for (const std::size_t summed : {std::size_t{1}, world_}) {
          bytes = std::max(bytes, codecs_.wire_bytes(range, form(summed)));
        }
      }
    }
    return bytes;
  }
  /// What is known of the length of a frame before it comes.
  FrameLength frame_length(const Range& range, std::size_t summed) const {
    return {codecs_.wire_bytes(range, form(summed)), !codec_.traits().fixed_size};
  }

  /// Runs the stages of the agreement, then `stages` of the collective's own.
  template <typename Stage>
  Status run_stages(std::size_t stages, std::size_t lag, Stage&& stage) {
    const FailOnUnwind guard(mesh_);
    if (!sums_) return run_pipeline(stages, chunks(), lag, stage);
    RINGPRESS_RETURN_IF_ERROR(agreement_.agree_on_tensor());
    const std::size_t before = agreement_.stages();
    const Status ran =
        run_pipeline(before + stages, chunks(), lag, [&](std::size_t s, std::size_t chunk) {
          if (s < before) return agreement_.run_stage(s, chunk);
          if (s == before) RINGPRESS_RETURN_IF_ERROR(agreement_.collect(chunk));
          return stage(s - before, chunk);
        });
    return ran.is_ok() ? agreement_.drain() : ran;
  }

  /// Names a frame, so that the receiver can check that it is the one it waits for.
  FrameLabel label(std::size_t step, std::size_t chunk) const {
    return {context_.call, static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(chunk)};
  }
  RandomKey random_key(const Range& range) const {
    return {context_.random_seed, context_.call.sequence, static_cast<std::uint32_t>(rank_),
            range.offset};
  }
  /// The part of the tensor's residual for `range`, or null without error feedback.
  float* residual(const Range& range) const {
    return context_.residual == nullptr ? nullptr : context_.residual + range.offset;
  }

  /// The codes of a scaled codec for `range`, or null.
  const std::uint8_t* scales(const Range& range) const {
    return context_.scales == nullptr ? nullptr : context_.scales + range.offset;
  }

  /// Encodes own values with error feedback; `decoded`, if not null, gets what others will decode.
  /// Gives the bytes written.
  std::size_t encode(const Range& range, const Encoding& encoding, std::byte* wire,
                     void* decoded) const {
    EncodeArgs args;
    args.values = tensor_.send_at(range.offset);
    args.count = range.count;
    args.input_scale = context_.input_scale;
    args.residual = residual(range);
    args.wire = wire;
    args.decoded = decoded;
    args.random = random_key(range);
    args.form = encoding.form;
    args.agreed = encoding.agreed;
    args.scales = scales(range);
    return codecs_.encode(range, args);
  }

  /// What is decoded, added and encoded of a chunk, but for what has arrived and where it goes.
  DecodeAddEncodeArgs hop_arguments(const Range& range, const Encoding& sum) const {
    DecodeAddEncodeArgs args;
    args.own_position = 1;
    args.values = tensor_.send_at(range.offset);
    args.count = range.count;
    args.input_scale = context_.input_scale;
    args.memory = context_.memory;
    args.random = random_key(range);
    args.form = sum.form;
    args.agreed = sum.agreed;
    args.scales = scales(range);
    return args;
  }

  /// `result` gets the values of a complete chunk.
  void decode(const Range& range, const Encoding& encoding, ConstBuffer payload,
              std::byte* result) const {
    DecodeArgs args;
    args.wire = payload.data;
    args.wire_size = payload.bytes;
    args.count = range.count;
    args.values = result;
    args.divisor = codec_.traits().summable && sums_ ? divisor_of(context_) : 1;
    args.form = encoding.form;
    args.agreed = encoding.agreed;
    args.scales = scales(range);
    codecs_.decode(range, args);
  }

  const CollectiveContext& context_;
  Mesh& mesh_;
  const Codec& codec_;
  PartCodecs codecs_;
  const ShardedTensor tensor_;
  const std::size_t rank_;
  const std::size_t world_;
  const bool sums_;  // Not in an all-gather.
  const std::size_t chunk_elements_;
  ChunkAgreement agreement_;
  // Frames are the caller's values as they are: an identity codec, and no factor to apply first.
  const bool sends_caller_memory_;
};

}  // namespace ringpress::ring

#endif  // RING_COLLECTIVE_CHUNKED_CALL_H_
