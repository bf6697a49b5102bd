#include "tuner/wire_cost.h"

#include <algorithm>
#include <cmath>

#include "ringpress/internal/whole_exchange.h"
#include "tuner/factory.h"

namespace ringpress::tuner {
namespace {

// By which ranks compare what they keep for a projection.
constexpr std::size_t kTagBytes = 16;

double or_ratio(double given, const CodecSpeed& codec) {
  return given > 0 ? given : codec.ratio;
}

/// Encoded bytes of both halves over those of the values.
double encoded_share(const CodecSpeed& codec, const Halves& halves, Algorithm algorithm) {
  if (!halves.reduces) return or_ratio(codec.alone_ratio, codec);
  const bool is_ring = algorithm == Algorithm::kRing;
  const bool is_hier = algorithm == Algorithm::kHier;
  const double first = is_ring ? or_ratio(codec.partial_sum_ratio, codec) : codec.ratio;
  const double sum = is_hier ? codec.hosts_sum_ratio : codec.sum_ratio;
  return first + (halves.gathers ? or_ratio(sum, codec) : 0);
}

/// What ranks send each other before they encode.
struct Summaries {
  double bytes = 0;   // Of one rank's summaries of all its values, sent and got back.
  double stages = 0;  // Latencies.
};

Summaries summaries_of(const CodecSpeed& codec, const Halves& halves, double bytes) {
  // Values that are not summed are encoded with what is known of them alone.
  if (!halves.reduces) return {};
  const AgreementCost& agreement = codec.agreement;
  return {2 * agreement.ratio * bytes, 2.0 * agreement.rounds};
}

/// Bytes of `whole` that a rank sends to others, sends out of its host together with those of its
/// host, and sends within it, straight to everybody.
struct Sent {
  double all = 0;
  double leaving = 0;
  double staying = 0;
};

Sent straight_to_all(const CallShape& shape, double whole) {
  const double ranks = shape.world;
  const double local = shape.ranks_per_host;
  return {whole * (ranks - 1) / ranks, whole * local * (ranks - local) / ranks,
          whole * (local - 1) / ranks};
}

/// Of the class that waits longest for an answer.
const LinkSpeed& slowest_link(const CodedCall& call) {
  const bool is_one_host = call.shape.world == call.shape.ranks_per_host;
  return is_one_host ? call.links.inside : call.links.between;
}

ExchangeShape exchange_of(const CodedCall& call, Algorithm algorithm) {
  return {static_cast<std::size_t>(call.bytes / call.all_reduces), algorithm, call.shape.world,
          call.shape.ranks_per_host};
}

/// Each sends to all others, and waits for the slowest.
ExchangeSteps steps_at_once(int world, int ranks_per_host) {
  return {world > ranks_per_host ? 1 : 0, world > ranks_per_host ? 0 : 1};
}

}  // namespace

ExchangeSteps exact_call_steps(std::size_t bytes, int world, int ranks_per_host) {
  const ExchangeSteps once = steps_at_once(world, ranks_per_host);
  switch (whole_exchange_of({bytes, Algorithm::kSra, world, ranks_per_host})) {
    case WholeExchange::kNone:
      return {2 * once.between, 2 * once.inside};
    case WholeExchange::kAtOnce:
      return once;
    case WholeExchange::kDoubling:
      break;
  }
  return doubling_steps(world, ranks_per_host);
}

double leaving_bytes(std::size_t bytes, int world, int ranks_per_host) {
  const auto whole = static_cast<double>(bytes);
  const double local = ranks_per_host;
  switch (whole_exchange_of({bytes, Algorithm::kSra, world, ranks_per_host})) {
    case WholeExchange::kNone:
      return 2 * whole * local * (world - local) / world;
    case WholeExchange::kAtOnce:
      return whole * local * (world - local);
    case WholeExchange::kDoubling:
      break;
  }
  return whole * local * doubling_steps(world, ranks_per_host).between;
}

void add_wire(const CodedCall& call, CallCost* cost) {
  const CallShape& shape = call.shape;
  const Links& links = call.links;
  const double halves = call.halves.count();
  const double local = shape.ranks_per_host;
  const double hosts = shape.world / local;
  const double whole = call.bytes * encoded_share(call.codec, call.halves, cost->algorithm);
  const Summaries summaries = summaries_of(call.codec, call.halves, call.bytes);
  Sent told = straight_to_all(shape, summaries.bytes);
  Sent sent = straight_to_all(shape, whole);
  double stages = halves;
  switch (cost->algorithm) {
    case Algorithm::kRing:
      stages *= call.codec.requantises() && call.halves.reduces ? shape.world / 2 : shape.world - 1;
      sent.leaving = sent.all;
      sent.staying = local > 1 ? sent.all : 0.0;
      break;
    case Algorithm::kSra:
      break;
    case Algorithm::kHier: {
      const double exact = halves * (local - 1) / local * call.bytes;
      cost->inside_seconds = exact / links.inside.bytes_per_second;
      cost->latency_seconds += halves * links.inside.latency_seconds;
      const double leaving = whole * (hosts - 1) / hosts;
      sent = {leaving / local + exact, leaving, 0};
      const double told_outside = summaries.bytes * (hosts - 1) / hosts;
      told = {told_outside / local, told_outside, 0};
      break;
    }
  }
  sent.all += told.all;
  sent.leaving = hosts > 1 ? sent.leaving + told.leaving : 0;
  sent.staying += told.staying;
  cost->latency_seconds +=
      call.all_reduces * (stages + summaries.stages) * slowest_link(call).latency_seconds;
  const double inside = sent.staying > 0 ? sent.staying / links.inside.bytes_per_second : 0;
  cost->wire_seconds = std::max(sent.leaving / links.between.bytes_per_second, inside);
  cost->wire_bytes += static_cast<std::size_t>(std::ceil(sent.all));
}

void add_exchange(const CodedCall& call, Algorithm algorithm, CallCost* cost) {
  const bool compares = call.codec.projection.rounds > 0;
  const std::size_t bytes = compares ? kTagBytes : call.codec.agreement.tensor_bytes;
  if (bytes == 0 || !call.halves.reduces) return;
  cost->latency_seconds += slowest_link(call).latency_seconds;
  const int parties = algorithm == Algorithm::kHier ? call.shape.world / call.shape.ranks_per_host
                                                    : call.shape.world;
  cost->wire_bytes += bytes * static_cast<std::size_t>(parties - 1);
}

bool is_exchanged_whole(const CodedCall& call, Algorithm algorithm) {
  const bool is_exact = call.codec.ratio == 1 && !call.codec.requantises();
  if (!is_exact || call.halves.count() != 2 || algorithm == Algorithm::kHier) return false;
  return whole_exchange_of(exchange_of(call, algorithm)) != WholeExchange::kNone;
}

void add_whole(const CodedCall& call, CallCost* cost) {
  const CallShape& shape = call.shape;
  const Links& links = call.links;
  const int local = shape.ranks_per_host;
  const bool doubles =
      whole_exchange_of(exchange_of(call, cost->algorithm)) == WholeExchange::kDoubling;
  const ExchangeSteps steps =
      doubles ? doubling_steps(shape.world, local) : steps_at_once(shape.world, local);
  cost->latency_seconds += call.all_reduces * (steps.between * links.between.latency_seconds +
                                               steps.inside * links.inside.latency_seconds);
  // One step after the other, or all at once.
  const int leaving = doubles ? steps.between : shape.world - local;
  const int staying = doubles ? steps.inside : local - 1;
  const double between =
      leaving == 0 ? 0 : local * leaving * call.bytes / links.between.bytes_per_second;
  const double inside = staying == 0 ? 0 : staying * call.bytes / links.inside.bytes_per_second;
  cost->wire_seconds = doubles ? between + inside : std::max(between, inside);
  const int messages = doubles ? DoublingPlaces(shape.world).messages() : shape.world - 1;
  cost->wire_bytes += static_cast<std::size_t>(std::ceil(messages * call.bytes));
  // The first addition of what comes together is a hop.
  const int hops = doubles ? messages : 1;
  const int further = messages - hops;
  cost->codec_seconds =
      cost_of(call.codec.hop, call.all_reduces * hops, hops * call.bytes) +
      cost_of(call.codec.further_part(), call.all_reduces * further, further * call.bytes);
}

}  // namespace ringpress::tuner
