#include "nccl_plugin/gossip/gossip.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nccl_plugin/errors/firewall.h"
#include "nccl_plugin/errors/warn_once.h"
#include "nccl_plugin/gossip/compare_options.h"
#include "nccl_plugin/gossip/text.h"
#include "ring/factory.h"

namespace ringpress::nccl_plugin::gossip {
namespace {

/// In place of an element: there is no model,
constexpr std::uint64_t kNoModel = std::numeric_limits<std::uint64_t>::max();
/// or it could not be looked at.
constexpr std::uint64_t kFailed = kNoModel - 1;
/// That a flush adds up at a time.
constexpr std::size_t kSummedElements = 256 * 1024;

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <typename T>
std::span<std::byte> bytes_of(T* value) {
  return std::as_writable_bytes(std::span(value, 1));
}

std::string say_not_finite(int rank, double value, std::uint64_t element) {
  if (element == kNoModel) return "rank " + std::to_string(rank) + " gave no model";
  if (element == kFailed) {
    return "rank " + std::to_string(rank) + " could not look at its model";
  }
  return "the model of rank " + std::to_string(rank) + " has " + text_of(value) + " at element " +
         std::to_string(element);
}

Status check_model(Models& models, const void* model, DType dtype) {
  if (reinterpret_cast<std::uintptr_t>(model) % dtype_size(dtype) != 0) {
    return {Code::kInvalidArgument,
            std::string("the model is not aligned to ") + dtype_name(dtype)};
  }
  return models.check_model(model);
}

}  // namespace

/// What two workers that meet tell each other.
struct Gossip::Header {
  std::uint64_t step = 0;
  std::uint32_t gossip = 0;  // Of those of their ranks, this one.
  std::uint16_t asks = 0;
  std::uint16_t is_finite = 1;
  std::uint64_t bad_element = 0;  // The first one, if not.
  double bad_value = 0;
};

Gossip::Gossip(const GossipOptions& options, std::unique_ptr<Models> models)
    : options_(options),
      models_(std::move(models)),
      is_identity_(models_->codec().traits().identity),
      trigger_(options.rule) {}

Result<std::unique_ptr<Gossip>> Gossip::make(Peers& peers, std::unique_ptr<Models> models,
                                             const Result<GossipOptions>& wanted, const void* model,
                                             Stream stream) {
  const GossipOptions options = wanted.is_ok() ? wanted.value() : GossipOptions();
  std::unique_ptr<Gossip> made;
  OwnPart own;
  own.status = catch_all([&]() -> Status {
    RINGPRESS_RETURN_IF_ERROR(wanted.is_ok() ? check(options) : wanted.status());
    models->use(stream);
    RINGPRESS_RETURN_IF_ERROR(check_model(*models, model, options.dtype));
    RINGPRESS_RETURN_IF_ERROR(models->prepare(options));
    made.reset(new Gossip(options, std::move(models)));
    return made->begin(model, peers.rank(), &own);
  });
  RINGPRESS_ASSIGN_OR_RETURN(const std::uint32_t number, compare_options(peers, options, own));
  made->number_ = number;
  RINGPRESS_RETURN_IF_ERROR(made->keep_base(peers, model));
  return made;
}

/// What one rank does by itself.
Status Gossip::begin(const void* model, int rank, OwnPart* own) {
  RINGPRESS_RETURN_IF_ERROR(allocate());
  Header found;
  RINGPRESS_RETURN_IF_ERROR(look_for_non_finite(model, &found));
  if (found.is_finite != 0) return keep_reference(model);
  own->is_not_finite = true;
  own->element = found.bad_element;
  own->value = found.bad_value;
  return {Code::kInvalidArgument, say_not_finite(rank, own->value, own->element)};
}

Status Gossip::allocate() {
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
ModelSpan Gossip::span_of(const void* model, std::size_t first) const {
  const auto* const values = static_cast<const std::byte*>(model);
  return {const_cast<std::byte*>(values) + first * dtype_size(options_.dtype),
          options_.count - first, options_.dtype};
}

Result<double> Gossip::value_at(const void* model, std::size_t element) const {
  float bits = 0;  // As aligned as any type.
  const ModelSpan span = span_of(model, element);
  RINGPRESS_RETURN_IF_ERROR(models_->read(&bits, span.values, dtype_size(options_.dtype)));
  float value = 0;
  const float zero = 0;
  compress_kernels::take_difference(&bits, &zero, 1, options_.dtype, &value);
  return static_cast<double>(value);
}

Status Gossip::keep_reference(const void* model) {
  return models_->copy(reference_.get(), model, options_.count * dtype_size(options_.dtype));
}

/// Rank 0's model.
Status Gossip::keep_base(Peers& peers, const void* model) {
  if (is_identity_) return Status::ok();
  RINGPRESS_RETURN_IF_ERROR(models_->take_difference(span_of(model), base(), base()));
  return peers.broadcast(base(), options_.count * sizeof(float));
}

/// What the others hear, who wait for it whatever happens here.
Status Gossip::measure(const void* model, StepReport* report, Header* header) {
  double change = 0;
  const Status measured = catch_all(
      [&] { return model == nullptr ? Status::ok() : measure_change(model, &change, header); });
  header->step = totals_.steps;
  header->gossip = number_;
  if (model == nullptr || !measured.is_ok()) {
    header->is_finite = 0;
    header->bad_element = model == nullptr ? kNoModel : kFailed;
  }
  const bool asks = trigger_.asks(change);  // The step counts in any case.
  if (header->is_finite == 0) return measured;
  report->change = change;
  header->asks = asks ? 1 : 0;
  return Status::ok();
}

Status Gossip::measure_change(const void* model, double* change, Header* header) {
  RINGPRESS_RETURN_IF_ERROR(check_model(*models_, model, options_.dtype));
  RINGPRESS_ASSIGN_OR_RETURN(const compress_kernels::Change found,
                             models_->measure_change(span_of(model), reference_.get()));
  if (found.first_non_finite < options_.count) {
    return note_non_finite(model, found.first_non_finite, header);
  }
  *change = found.difference_squares == 0
                ? 0
                : std::sqrt(found.difference_squares / found.reference_squares);
  // Squares have no end to what they may be: too much for one is a change.
  if (std::isnan(*change)) *change = std::numeric_limits<double>::infinity();
  return Status::ok();
}

/// Changes the header if there is one.
Status Gossip::look_for_non_finite(const void* model, Header* header) const {
  RINGPRESS_RETURN_IF_ERROR(check_model(*models_, model, options_.dtype));
  RINGPRESS_ASSIGN_OR_RETURN(const compress_kernels::Change found,
                             models_->measure_change(span_of(model), model));
  if (found.first_non_finite == options_.count) return Status::ok();
  return note_non_finite(model, found.first_non_finite, header);
}

Status Gossip::note_non_finite(const void* model, std::size_t element, Header* header) const {
  header->is_finite = 0;
  header->bad_element = element;
  RINGPRESS_ASSIGN_OR_RETURN(header->bad_value, value_at(model, element));
  return Status::ok();
}

/// Both that meet find the same.
Status Gossip::compare(Peers& peers, int peer, const Header& own, const Header& theirs) const {
  if (own.gossip != theirs.gossip) {
    return {Code::kMismatch, "rank " + std::to_string(peer) +
                                 " steps another gossip of this communicator: all make the same "
                                 "calls in the same order"};
  }
  if (own.step != theirs.step) {
    return {Code::kMismatch, "rank " + std::to_string(peer) + " is at step " +
                                 std::to_string(theirs.step) + ", rank " +
                                 std::to_string(peers.rank()) + " at " + std::to_string(own.step)};
  }
  for (const auto& [header, rank] : {std::pair(own, peers.rank()), std::pair(theirs, peer)}) {
    if (header.is_finite != 0) continue;
    return {Code::kInvalidArgument,
            say_not_finite(rank, header.bad_value, header.bad_element) + ": nothing is exchanged"};
  }
  return Status::ok();
}

Result<StepReport> Gossip::step(Peers& peers, void* model, Stream stream) {
  static_assert(sizeof(Header) == kHeaderBytes);
  StepReport report;
  models_->use(stream);
  Header own;
  const Status measured = measure(model, &report, &own);
  const std::uint64_t round = totals_.steps++;
  totals_.asked += own.asks;
  report.peer = ring::find_partner({options_.seed, round}, peers.size(), peers.rank());
  const Status met =
      report.peer < 0 ? compare(peers, peers.rank(), own, own) : meet(peers, model, own, &report);
  totals_.sent_bytes += report.sent_bytes;
  RINGPRESS_RETURN_IF_ERROR(measured);
  RINGPRESS_RETURN_IF_ERROR(met);
  return report;
}

Status Gossip::meet(Peers& peers, void* model, const Header& own, StepReport* report) {
  Header theirs;
  RINGPRESS_RETURN_IF_ERROR(peers.exchange(report->peer, bytes_of(own), bytes_of(&theirs)));
  report->sent_bytes = sizeof own;
  RINGPRESS_RETURN_IF_ERROR(compare(peers, report->peer, own, theirs));
  if (own.asks == 0 && theirs.asks == 0) return Status::ok();
  return exchange(peers, report->peer, model, report);
}

Status Gossip::exchange(Peers& peers, int peer, void* model, StepReport* report) {
  RINGPRESS_RETURN_IF_ERROR(is_identity_ ? exchange_values(peers, peer, model, report)
                                         : exchange_differences(peers, peer, model, report));
  RINGPRESS_RETURN_IF_ERROR(keep_reference(model));
  trigger_.note_exchange();
  report->has_exchanged = true;
  ++totals_.exchanges;
  return Status::ok();
}

Status Gossip::exchange_values(Peers& peers, int peer, void* model, StepReport* report) {
  for (std::size_t first = 0; first < options_.count; first += models_->chunk_elements()) {
    ModelSpan chunk = span_of(model, first);
    chunk.count = std::min(chunk.count, models_->chunk_elements());
    const std::size_t bytes = chunk.count * dtype_size(chunk.dtype);
    RINGPRESS_RETURN_IF_ERROR(
        peers.exchange_memory(peer, chunk.values, bytes, received_.get(), bytes));
    RINGPRESS_RETURN_IF_ERROR(models_->average(chunk, received_.get()));
    report->sent_bytes += bytes;
  }
  return Status::ok();
}

/// Both have decoded both: what one of them could not be, neither changes.
Status Gossip::exchange_differences(Peers& peers, int peer, void* model, StepReport* report) {
  for (std::size_t first = 0; first < options_.count; first += models_->chunk_elements()) {
    ModelSpan chunk = span_of(model, first);
    chunk.count = std::min(chunk.count, models_->chunk_elements());
    RINGPRESS_RETURN_IF_ERROR(exchange_chunk(peers, peer, chunk, first, report));
  }
  RINGPRESS_ASSIGN_OR_RETURN(report->is_partial, models_->has_lost());
  if (!report->is_partial) return Status::ok();
  warn_once("gossip: what models differ by is too much for " + options_.codec +
            " in places: such values stay as they are");
  return Status::ok();
}

Status Gossip::exchange_chunk(Peers& peers, int peer, const ModelSpan& chunk, std::size_t first,
                              StepReport* report) {
  auto* const own = reinterpret_cast<float*>(own_.get());
  auto* const theirs = reinterpret_cast<float*>(theirs_.get());
  RINGPRESS_RETURN_IF_ERROR(models_->take_difference(chunk, base() + first, own));
  EncodeArgs encode;
  encode.values = own;
  encode.count = chunk.count;
  encode.wire = sent_.get();
  encode.decoded = own;
  encode.random = {options_.seed, totals_.steps, static_cast<std::uint32_t>(peers.rank()), first};
  RINGPRESS_ASSIGN_OR_RETURN(const std::uint64_t bytes, models_->encode(encode));
  std::uint64_t their_bytes = bytes;
  if (!models_->codec().traits().fixed_size) {
    RINGPRESS_RETURN_IF_ERROR(peers.exchange(peer, bytes_of(bytes), bytes_of(&their_bytes)));
    report->sent_bytes += sizeof bytes;
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
  report->sent_bytes += bytes;
  return models_->add_half_difference(chunk, own, theirs);
}

Status Gossip::flush(Peers& peers, void* model, Stream stream) {
  models_->use(stream);
  Header own;
  const Status looked =
      catch_all([&] { return model == nullptr ? Status::ok() : look_for_non_finite(model, &own); });
  own.step = totals_.steps;
  own.gossip = number_;
  if (model == nullptr || !looked.is_ok()) {
    own.is_finite = 0;
    own.bad_element = model == nullptr ? kNoModel : kFailed;
  }
  std::vector<Header> all(static_cast<std::size_t>(peers.size()));
  RINGPRESS_RETURN_IF_ERROR(peers.gather(bytes_of(own), std::as_writable_bytes(std::span(all))));
  RINGPRESS_RETURN_IF_ERROR(looked);
  for (int rank = 0; rank < peers.size(); ++rank) {
    RINGPRESS_RETURN_IF_ERROR(compare(peers, rank, own, all[static_cast<std::size_t>(rank)]));
  }
  RINGPRESS_RETURN_IF_ERROR(average(peers, model));
  RINGPRESS_RETURN_IF_ERROR(move_base(model));
  RINGPRESS_RETURN_IF_ERROR(keep_reference(model));
  trigger_.note_exchange();
  return Status::ok();
}

/// Added up as doubles, of which no sum of floats is too large.
Status Gossip::average(Peers& peers, void* model) {
  auto* const sums = reinterpret_cast<double*>(sums_.get());
  for (std::size_t first = 0; first < options_.count; first += kSummedElements) {
    ModelSpan part = span_of(model, first);
    part.count = std::min(part.count, kSummedElements);
    RINGPRESS_RETURN_IF_ERROR(models_->widen(part, sums));
    RINGPRESS_RETURN_IF_ERROR(peers.sum(sums, part.count));
    RINGPRESS_RETURN_IF_ERROR(models_->take_mean(sums, peers.size(), part));
  }
  return Status::ok();
}

/// To the model that all have now: what they differ from it by is less than what they have learnt
/// since the base before, and a codec loses less of that.
Status Gossip::move_base(const void* model) {
  if (is_identity_) return Status::ok();
  auto* const wide = reinterpret_cast<double*>(sums_.get());
  for (std::size_t first = 0; first < options_.count; first += kSummedElements) {
    ModelSpan part = span_of(model, first);
    part.count = std::min(part.count, kSummedElements);
    RINGPRESS_RETURN_IF_ERROR(models_->widen(part, wide));
    const ModelSpan moved = {base() + first, part.count, DType::kFloat32};
    RINGPRESS_RETURN_IF_ERROR(models_->take_mean(wide, 1, moved));
  }
  return Status::ok();
}

}  // namespace ringpress::nccl_plugin::gossip
