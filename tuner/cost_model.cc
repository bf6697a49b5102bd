// The formulas, for p ranks and a tensor of s bytes of which a codec leaves r s. Each rank sends
// 2 (p - 1)/p r s, whatever the algorithm.
//
//   sra    encodes (p - 1)/p s for the others, adds up p - 1 parts of its own s/p and encodes the
//          sum, decodes (p - 1)/p s: two steps, so two latencies.
//   ring   its two sides work at a time: a shard's partial sums pass p/2 stages, and its result as
//          many. Each rank encodes the shards that begin with it (two, one with two ranks), and
//          does a hop for each of the others.
//
// In c chunks, codec and wire overlap but for the first chunk of the one that takes less: c times
// the starts of a codec's operations, 1/c of the lesser sum.
#include <algorithm>
#include <cmath>

#include "tuner/factory.h"

namespace ringpress::tuner {
namespace {

constexpr std::size_t kMostChunks = 64;
// Below, a frame's own cost is more than what overlaps.
constexpr std::size_t kSmallestChunkBytes = 64 * 1024;

Status check(const CallShape& shape, const LinkSpeed& link) {
  if (shape.world < 1) return {Code::kInvalidArgument, "there must be a rank at least"};
  if (!(link.bytes_per_second > 0) || !std::isfinite(link.bytes_per_second)) {
    return {Code::kInvalidArgument, "a link's rate must be a number above 0"};
  }
  if (!(link.latency_seconds >= 0) || !std::isfinite(link.latency_seconds)) {
    return {Code::kInvalidArgument, "a link's latency must be a number from 0 on"};
  }
  return Status::ok();
}

/// Seconds of an operation that is done `times` times on `bytes` in all.
double cost_of(const OperationCost& cost, double times, double bytes) {
  return times * cost.start_seconds + bytes * cost.seconds_per_byte;
}

double codec_seconds(const CodecSpeed& codec, Algorithm algorithm, double ranks, double bytes,
                     double chunks) {
  const double shard = bytes / ranks;
  const double others = ranks - 1;
  const double decode = cost_of(codec.decode, chunks * others, shard * others);
  if (algorithm == Algorithm::kRing) {
    const double first = std::min(2.0, others);
    return cost_of(codec.encode, chunks * first, shard * first) +
           cost_of(codec.hop, chunks * (ranks - first), shard * (ranks - first)) + decode;
  }
  // A hop of several parts decodes the others besides.
  return cost_of(codec.encode, chunks * others, shard * others) +
         cost_of(codec.hop, chunks, shard) +
         cost_of(codec.decode, chunks * (others - 1), shard * (others - 1)) + decode;
}

double latencies(Algorithm algorithm, int world) {
  return algorithm == Algorithm::kRing ? 2.0 * (world / 2) : 2.0;
}

}  // namespace

Result<CallCost> predict_call(const CallShape& shape, const LinkSpeed& link,
                              const CodecSpeed& codec, Algorithm algorithm, std::size_t chunks) {
  RINGPRESS_RETURN_IF_ERROR(check(shape, link));
  if (algorithm != Algorithm::kSra && algorithm != Algorithm::kRing) {
    return Status(Code::kUnsupported, "only sra and ring have a model");
  }
  CallCost cost;
  cost.codec = codec.codec;
  cost.algorithm = algorithm;
  cost.chunks = std::clamp<std::size_t>(chunks, 1, kMostChunks);
  cost.error = codec.error;
  if (shape.world == 1) return cost;
  const double ranks = shape.world;
  const auto bytes = static_cast<double>(shape.bytes);
  const double sent = 2 * (ranks - 1) / ranks * bytes * codec.ratio;
  cost.wire_bytes = static_cast<std::size_t>(std::ceil(sent));
  cost.latency_seconds = latencies(algorithm, shape.world) * link.latency_seconds;
  cost.wire_seconds = sent / link.bytes_per_second;
  const auto count = static_cast<double>(cost.chunks);
  cost.codec_seconds = codec_seconds(codec, algorithm, ranks, bytes, count);
  const auto [less, more] = std::minmax(cost.wire_seconds, cost.codec_seconds);
  cost.seconds = cost.latency_seconds + more + less / count;
  return cost;
}

Result<std::vector<CallCost>> rank_calls(const CallShape& shape, const LinkSpeed& link,
                                         const std::vector<CodecSpeed>& codecs) {
  const std::size_t shard = shape.bytes / static_cast<std::size_t>(std::max(1, shape.world));
  const std::size_t most = std::clamp<std::size_t>(shard / kSmallestChunkBytes, 1, kMostChunks);
  std::vector<CallCost> found;
  for (const CodecSpeed& codec : codecs) {
    for (const Algorithm algorithm : {Algorithm::kSra, Algorithm::kRing}) {
      CallCost best;
      for (std::size_t chunks = 1; chunks <= most; chunks *= 2) {
        RINGPRESS_ASSIGN_OR_RETURN(CallCost cost,
                                   predict_call(shape, link, codec, algorithm, chunks));
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
