// The formulas, for p ranks, g to a host, on h = p / g hosts, and a tensor of s bytes of which a
// codec leaves r s. In each of its halves (an all-reduce has both, a reduce-scatter the first, an
// all-gather the second) a rank sends (p - 1)/p r s.
//
//   sra    Straight to everybody: (p - g)/p r s of it leave the host, whose link all g ranks share.
//          First half: encodes (p - 1)/p s for the others, decodes and adds up p - 1 parts of its
//          own s/p. Second: encodes s/p (in an all-reduce with the last addition, as a hop),
//          decodes (p - 1)/p s. A latency each.
//   ring   All of it to a neighbour; one rank's leaves the host. Its two sides work at a time: a
//          shard's partial sums pass p/2 stages, and its result as many. Each rank encodes the
//          shards that begin with it (two, one with two ranks), and does a hop for each of the
//          others.
//   hier   All-reduces: exact sums within the host, (g - 1)/g s in each half, and between hosts sra
//          of s/g among h ranks.
//
// Links inside and between work at a time. In c chunks, codec and wire overlap but for the first
// chunk of the one that takes less: c times the starts of a codec's operations, 1/c of the lesser
// sum. A codec that looks at the whole tensor first does so before anything is sent.
#include <algorithm>
#include <cmath>

#include "tuner/factory.h"

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

/// Which halves of an all-reduce a collective is.
struct Halves {
  bool reduces = true;
  bool gathers = true;

  double count() const { return (reduces ? 1 : 0) + (gathers ? 1 : 0); }
};

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

/// Seconds of an operation that is done `times` times on `bytes` in all.
double cost_of(const OperationCost& cost, double times, double bytes) {
  return times * cost.start_seconds + bytes * cost.seconds_per_byte;
}

/// The codec's work of one rank in so many halves, `bytes` among so many ranks.
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
    if (algorithm == Algorithm::kRing) {
      const double first = std::min(2.0, others);
      return of(codec.encode, first) + of(codec.hop, ranks - first);
    }
    // A hop of several parts decodes the others besides.
    return of(codec.encode, others) + of(codec.hop, 1) + of(codec.decode, others - 1);
  }
  /// A hop has encoded the own shard where there was a first half.
  double gathering(const CodecSpeed& codec) const {
    return of(codec.decode, ranks - 1) + (halves.reduces ? 0 : of(codec.encode, 1));
  }
};

/// What it costs whatever the codec's work, and how much of that overlaps with it.
void add_wire(const CallShape& shape, const Links& links, double ratio, const Halves& halves,
              CallCost* cost) {
  const double ranks = shape.world;
  const double local = shape.ranks_per_host;
  const double hosts = ranks / local;
  const auto bytes = static_cast<double>(shape.bytes);
  const double encoded = halves.count() * bytes * ratio;
  double sent = encoded * (ranks - 1) / ranks;
  double leaving = sent;                    // The host, of all its ranks.
  double staying = local > 1 ? sent : 0.0;  // Of each rank.
  double stages = halves.count();
  switch (cost->algorithm) {
    case Algorithm::kRing:
      stages *= shape.world / 2;
      break;
    case Algorithm::kSra:
      leaving = encoded * local * (ranks - local) / ranks;
      staying = encoded * (local - 1) / ranks;
      break;
    case Algorithm::kHier:
      leaving = encoded * (hosts - 1) / hosts;
      staying = 0;
      cost->inside_seconds =
          halves.count() * (local - 1) / local * bytes / links.inside.bytes_per_second;
      cost->latency_seconds += halves.count() * links.inside.latency_seconds;
      sent = leaving / local + halves.count() * (local - 1) / local * bytes;
      break;
  }
  if (hosts == 1) leaving = 0;
  const LinkSpeed& slowest = hosts > 1 ? links.between : links.inside;
  cost->latency_seconds += stages * slowest.latency_seconds;
  const double inside = staying > 0 ? staying / links.inside.bytes_per_second : 0;
  cost->wire_seconds = std::max(leaving / links.between.bytes_per_second, inside);
  cost->wire_bytes = static_cast<std::size_t>(std::ceil(sent));
}

bool has_hosts(const CallShape& shape) {
  return shape.ranks_per_host > 1 && shape.world > shape.ranks_per_host;
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
  CallCost cost;
  cost.codec = codec.codec;
  cost.algorithm = algorithm;
  cost.chunks = std::clamp<std::size_t>(chunks, 1, kMostChunks);
  cost.error = codec.error;
  if (shape.world == 1) return cost;
  add_wire(shape, links, codec.ratio, halves, &cost);
  const double local = is_hier ? shape.ranks_per_host : 1;
  const auto count = static_cast<double>(cost.chunks);
  const CodecWork work{halves, algorithm, shape.world / local,
                       static_cast<double>(shape.bytes) / local, count};
  const double overlapping = work.seconds(codec);
  const double look = cost_of(codec.look, 1, work.bytes);
  cost.codec_seconds = look + overlapping;
  const auto [less, more] = std::minmax(cost.wire_seconds, overlapping);
  cost.seconds = cost.latency_seconds + cost.inside_seconds + look + more + less / count;
  return cost;
}

Result<std::vector<CallCost>> rank_calls(const CallShape& shape, const Links& links,
                                         const std::vector<CodecSpeed>& codecs) {
  const std::size_t shard = shape.bytes / static_cast<std::size_t>(std::max(1, shape.world));
  const std::size_t most = std::clamp<std::size_t>(shard / kSmallestChunkBytes, 1, kMostChunks);
  std::vector<Algorithm> algorithms = {Algorithm::kSra, Algorithm::kRing};
  if (has_hosts(shape) && shape.kind == CollectiveKind::kAllReduce) {
    algorithms.push_back(Algorithm::kHier);
  }
  std::vector<CallCost> found;
  for (const CodecSpeed& codec : codecs) {
    for (const Algorithm algorithm : algorithms) {
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
