#include "nccl_plugin/gossip/gossip.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nccl_plugin/errors/firewall.h"
#include "nccl_plugin/gossip/compare_options.h"
#include "nccl_plugin/gossip/text.h"
#include "ring/factory.h"

namespace ringpress::nccl_plugin::gossip {

/// What two workers that meet tell each other.
struct GossipHeader {
  std::uint64_t step = 0;
  std::uint32_t gossip = 0;  // Of those of their ranks, this one.
  std::uint16_t asks = 0;
  std::uint16_t is_finite = 1;
  std::uint64_t bad_element = 0;  // The first one, if not.
  double bad_value = 0;
};
static_assert(sizeof(GossipHeader) == Gossip::kHeaderBytes);

namespace {

/// In place of an element: there is no model,
constexpr std::uint64_t kNoModel = std::numeric_limits<std::uint64_t>::max();
/// or it could not be looked at.
constexpr std::uint64_t kFailed = kNoModel - 1;

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

/// Both that meet find the same.
Status compare(Peers& peers, int peer, const GossipHeader& own, const GossipHeader& theirs) {
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

}  // namespace

Gossip::Gossip(const GossipOptions& options, std::unique_ptr<Models> models)
    : options_(options), exchange_(options, std::move(models)), trigger_(options.rule) {}

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
  RINGPRESS_RETURN_IF_ERROR(made->exchange_.keep_base(peers, model));
  return made;
}

/// What one rank does by itself.
Status Gossip::begin(const void* model, int rank, OwnPart* own) {
  RINGPRESS_RETURN_IF_ERROR(exchange_.allocate());
  GossipHeader found;
  RINGPRESS_RETURN_IF_ERROR(look_for_non_finite(model, &found));
  if (found.is_finite != 0) return exchange_.keep_reference(model);
  own->is_not_finite = true;
  own->element = found.bad_element;
  own->value = found.bad_value;
  return {Code::kInvalidArgument, say_not_finite(rank, own->value, own->element)};
}

/// What the others hear, who wait for it whatever happens here.
Status Gossip::measure(const void* model, StepReport* report, GossipHeader* header) {
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

Status Gossip::measure_change(const void* model, double* change, GossipHeader* header) {
  RINGPRESS_RETURN_IF_ERROR(check_model(exchange_.models(), model, options_.dtype));
  RINGPRESS_ASSIGN_OR_RETURN(const compress_kernels::Change found, exchange_.measure_change(model));
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
Status Gossip::look_for_non_finite(const void* model, GossipHeader* header) const {
  RINGPRESS_RETURN_IF_ERROR(check_model(exchange_.models(), model, options_.dtype));
  RINGPRESS_ASSIGN_OR_RETURN(const compress_kernels::Change found, exchange_.look_at(model));
  if (found.first_non_finite == options_.count) return Status::ok();
  return note_non_finite(model, found.first_non_finite, header);
}

Status Gossip::note_non_finite(const void* model, std::size_t element, GossipHeader* header) const {
  header->is_finite = 0;
  header->bad_element = element;
  RINGPRESS_ASSIGN_OR_RETURN(header->bad_value, exchange_.value_at(model, element));
  return Status::ok();
}

Result<StepReport> Gossip::step(Peers& peers, void* model, Stream stream) {
  StepReport report;
  exchange_.models().use(stream);
  GossipHeader own;
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

Status Gossip::meet(Peers& peers, void* model, const GossipHeader& own, StepReport* report) {
  GossipHeader theirs;
  RINGPRESS_RETURN_IF_ERROR(peers.exchange(report->peer, bytes_of(own), bytes_of(&theirs)));
  report->sent_bytes = sizeof own;
  RINGPRESS_RETURN_IF_ERROR(compare(peers, report->peer, own, theirs));
  if (own.asks == 0 && theirs.asks == 0) return Status::ok();
  Exchanged exchanged;
  const Status status = exchange_.exchange(peers, report->peer, model, totals_.steps, &exchanged);
  report->is_partial = exchanged.is_partial;
  report->sent_bytes += exchanged.sent_bytes;
  RINGPRESS_RETURN_IF_ERROR(status);
  RINGPRESS_RETURN_IF_ERROR(exchange_.keep_reference(model));
  trigger_.note_exchange();
  report->has_exchanged = true;
  ++totals_.exchanges;
  return Status::ok();
}

Status Gossip::flush(Peers& peers, void* model, Stream stream) {
  exchange_.models().use(stream);
  GossipHeader own;
  const Status looked =
      catch_all([&] { return model == nullptr ? Status::ok() : look_for_non_finite(model, &own); });
  own.step = totals_.steps;
  own.gossip = number_;
  if (model == nullptr || !looked.is_ok()) {
    own.is_finite = 0;
    own.bad_element = model == nullptr ? kNoModel : kFailed;
  }
  std::vector<GossipHeader> all(static_cast<std::size_t>(peers.size()));
  RINGPRESS_RETURN_IF_ERROR(peers.gather(bytes_of(own), std::as_writable_bytes(std::span(all))));
  RINGPRESS_RETURN_IF_ERROR(looked);
  for (int rank = 0; rank < peers.size(); ++rank) {
    RINGPRESS_RETURN_IF_ERROR(compare(peers, rank, own, all[static_cast<std::size_t>(rank)]));
  }
  RINGPRESS_RETURN_IF_ERROR(exchange_.average(peers, model));
  RINGPRESS_RETURN_IF_ERROR(exchange_.keep_reference(model));
  trigger_.note_exchange();
  return Status::ok();
}

}  // namespace ringpress::nccl_plugin::gossip
