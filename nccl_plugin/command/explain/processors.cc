#include "nccl_plugin/command/explain/processors.h"

#include <algorithm>

namespace ringpress::nccl_plugin::command {
namespace {

// Both as perf/results/explain-check.json shows them (2 and 4 ranks on two cores, 1 and 10 Gb/s):
// what the kernel takes to send and to receive a byte over TCP, and how much slower a codec is
// whose caches the kernel uses meanwhile.
constexpr double kKernelSecondsPerByte = 0.6e-9;
constexpr double kSlowerBesideKernel = 1.15;
// With these, what was measured over what is predicted, of 48 calls of 32 MB and 48 of 4 MB: where
// the link is the limit, where each rank has a core, and where ranks share one. 47 of the 48 of
// 32 MB are within 25 %.
constexpr Factors kLinkIsLimit = {0.85, 1.2};
constexpr Factors kCoreForEachRank = {0.9, 1.3};
constexpr Factors kSharedCores = {0.85, 1.45};
// The same of topk, randk and powersgd, which wait for memory too.
constexpr Factors kWholeTensors = {0.7, 2.1};

Factors factors_of(bool is_busy, bool looks_at_whole_tensors, double share) {
  if (!is_busy) return kLinkIsLimit;
  if (looks_at_whole_tensors) return kWholeTensors;
  return share < 1 ? kSharedCores : kCoreForEachRank;
}

}  // namespace

BusySeconds with_processors(const CallCost& call, const CodecSpeed& codec, double cores_per_rank) {
  const double share = std::min(1.0, cores_per_rank);
  const double kernel = kKernelSecondsPerByte * static_cast<double>(call.wire_bytes);
  const double encoding = kSlowerBesideKernel * call.codec_seconds;
  // A second core sends while the first one encodes.
  const double work =
      cores_per_rank >= 2 ? std::max(encoding, kernel) : (encoding + kernel) / share;
  const double waits = call.latency_seconds + call.inside_seconds;
  BusySeconds busy;
  busy.is_busy = waits + work > call.seconds;
  busy.seconds = std::max(call.seconds, waits + work);
  const bool is_whole = codec.look.seconds_per_byte > 0 || codec.projection.rounds > 0;
  busy.range = factors_of(busy.is_busy, is_whole, share);
  return busy;
}

}  // namespace ringpress::nccl_plugin::command
