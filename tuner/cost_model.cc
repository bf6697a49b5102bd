// The formulas, for p ranks, g to a host, on h = p / g hosts, and a tensor of s bytes of which a
// codec leaves r s; where encoded values are summed as they are, more of what is summed, so r is
// that of one rank's values in a first half by sra, of partial sums in a ring's, and of the whole
// sum in a second half. In each of its halves (an all-reduce has both, a reduce-scatter the first,
// an all-gather the second) a rank sends (p - 1)/p r s.
//
//   sra    Straight to everybody: (p - g)/p r s of it leave the host, whose link all g ranks share.
//          First half: encodes (p - 1)/p s for the others, decodes and adds up p - 1 parts of its
//          own s/p. Second: encodes s/p (in an all-reduce with the last addition, as a hop),
//          decodes (p - 1)/p s. A latency each.
//   ring   All of it to a neighbour; one rank's leaves the host. In each half p - 1 stages. Each
//          rank encodes the shard that begins with it, and does a hop for each of the others.
//          Where an all-reduce or reduce-scatter encodes sums anew, which loses something, its two
//          sides work at a time: a shard's partial sums pass p/2 stages, and its result as many;
//          each rank encodes the shards that begin with it (two, one with two ranks), and adds up
//          two partial sums of its own.
//   hier   All-reduces: exact sums within the host, (g - 1)/g s in each half, and between hosts sra
//          of s/g among h ranks.
//
// Small uncompressed all-reduces, by sra or ring, are exchanged whole instead
// (ringpress/internal/whole_exchange.h): in log2 p steps and up to two more, some of them within
// hosts; or, among 2 and up to 16 ranks that are no power of two, each sends its tensor to all
// others at once.
//
// Links inside and between work at a time. In c chunks, codec and wire overlap but for the first
// chunk of the one that takes less: c times the starts of a codec's operations, 1/c of the lesser
// sum. What a codec does with the whole tensor overlaps with nothing.
//
// What ranks tell each other before they encode goes straight to everybody whatever the algorithm.
// Summaries of chunks, a s bytes in all: each rank makes those of all its values, sends
// (p - 1)/p a s to their owners, and gets as much back, a latency each a round. A summary of the
// whole tensor: p - 1 times its bytes, and a latency. A projection is all-reduced by the same
// formulas with the bytes that it has instead of s, its rounds one after the other, and a latency
// before them, in which ranks see that they have the same state.
#include <algorithm>
#include <cmath>

#include "tuner/factory.h"
#include "tuner/wire_cost.h"

namespace ringpress::tuner {
namespace {

constexpr std::size_t kMostChunks = 64;
// Below, a frame's own cost is more than what overlaps.
constexpr std::size_t kSmallestChunkBytes = 64 * 1024;
Status check(const LinkSpeed& link) {
  if (!(link.bytes_per_second > 0) || !std::isfinite(link.bytes_per_second)) {
    return {Code::kInvalidArgument, "a link's rate must be a number above 0"};
  }
  if (!(link.latency_seconds >= 0) || !std::isfinite(link.latency_seconds)) {
    return {Code::kInvalidArgument, "a link's latency must be a number from 0 on"};
  }
  return Status::ok();
}

Status check(const CallShape& shape, const Links& links) {
  if (shape.world < 1) return {Code::kInvalidArgument, "there must be a rank at least"};
  if (shape.ranks_per_host < 1 || shape.world % shape.ranks_per_host != 0) {
    return {Code::kInvalidArgument, std::to_string(shape.world) + " ranks are not " +
                                        std::to_string(shape.ranks_per_host) + " to a host"};
  }
  if (shape.ranks_per_host > 1) RINGPRESS_RETURN_IF_ERROR(check(links.inside));
  return check(links.between);
}

Result<Halves> halves_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return Halves{true, true};
    case CollectiveKind::kReduceScatter:
      return Halves{true, false};
    case CollectiveKind::kAllGather:
      return Halves{false, true};
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kReduce:
    case CollectiveKind::kSendRecv:
      break;
  }
  return Status(Code::kUnsupported, std::string(collective_name(kind)) + " has no model");
}

/// The codec's work of one rank in so many halves, `bytes` among so many ranks, cut into so many
/// chunks in all.
struct CodecWork {
  Halves halves;
  Algorithm algorithm = Algorithm::kSra;
  double ranks = 1;
  double bytes = 0;
  double chunks = 1;

  double seconds(const CodecSpeed& codec) const {
    return (halves.reduces ? reducing(codec) : 0) + (halves.gathers ? gathering(codec) : 0);
  }

 private:
  double of(const OperationCost& cost, double shards) const {
    return cost_of(cost, chunks * shards, bytes / ranks * shards);
  }
  double reducing(const CodecSpeed& codec) const {
    const double others = ranks - 1;
    const double summaries = of(codec.agreement.summarise, ranks);
    if (algorithm == Algorithm::kRing) {
      const double first = codec.requantises() ? std::min(2.0, others) : 1;
      return summaries + of(codec.encode, first) + of(codec.hop, ranks - first) +
             of(codec.further_part(), first - 1);
    }
    return summaries + of(codec.encode, others) + of(codec.hop, 1) +
           of(codec.further_part(), others - 1);
  }
  /// A hop has encoded the own shard where there was a first half.
  double gathering(const CodecSpeed& codec) const {
    return of(codec.decode, ranks - 1) + (halves.reduces ? 0 : of(codec.encode, 1));
  }
};

std::size_t most_chunks(const CallShape& shape, const CodecSpeed& codec) {
  const double bytes = codec.projection.bytes(static_cast<double>(shape.bytes));
  const auto shard = static_cast<std::size_t>(bytes / std::max(1, shape.world));
  return std::clamp<std::size_t>(shard / kSmallestChunkBytes, 1, kMostChunks);
}

bool has_hosts(const CallShape& shape) {
  return shape.ranks_per_host > 1 && shape.world > shape.ranks_per_host;
}

std::vector<Algorithm> algorithms_of(const CallShape& shape, const CodecSpeed& codec) {
  const bool can_be_hier =
      has_hosts(shape) && shape.kind == CollectiveKind::kAllReduce && codec.projection.rounds == 0;
  if (!can_be_hier) return {Algorithm::kSra, Algorithm::kRing};
  return {Algorithm::kSra, Algorithm::kRing, Algorithm::kHier};
}

}  // namespace

Result<CallCost> predict_call(const CallShape& shape, const Links& links, const CodecSpeed& codec,
                              Algorithm algorithm, std::size_t chunks) {
  RINGPRESS_RETURN_IF_ERROR(check(shape, links));
  RINGPRESS_ASSIGN_OR_RETURN(const Halves halves, halves_of(shape.kind));
  const bool is_hier = algorithm == Algorithm::kHier;
  if (is_hier && (!has_hosts(shape) || halves.count() != 2)) {
    return Status(Code::kUnsupported, "hier is for all-reduces among hosts of several ranks");
  }
  const int rounds = codec.projection.rounds;
  if (rounds > 0 && halves.count() != 2) {
    return Status(Code::kUnsupported, codec.codec + " takes part in all-reduces only");
  }
  if (rounds > 0 && is_hier) {
    return Status(Code::kUnsupported, codec.codec + " projects whole tensors, not parts of a host");
  }
  CallCost cost;
  cost.codec = codec.codec;
  cost.algorithm = algorithm;
  cost.chunks = std::clamp<std::size_t>(chunks, 1, kMostChunks);
  cost.error = codec.error;
  if (shape.world == 1) return cost;
  const auto values = static_cast<double>(shape.bytes);
  const CodedCall call{
      shape, links, codec, halves, codec.projection.bytes(values), std::max(1, rounds)};
  const double local = is_hier ? shape.ranks_per_host : 1;
  const double look = halves.reduces ? cost_of(codec.look, 1, values / local) : 0;
  add_exchange(call, algorithm, &cost);
  if (is_exchanged_whole(call, algorithm)) {
    add_whole(call, &cost);
    cost.chunks = 1;
    cost.codec_seconds += look;
    cost.seconds = cost.latency_seconds + cost.wire_seconds + cost.codec_seconds;
    return cost;
  }
  add_wire(call, &cost);
  const auto count = static_cast<double>(cost.chunks);
  const CodecWork work{halves, algorithm, shape.world / local, call.bytes / local,
                       count * call.all_reduces};
  const double overlapping = work.seconds(codec);
  cost.codec_seconds = look + overlapping;
  const auto [less, more] = std::minmax(cost.wire_seconds, overlapping);
  cost.seconds = cost.latency_seconds + cost.inside_seconds + look + more + less / count;
  return cost;
}

Result<std::vector<CallCost>> rank_calls(const CallShape& shape, const Links& links,
                                         const std::vector<CodecSpeed>& codecs) {
  std::vector<CallCost> found;
  for (const CodecSpeed& codec : codecs) {
    const std::size_t most = most_chunks(shape, codec);
    for (const Algorithm algorithm : algorithms_of(shape, codec)) {
      CallCost best;
      for (std::size_t chunks = 1; chunks <= most; chunks *= 2) {
        RINGPRESS_ASSIGN_OR_RETURN(CallCost cost,
                                   predict_call(shape, links, codec, algorithm, chunks));
        if (chunks == 1 || cost.seconds < best.seconds) best = std::move(cost);
      }
      found.push_back(std::move(best));
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const CallCost& a, const CallCost& b) { return a.seconds < b.seconds; });
  return found;
}

}  // namespace ringpress::tuner
