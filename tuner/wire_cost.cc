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

/// Encoded bytes that a rank sends, of all values, over those of the values: in the first half.
double reduced_ratio(const CodedCall& call) {
  const CodecSpeed& codec = call.codec;
  return call.algorithm.goes_round ? or_ratio(codec.partial_sum_ratio, codec) : codec.ratio;
}

/// The same in the second.
double gathered_ratio(const CodedCall& call) {
  const CodecSpeed& codec = call.codec;
  if (!call.halves.reduces) return or_ratio(codec.alone_ratio, codec);
  return or_ratio(call.algorithm.is_hierarchical ? codec.hosts_sum_ratio : codec.sum_ratio, codec);
}

/// Bytes that a rank sends to others, sends out of its host together with those of its host, and
/// sends within it.
struct Sent {
  double all = 0;
  double leaving = 0;
  double staying = 0;

  void add(const Load& load, double whole) {
    all += load.sent * whole;
    leaving += load.leaving * whole;
    staying += load.staying * whole;
  }
};

/// Of the class that waits longest for an answer.
const LinkSpeed& slowest_link(const CodedCall& call) {
  const bool is_one_host = call.shape.world == call.shape.ranks_per_host;
  return is_one_host ? call.links.inside : call.links.between;
}

/// Adds what ranks send each other before they encode: each to everybody.
void add_summaries(const CodedCall& call, Sent* sent, CallCost* cost) {
  // Values that are not summed are encoded with what is known of them alone.
  if (!call.halves.reduces) return;
  const AgreementCost& agreement = call.codec.agreement;
  const Load load = call.algorithm.is_hierarchical
                        ? algorithms::among_hosts(call.load_request(), algorithms::straight_to_all)
                        : algorithms::straight_to_all(call.load_request());
  // There and back.
  sent->add(load, 2 * agreement.ratio * call.bytes);
  cost->latency_seconds +=
      call.all_reduces * 2.0 * agreement.rounds * slowest_link(call).latency_seconds;
}

ExchangeShape exchange_of(const CodedCall& call) {
  return {static_cast<std::size_t>(call.bytes / call.all_reduces), call.algorithm.algorithm,
          call.shape.world, call.shape.ranks_per_host};
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
  const Links& links = call.links;
  Sent sent;
  double exact = 0;
  const auto add_half = [&](const Load& load, double ratio) {
    sent.add(load, ratio * call.bytes);
    exact += load.exact_inside * call.bytes;
    cost->latency_seconds += call.all_reduces * load.stages * slowest_link(call).latency_seconds +
                             load.inside_stages * links.inside.latency_seconds;
  };
  if (call.halves.reduces) {
    add_half(call.algorithm.reduce_load(call.load_request()), reduced_ratio(call));
  }
  if (call.halves.gathers) {
    add_half(call.algorithm.gather_load(call.load_request()), gathered_ratio(call));
  }
  add_summaries(call, &sent, cost);
  if (exact > 0) cost->inside_seconds = exact / links.inside.bytes_per_second;
  const double inside = sent.staying > 0 ? sent.staying / links.inside.bytes_per_second : 0;
  cost->wire_seconds = std::max(sent.leaving / links.between.bytes_per_second, inside);
  cost->wire_bytes += static_cast<std::size_t>(std::ceil(sent.all + exact));
}

void add_exchange(const CodedCall& call, CallCost* cost) {
  const bool compares = call.codec.projection.rounds > 0;
  const std::size_t bytes = compares ? kTagBytes : call.codec.agreement.tensor_bytes;
  if (bytes == 0 || !call.halves.reduces) return;
  cost->latency_seconds += slowest_link(call).latency_seconds;
  cost->wire_bytes += bytes * static_cast<std::size_t>(call.parts() - 1);
}

bool is_exchanged_whole(const CodedCall& call) {
  const bool is_exact = call.codec.ratio == 1 && !call.codec.requantises();
  if (!is_exact || call.halves.count() != 2 || !call.algorithm.exchanges_small_whole) return false;
  return whole_exchange_of(exchange_of(call)) != WholeExchange::kNone;
}

void add_whole(const CodedCall& call, CallCost* cost) {
  const CallShape& shape = call.shape;
  const Links& links = call.links;
  const int local = shape.ranks_per_host;
  const bool doubles = whole_exchange_of(exchange_of(call)) == WholeExchange::kDoubling;
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
  const int messages = doubles ? RecursiveDoubling(shape.world).messages() : shape.world - 1;
  cost->wire_bytes += static_cast<std::size_t>(std::ceil(messages * call.bytes));
  // The first addition of what comes together is a hop.
  const int hops = doubles ? messages : 1;
  const int further = messages - hops;
  cost->codec_seconds =
      cost_of(call.codec.hop, call.all_reduces * hops, hops * call.bytes) +
      cost_of(call.codec.further_part(), call.all_reduces * further, further * call.bytes);
}

}  // namespace ringpress::tuner
