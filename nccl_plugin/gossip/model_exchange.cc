#include "nccl_plugin/gossip/model_exchange.h"

#include <algorithm>
#include <string>
#include <utility>

#include "nccl_plugin/errors/warn_once.h"

namespace ringpress::nccl_plugin::gossip {
namespace {

// That a mean of all adds up at a time.
constexpr std::size_t kSummedElements = 256 * 1024;

}  // namespace

ModelExchange::ModelExchange(const GossipOptions& options, std::unique_ptr<Models> models)
    : options_(options),
      models_(std::move(models)),
      is_identity_(models_->codec().traits().identity) {}

Status ModelExchange::allocate() {
  const std::size_t size = dtype_size(options_.dtype);
  const std::size_t chunk = std::min(options_.count, models_->chunk_elements());
  RINGPRESS_ASSIGN_OR_RETURN(reference_, models_->allocate(options_.count * size));
  const std::size_t wire = is_identity_ ? chunk * size : models_->codec().wire_bytes(chunk);
  RINGPRESS_ASSIGN_OR_RETURN(received_, models_->allocate(wire));
  const std::size_t summed = std::min(options_.count, kSummedElements);
  RINGPRESS_ASSIGN_OR_RETURN(sums_, models_->allocate(summed * sizeof(double)));
  if (is_identity_) return Status::ok();
  RINGPRESS_ASSIGN_OR_RETURN(base_, models_->allocate(options_.count * sizeof(float)));
  RINGPRESS_ASSIGN_OR_RETURN(own_, models_->allocate(chunk * sizeof(float)));
  RINGPRESS_ASSIGN_OR_RETURN(theirs_, models_->allocate(chunk * sizeof(float)));
  RINGPRESS_ASSIGN_OR_RETURN(sent_, models_->allocate(wire));
  return Status::ok();
}

/// Elements from `first` on. What reads it does not write it.
ModelSpan ModelExchange::span_of(const void* model, std::size_t first) const {
  const auto* const values = static_cast<const std::byte*>(model);
  return {const_cast<std::byte*>(values) + first * dtype_size(options_.dtype),
          options_.count - first, options_.dtype};
}

ModelSpan ModelExchange::part_of(const void* model, std::size_t first, std::size_t most) const {
  ModelSpan part = span_of(model, first);
  part.count = std::min(part.count, most);
  return part;
}

Result<double> ModelExchange::value_at(const void* model, std::size_t element) const {
  float bits = 0;  // As aligned as any type.
  const ModelSpan span = span_of(model, element);
  RINGPRESS_RETURN_IF_ERROR(models_->read(&bits, span.values, dtype_size(options_.dtype)));
  float value = 0;
  const float zero = 0;
  compress_kernels::take_difference(&bits, &zero, 1, options_.dtype, &value);
  return static_cast<double>(value);
}

Status ModelExchange::keep_reference(const void* model) {
  return models_->copy(reference_.get(), model, options_.count * dtype_size(options_.dtype));
}

Status ModelExchange::keep_base(Peers& peers, const void* model) {
  if (is_identity_) return Status::ok();
  RINGPRESS_RETURN_IF_ERROR(models_->take_difference(span_of(model), base(), base()));
  return peers.broadcast(base(), options_.count * sizeof(float));
}

/// Both have decoded both: what one of them could not be, neither changes.
Status ModelExchange::exchange(Peers& peers, int peer, void* model, std::uint64_t step,
                               Exchanged* exchanged) {
  for (std::size_t first = 0; first < options_.count; first += models_->chunk_elements()) {
    const ModelSpan chunk = part_of(model, first, models_->chunk_elements());
    const RandomKey random = {options_.seed, step, static_cast<std::uint32_t>(peers.rank()), first};
    RINGPRESS_RETURN_IF_ERROR(is_identity_
                                  ? exchange_values(peers, peer, chunk, exchanged)
                                  : exchange_differences(peers, peer, chunk, random, exchanged));
  }
  if (is_identity_) return Status::ok();
  RINGPRESS_ASSIGN_OR_RETURN(exchanged->is_partial, models_->has_lost());
  if (!exchanged->is_partial) return Status::ok();
  warn_once("gossip: what models differ by is too much for " + options_.codec +
            " in places: such values stay as they are");
  return Status::ok();
}

Status ModelExchange::exchange_values(Peers& peers, int peer, const ModelSpan& chunk,
                                      Exchanged* exchanged) {
  const std::size_t bytes = chunk.count * dtype_size(chunk.dtype);
  RINGPRESS_RETURN_IF_ERROR(
      peers.exchange_memory(peer, chunk.values, bytes, received_.get(), bytes));
  RINGPRESS_RETURN_IF_ERROR(models_->average(chunk, received_.get()));
  exchanged->sent_bytes += bytes;
  return Status::ok();
}

Status ModelExchange::exchange_differences(Peers& peers, int peer, const ModelSpan& chunk,
                                           const RandomKey& random, Exchanged* exchanged) {
  auto* const own = reinterpret_cast<float*>(own_.get());
  auto* const theirs = reinterpret_cast<float*>(theirs_.get());
  RINGPRESS_RETURN_IF_ERROR(models_->take_difference(chunk, base() + random.first_element, own));
  EncodeArgs encode;
  encode.values = own;
  encode.count = chunk.count;
  encode.wire = sent_.get();
  encode.decoded = own;
  encode.random = random;
  RINGPRESS_ASSIGN_OR_RETURN(const std::uint64_t bytes, models_->encode(encode));
  std::uint64_t their_bytes = bytes;
  if (!models_->codec().traits().fixed_size) {
    RINGPRESS_RETURN_IF_ERROR(peers.exchange(peer, bytes_of(bytes), bytes_of(&their_bytes)));
    exchanged->sent_bytes += sizeof bytes;
    if (their_bytes > models_->codec().wire_bytes(chunk.count)) {
      return {Code::kMismatch, "rank " + std::to_string(peer) + " wants to send " +
                                   std::to_string(their_bytes) + " bytes of a chunk"};
    }
  }
  RINGPRESS_RETURN_IF_ERROR(
      peers.exchange_memory(peer, sent_.get(), bytes, received_.get(), their_bytes));
  DecodeArgs decode;
  decode.wire = received_.get();
  decode.wire_size = their_bytes;
  decode.count = chunk.count;
  decode.values = theirs;
  RINGPRESS_RETURN_IF_ERROR(models_->decode(decode));
  exchanged->sent_bytes += bytes;
  return models_->add_half_difference(chunk, own, theirs);
}

/// Added up as doubles, of which no sum of floats is too large.
Status ModelExchange::average(Peers& peers, void* model) {
  auto* const sums = reinterpret_cast<double*>(sums_.get());
  for (std::size_t first = 0; first < options_.count; first += kSummedElements) {
    const ModelSpan part = part_of(model, first, kSummedElements);
    RINGPRESS_RETURN_IF_ERROR(models_->widen(part, sums));
    RINGPRESS_RETURN_IF_ERROR(peers.sum(sums, part.count));
    RINGPRESS_RETURN_IF_ERROR(models_->take_mean(sums, peers.size(), part));
  }
  return move_base(model);
}

/// To the model that all have now: what they differ from it by is less than what they have learnt
/// since the base before, and a codec loses less of that.
Status ModelExchange::move_base(const void* model) {
  if (is_identity_) return Status::ok();
  auto* const wide = reinterpret_cast<double*>(sums_.get());
  for (std::size_t first = 0; first < options_.count; first += kSummedElements) {
    const ModelSpan part = part_of(model, first, kSummedElements);
    RINGPRESS_RETURN_IF_ERROR(models_->widen(part, wide));
    const ModelSpan moved = {base() + first, part.count, DType::kFloat32};
    RINGPRESS_RETURN_IF_ERROR(models_->take_mean(wide, 1, moved));
  }
  return Status::ok();
}

}  // namespace ringpress::nccl_plugin::gossip
