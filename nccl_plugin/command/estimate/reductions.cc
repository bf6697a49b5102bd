#include "nccl_plugin/command/estimate/reductions.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "compress_kernels/factory.h"
#include "nccl_plugin/command/terminal/error.h"
#include "tuner/factory.h"

namespace ringpress::nccl_plugin::command {
namespace {

// Measured over predicted of 64 MB at door A, by two processes on one H200 whose links were slowed
// in software (perf/measured.md#on-a-gpu): up to 10 Gb/s the link is the limit; at 25 Gb/s q4 took
// 2.1 times as long as predicted, NCCL alone 1.1 times. Faster links were not measured.
constexpr Factors kSlowLink = {0.95, 1.1};
constexpr Factors kFastLink = {0.95, 2.2};
constexpr double kFastLinkRate = 1.5e9;
constexpr Factors kNcclAlone = {0.95, 1.15};
// Kernels on a GPU on which they were not measured may be so much quicker or slower.
constexpr double kPredictedKernels = 1.5;
// The same at door B with 2 and 4 ranks, each a host, over 1 and 10 Gb/s (perf/measured.md): 0.87
// to 1.12 with a core for the codec, as here.
constexpr Factors kPlugin = {0.8, 1.3};
constexpr double kPluginCores = 1;
// Of what the plugin gets from a GPU and gives back: PCI Express 3, 16 lanes.
constexpr double kStagingRate = 12e9;

/// What NCCL's kernels do overlaps with the wire.
CodecSpeed no_codec() {
  CodecSpeed none;
  none.codec = "none";
  return none;
}

template <typename T>
T value_or_throw(Result<T> result, const std::string& codec) {
  if (!result.is_ok()) throw terminal::Error(codec + ": " + result.status().message());
  return std::move(result).value();
}

/// By the algorithm that automatic mode takes: between hosts of several ranks hier, where it is for
/// such a codec.
const CallCost& by_usual_algorithm(const std::vector<CallCost>& calls) {
  const auto find = [&](Algorithm algorithm) {
    return std::find_if(calls.begin(), calls.end(),
                        [algorithm](const CallCost& call) { return call.algorithm == algorithm; });
  };
  const auto hier = find(Algorithm::kHier);
  return hier != calls.end() ? *hier : *find(Algorithm::kSra);
}

}  // namespace

const CodecSpeed& Reducer::measured(const std::string& codec) {
  const auto known = measured_.find(codec);
  if (known != measured_.end()) return known->second;
  CodecSpeed speed = value_or_throw(
      compress_kernels::measure_codec(
          codec, machines_.dtype,
          {machines_.ranks, std::max(1, machines_.hosts()), compress_kernels::ValuesIn::kMemory}),
      "--codecs " + codec);
  speed.codec = codec;
  return measured_.emplace(codec, std::move(speed)).first->second;
}

Rates Reducer::rates(Door door) const {
  if (door != Door::kPreloaded) return Rates::kMeasuredHere;
  return machines_.gpu->is_measured ? Rates::kMeasuredThere : Rates::kPredicted;
}

CodecSpeed Reducer::speed(Door door, const std::string& codec) {
  if (door != Door::kPreloaded) return measured(codec);
  return *speed_on(*machines_.gpu, measured(codec), machines_.dtype);
}

double Reducer::leaving(const CodecSpeed& codec, Algorithm algorithm, std::size_t bytes) const {
  Links links = machines_.links;
  links.inside.bytes_per_second = 1e30;  // So the wire's time is that of what leaves.
  const CallShape shape{bytes, machines_.ranks, machines_.per_host};
  return value_or_throw(tuner::predict_call(shape, links, codec, algorithm, 1), codec.codec)
             .wire_seconds *
         links.between.bytes_per_second;
}

Reduction Reducer::uncompressed(std::size_t bytes) {
  if (machines_.gpu == nullptr) return on_host(measured("none"), bytes);
  const CallShape shape{bytes, machines_.ranks, machines_.per_host};
  const CodecSpeed none = no_codec();
  const CallCost best =
      value_or_throw(tuner::rank_calls(shape, machines_.links, {none}), "none").front();
  return {best.algorithm, best.seconds, 0, leaving(none, best.algorithm, bytes), kNcclAlone};
}

std::optional<Reduction> Reducer::compressed(Door door, const std::string& codec,
                                             std::size_t bytes) {
  const CodecSpeed& here = measured(codec);
  if (door == Door::kHost) return on_host(here, bytes);
  if (door == Door::kPlugin) {
    // It gets pieces of tensors.
    if (here.projection.rounds > 0) return std::nullopt;
    return by_plugin(here, bytes);
  }
  const std::optional<CodecSpeed> there = speed_on(*machines_.gpu, here, machines_.dtype);
  if (!there) return std::nullopt;
  return by_kernels(*there, bytes);
}

Reduction Reducer::by_kernels(const CodecSpeed& codec, std::size_t bytes) {
  const CallShape shape{bytes, machines_.ranks, machines_.per_host};
  const std::vector<CallCost> calls =
      value_or_throw(tuner::rank_calls(shape, machines_.links, {codec}), codec.codec);
  const CallCost& call = by_usual_algorithm(calls);
  const bool is_fast = machines_.links.between.bytes_per_second > kFastLinkRate;
  Factors range = is_fast ? kFastLink : kSlowLink;
  if (!machines_.gpu->is_measured) {
    const double part = call.codec_seconds / call.seconds;
    range.least *= 1 - part * (1 - 1 / kPredictedKernels);
    range.most *= 1 + part * (kPredictedKernels - 1);
  }
  return {call.algorithm, call.seconds, call.codec_seconds, leaving(codec, call.algorithm, bytes),
          range};
}

/// NCCL sums within hosts, exactly, and one rank of each host hands the sum to the plugin.
Reduction Reducer::by_plugin(const CodecSpeed& codec, std::size_t bytes) {
  const CallShape between{bytes, machines_.hosts(), 1};
  const std::vector<CallCost> calls =
      value_or_throw(tuner::rank_calls(between, machines_.links, {codec}), codec.codec);
  const CallCost& call = by_usual_algorithm(calls);
  const BusySeconds busy = with_processors(call, codec, kPluginCores);
  const auto whole = static_cast<double>(bytes);
  const double local = machines_.per_host;
  const double inside = 2 * (local - 1) / local * whole / machines_.links.inside.bytes_per_second;
  const double staging = whole / kStagingRate;
  Reduction found;
  found.algorithm = call.algorithm;
  found.seconds = inside + std::max(busy.seconds, staging);
  found.codec_seconds = call.codec_seconds;
  found.leaving_bytes = static_cast<double>(call.wire_bytes);
  found.range = kPlugin;
  return found;
}

Reduction Reducer::on_host(const CodecSpeed& codec, std::size_t bytes) {
  const CallShape shape{bytes, machines_.ranks, machines_.per_host};
  std::vector<CallCost> calls =
      value_or_throw(tuner::rank_calls(shape, machines_.links, {codec}), codec.codec);
  // No mesh runs it.
  std::erase_if(calls, [](const CallCost& call) { return call.algorithm == Algorithm::kHier; });
  const CallCost& call =
      codec.error > 0 ? by_usual_algorithm(calls) : calls.front();  // A ring loses more.
  const BusySeconds busy = with_processors(call, codec, machines_.cores / machines_.per_host);
  return {call.algorithm, busy.seconds, call.codec_seconds, leaving(codec, call.algorithm, bytes),
          busy.range};
}

}  // namespace ringpress::nccl_plugin::command
