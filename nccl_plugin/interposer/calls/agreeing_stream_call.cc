#include "nccl_plugin/interposer/calls/agreeing_stream_call.h"

#include <algorithm>

namespace ringpress::nccl_plugin::interposer {
namespace {

/// Between summaries of a tensor.
std::size_t tensor_stride(std::size_t bytes) {
  return (bytes + 7) / 8 * 8;
}

}  // namespace

std::size_t agreement_bytes(const Codec& codec, std::size_t chunk_elements, std::size_t world) {
  const Agreement* const agreement = codec.agreement();
  if (agreement == nullptr) return 0;
  // A summary that is sent to this rank is a part of what is agreed on.
  const std::size_t chunk = 2 * world * agreement->chunk_bytes(chunk_elements);
  return std::max(chunk, world * tensor_stride(agreement->tensor_bytes()));
}

AgreeingStreamCall::AgreeingStreamCall(const StreamCallParts& parts)
    : ChunkedStreamCall(parts),
      agreement_(parts.codec->codec().agreement()),
      rounds_(agreement_ == nullptr ? 0 : agreement_->rounds()),
      tensor_bytes_(agreement_ == nullptr ? 0 : agreement_->tensor_bytes()) {}

std::byte* AgreeingStreamCall::tensor_summary(std::size_t rank) const {
  return parts_.lane->tensor_agreement() + rank * tensor_stride(tensor_bytes_);
}

std::byte* AgreeingStreamCall::agreed_at(std::size_t owner, std::size_t chunk) const {
  return parts_.lane->chunk_agreement(chunk) + owner * agreement_->chunk_bytes(chunk_elements_);
}

std::byte* AgreeingStreamCall::summary_at(int round, std::size_t owner, std::size_t chunk) const {
  return agreed_at(owner, chunk) +
         agreement_->round_offset(round, chunk_of_shard(owner, chunk).count);
}

std::byte* AgreeingStreamCall::incoming_at(std::size_t rank, std::size_t chunk) const {
  return agreed_at(parts_.world + rank, chunk);
}

Agreed AgreeingStreamCall::agreed(std::size_t owner, std::size_t chunk) const {
  Agreed result;
  if (tensor_bytes_ > 0) result.tensor = tensor_summary(parts_.rank);
  if (rounds_ > 0) result.chunk = agreed_at(owner, chunk);
  return result;
}

Status AgreeingStreamCall::summarise_tensor() {
  SummariseArgs args;
  args.values = parts_.send;
  args.count = scatters_only_ ? parts_.count * parts_.world : parts_.count;
  args.residual = parts_.residual;
  args.summary = tensor_summary(parts_.rank);
  const Stream stream = parts_.lane->stream();
  RINGPRESS_RETURN_IF_ERROR(parts_.codec->agreement()->summarise_tensor(stream, args));
  return hand_over(parts_.lane->events().encoded, stream, parts_.stream);
}

ncclResult_t AgreeingStreamCall::exchange_tensor_summaries() {
  return exchange_with_all(
      [&](std::size_t) {
        return Frame{tensor_summary(parts_.rank), tensor_bytes_};
      },
      [&](std::size_t from) {
        return Frame{tensor_summary(from), tensor_bytes_};
      });
}

Status AgreeingStreamCall::merge_tensor_summaries() {
  const Stream stream = parts_.lane->stream();
  RINGPRESS_RETURN_IF_ERROR(hand_over(parts_.lane->events().reduced, parts_.stream, stream));
  incoming_.clear();
  for (std::size_t rank = 0; rank < parts_.world; ++rank) {
    if (rank != parts_.rank) incoming_.push_back(tensor_summary(rank));
  }
  return parts_.codec->agreement()->merge_tensor(stream, incoming_, tensor_summary(parts_.rank));
}

Status AgreeingStreamCall::prepare_agreement(std::size_t stage, std::size_t chunk) {
  const auto round = static_cast<int>(stage / 2);
  return stage % 2 == 0 ? summarise(round, chunk) : merge(round, chunk);
}

ncclResult_t AgreeingStreamCall::exchange_agreement(std::size_t stage, std::size_t chunk) {
  const auto round = static_cast<int>(stage / 2);
  return stage % 2 == 0 ? send_to_owners(round, chunk) : send_to_everybody(round, chunk);
}

Status AgreeingStreamCall::summarise(int round, std::size_t chunk) {
  summaries_.clear();
  for (std::size_t owner = 0; owner < parts_.world; ++owner) {
    const Range range = chunk_of_shard(owner, chunk);
    if (range.count == 0) continue;
    SummariseArgs args;
    args.values = send_at(range.offset);
    args.count = range.count;
    args.residual = residual(range);
    args.agreed = agreed(owner, chunk);
    args.summary = summary_at(round, owner, chunk);
    summaries_.push_back(args);
  }
  if (summaries_.empty()) return Status::ok();
  return parts_.codec->agreement()->summarise(parts_.lane->stream(), round, summaries_);
}

Status AgreeingStreamCall::merge(int round, std::size_t chunk) {
  const Range own = chunk_of_shard(parts_.rank, chunk);
  if (own.count == 0) return Status::ok();
  incoming_.clear();
  for (std::size_t rank = 0; rank < parts_.world; ++rank) {
    if (rank != parts_.rank) incoming_.push_back(incoming_at(rank, chunk));
  }
  return parts_.codec->agreement()->merge(parts_.lane->stream(), round, own.count, incoming_,
                                          summary_at(round, parts_.rank, chunk));
}

ChunkedStreamCall::Frame AgreeingStreamCall::summary_frame(int round, std::byte* memory,
                                                           const Range& range) const {
  return {memory, range.count == 0 ? 0 : agreement_->round_bytes(round, range.count)};
}

ncclResult_t AgreeingStreamCall::send_to_owners(int round, std::size_t chunk) {
  const Range own = chunk_of_shard(parts_.rank, chunk);
  return exchange_with_all(
      [&](std::size_t to) {
        return summary_frame(round, summary_at(round, to, chunk), chunk_of_shard(to, chunk));
      },
      [&](std::size_t from) { return summary_frame(round, incoming_at(from, chunk), own); });
}

ncclResult_t AgreeingStreamCall::send_to_everybody(int round, std::size_t chunk) {
  const auto summary_of = [&](std::size_t owner) {
    return summary_frame(round, summary_at(round, owner, chunk), chunk_of_shard(owner, chunk));
  };
  return exchange_with_all([&](std::size_t) { return summary_of(parts_.rank); }, summary_of);
}

EncodeArgs AgreeingStreamCall::encode_arguments(std::size_t owner, std::size_t chunk,
                                                std::size_t summed, std::byte* wire) const {
  const Range range = chunk_of_shard(owner, chunk);
  EncodeArgs args;
  args.values = send_at(range.offset);
  args.count = range.count;
  args.residual = residual(range);
  args.wire = wire;
  args.random = random_key(range);
  args.form = {summed, parts_.world};
  args.agreed = agreed(owner, chunk);
  args.scales = scales(range);
  return args;
}

DecodeAddEncodeArgs AgreeingStreamCall::hop_arguments(std::size_t owner, std::size_t chunk,
                                                      std::size_t summed) const {
  const Range range = chunk_of_shard(owner, chunk);
  DecodeAddEncodeArgs args;
  args.own_position = 1;
  args.values = send_at(range.offset);
  args.count = range.count;
  args.random = random_key(range);
  args.form = {summed, parts_.world};
  args.agreed = agreed(owner, chunk);
  args.scales = scales(range);
  args.memory = call_memory();
  return args;
}

DecodeArgs AgreeingStreamCall::decode_arguments(std::size_t owner, std::size_t chunk,
                                                const std::byte* wire) const {
  const Range range = chunk_of_shard(owner, chunk);
  DecodeArgs args;
  args.wire = wire;
  args.count = range.count;
  args.values = receive_at(range.offset);
  args.wire_size = wire_bytes(range, parts_.world);
  args.divisor = divisor_of_decoded();
  args.form = {parts_.world, parts_.world};
  args.agreed = agreed(owner, chunk);
  args.scales = scales(range);
  return args;
}

}  // namespace ringpress::nccl_plugin::interposer
