// The formulas, for p ranks, g to a host, on h = p / g hosts, and a tensor of s bytes of which a
// codec leaves r s; where encoded values are summed as they are, more of what is summed, so r is
// that of one rank's values in a first half by sra, of partial sums in a ring's, and of the whole
// sum in a second half. An all-reduce has both halves, a reduce-scatter the first, an all-gather
// the second. What a half sends, waits for and gives the codec to do is in each algorithm's row of
// the table (ringpress/internal/algorithms.h).
//
// Small uncompressed all-reduces are exchanged whole instead, where the algorithm does so
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

/// The codec's work of one rank, in so many chunks.
double codec_seconds(const CodedCall& call, std::size_t chunks) {
  const CodecSpeed& codec = call.codec;
  const double starts = static_cast<double>(chunks) * call.all_reduces;
  const auto of = [&](const OperationCost& cost, double shards) {
    return cost_of(cost, starts * shards, call.bytes / call.shape.world * shards);
  };
  const auto work_of = [&](const Load& load) {
    return of(codec.encode, load.encoded) + of(codec.hop, load.hops) +
           of(codec.further_part(), load.added) + of(codec.decode, load.decoded);
  };
  double seconds = 0;
  if (call.halves.reduces) {
    seconds += of(codec.agreement.summarise, call.parts()) +
               work_of(call.algorithm.reduce_load(call.load_request()));
  }
  if (call.halves.gathers) seconds += work_of(call.algorithm.gather_load(call.load_request()));
  return seconds;
}

std::size_t most_chunks(const CallShape& shape, const CodecSpeed& codec) {
  const double bytes = codec.projection.bytes(static_cast<double>(shape.bytes));
  const auto shard = static_cast<std::size_t>(bytes / std::max(1, shape.world));
  return std::clamp<std::size_t>(shard / kSmallestChunkBytes, 1, kMostChunks);
}

bool has_hosts(const CallShape& shape) {
  return shape.ranks_per_host > 1 && shape.world > shape.ranks_per_host;
}

bool can_go_by(const AlgorithmTraits& algorithm, const CallShape& shape) {
  return (algorithm.has_halves || shape.kind == CollectiveKind::kAllReduce) &&
         (!algorithm.is_hierarchical || has_hosts(shape));
}

bool can_go_by(const AlgorithmTraits& algorithm, const CodecSpeed& codec) {
  return algorithm.takes_projections || codec.projection.rounds == 0;
}

Status check(const AlgorithmTraits& algorithm, const CallShape& shape, const CodecSpeed& codec) {
  if (!can_go_by(algorithm, shape)) {
    const char* const hosts = algorithm.is_hierarchical ? " among hosts of several ranks" : "";
    return {Code::kUnsupported, std::string(algorithm.name) + " is for all-reduces" + hosts};
  }
  if (codec.projection.rounds > 0 && shape.kind != CollectiveKind::kAllReduce) {
    return {Code::kUnsupported, codec.codec + " takes part in all-reduces only"};
  }
  if (can_go_by(algorithm, codec)) return Status::ok();
  return {Code::kUnsupported, codec.codec + " projects whole tensors, not parts of a host"};
}

}  // namespace

Result<CallCost> predict_call(const CallShape& shape, const Links& links, const CodecSpeed& codec,
                              const AlgorithmTraits& algorithm, std::size_t chunks) {
  RINGPRESS_RETURN_IF_ERROR(check(shape, links));
  RINGPRESS_ASSIGN_OR_RETURN(const Halves halves, halves_of(shape.kind));
  RINGPRESS_RETURN_IF_ERROR(check(algorithm, shape, codec));
  CallCost cost;
  cost.codec = codec.codec;
  cost.algorithm = algorithm.algorithm;
  cost.chunks = std::clamp<std::size_t>(chunks, 1, kMostChunks);
  cost.error = codec.error;
  if (shape.world == 1) return cost;
  const auto values = static_cast<double>(shape.bytes);
  const CodedCall call{shape,
                       links,
                       codec,
                       algorithm,
                       halves,
                       codec.projection.bytes(values),
                       std::max(1, codec.projection.rounds)};
  // Of what is encoded.
  const double looked_at = values * call.parts() / shape.world;
  const double look = halves.reduces ? cost_of(codec.look, 1, looked_at) : 0;
  add_exchange(call, &cost);
  if (is_exchanged_whole(call)) {
    add_whole(call, &cost);
    cost.chunks = 1;
    cost.codec_seconds += look;
    cost.seconds = cost.latency_seconds + cost.wire_seconds + cost.codec_seconds;
    return cost;
  }
  add_wire(call, &cost);
  const double overlapping = codec_seconds(call, cost.chunks);
  cost.codec_seconds = look + overlapping;
  const auto [less, more] = std::minmax(cost.wire_seconds, overlapping);
  cost.seconds = cost.latency_seconds + cost.inside_seconds + look + more +
                 less / static_cast<double>(cost.chunks);
  return cost;
}

Result<CallCost> predict_call(const CallShape& shape, const Links& links, const CodecSpeed& codec,
                              Algorithm algorithm, std::size_t chunks) {
  return predict_call(shape, links, codec, traits_of(algorithm), chunks);
}

Result<std::vector<CallCost>> rank_calls(const CallShape& shape, const Links& links,
                                         const std::vector<CodecSpeed>& codecs) {
  std::vector<CallCost> found;
  for (const CodecSpeed& codec : codecs) {
    const std::size_t most = most_chunks(shape, codec);
    for (const AlgorithmTraits& algorithm : kAlgorithms) {
      if (!can_go_by(algorithm, shape) || !can_go_by(algorithm, codec)) continue;
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
