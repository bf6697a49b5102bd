// Whole calls on host memory, priced by the cost model.
#include <algorithm>
#include <cmath>
#include <set>

#include "ringpress/internal/espresso.h"
#include "ringpress/internal/planner.h"
#include "tuner/factory.h"

namespace ringpress::espresso {
namespace {

// How collectives cut a shard (ring/collective/schedule.cc): into eight chunks, unless they are
// smaller or larger than this.
constexpr double kWantedChunks = 8;
constexpr double kSmallestWireBytes = 16 * 1024;
constexpr double kSmallestExactWireBytes = 32 * 1024;
constexpr double kLargestWireBytes = 128 * 1024;
constexpr double kLargestChunkBytes = 512 * 1024;

std::size_t chunks_of(double shard_bytes, const CodecSpeed& codec) {
  const double smallest =
      (codec.ratio < 1 ? kSmallestWireBytes : kSmallestExactWireBytes) / codec.ratio;
  const double largest = std::min(kLargestChunkBytes, kLargestWireBytes / codec.ratio);
  const double chunk =
      std::min(std::max(shard_bytes / kWantedChunks, smallest), std::max(largest, 1.0));
  return static_cast<std::size_t>(std::max(1.0, std::ceil(shard_bytes / chunk)));
}

Result<double> call_seconds(const CallShape& shape, const Links& links, const CodecSpeed& codec) {
  const double bytes = codec.projection.bytes(static_cast<double>(shape.bytes));
  const double shard = bytes / std::max(1, shape.world);
  RINGPRESS_ASSIGN_OR_RETURN(
      const CallCost cost,
      tuner::predict_call(shape, links, codec, Algorithm::kSra, chunks_of(shard, codec)));
  return cost.seconds;
}

/// Of all tensors together.
double ratio_of(const CodecSpeed& codec, const Job& job) {
  double sent = 0, whole = 0;
  for (const Tensor& tensor : job.tensors) {
    const auto bytes = static_cast<double>(tensor.bytes);
    sent += bytes * codec.sent_ratio(bytes);
    whole += bytes;
  }
  return whole > 0 ? std::min(1.0, sent / whole) : std::min(1.0, codec.ratio);
}

}  // namespace

Status price_calls(const CodecSpeed& exact, const CodecSpeed& codec, std::size_t minimum_bytes,
                   Job* job) {
  const Cluster& cluster = job->cluster;
  const Links links = {{cluster.between.latency_seconds, cluster.between.bytes_per_second},
                       {cluster.inside.latency_seconds, cluster.inside.bytes_per_second}};
  const auto world = static_cast<int>(cluster.machines * cluster.gpus_per_machine);
  std::set<std::size_t> sizes;
  for (const Tensor& tensor : job->tensors) sizes.insert(tensor.bytes);
  std::vector<CallSeconds> calls;
  for (const std::size_t bytes : sizes) {
    CallSeconds call;
    call.bytes = bytes;
    const CallShape shape{bytes, world, static_cast<int>(cluster.gpus_per_machine)};
    RINGPRESS_ASSIGN_OR_RETURN(call.exact, call_seconds(shape, links, exact));
    RINGPRESS_ASSIGN_OR_RETURN(call.compressed, call_seconds(shape, links, codec));
    if (is_too_small(bytes, minimum_bytes)) call.compressed = call.exact;
    calls.push_back(call);
  }
  job->calls = std::move(calls);
  for (Tensor& tensor : job->tensors) tensor.call.reset();
  job->compressor.name = codec.codec;
  job->compressor.ratio = ratio_of(codec, *job);
  job->compressor.gpu = {{codec.encode.start_seconds, codec.encode.seconds_per_byte},
                         {codec.decode.start_seconds, codec.decode.seconds_per_byte}};
  return Status::ok();
}

}  // namespace ringpress::espresso
