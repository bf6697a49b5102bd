#include "perf/step/speeds.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <vector>

#include "compress_kernels/factory.h"
#include "nccl_plugin/command/terminal/error.h"
#include "perf/step/link_fit.h"
#include "tuner/factory.h"

namespace ringpress::perf {
namespace {

// Calls whose bytes take next to no time, but of which every rank has a part.
constexpr std::size_t kSmallBytes[] = {64, 128, 256};
constexpr std::size_t kFirstLargeBytes = std::size_t{1} << 20;
constexpr std::size_t kMostLargeBytes = std::size_t{1} << 27;
constexpr double kLongEnoughSeconds = 0.1;
constexpr int kSmallCalls = 5;
constexpr int kLargeCalls = 3;
// Small and large calls in turn, so that what disturbs some calls of a kind does not disturb all.
constexpr int kRounds = 5;
constexpr int kSmallRounds = 4;  // Of each of these: what disturbs a small call is soon over.

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Of several calls in a row; that of the slowest rank.
double call_seconds(Group& group, std::size_t bytes, int calls) {
  using Clock = std::chrono::steady_clock;
  DeviceBuffer buffer(bytes);
  const DeviceStream stream;
  std::vector<double> seconds;
  group.barrier();
  for (int i = 0; i <= calls; ++i) {
    const Clock::time_point begin = Clock::now();
    require(ncclAllReduce(buffer.data(), buffer.data(), bytes / sizeof(float), ncclFloat32, ncclSum,
                          group.handle(), stream.handle()),
            "ncclAllReduce", group.handle());
    stream.synchronize();
    const double taken = std::chrono::duration<double>(Clock::now() - begin).count();
    if (i > 0) seconds.push_back(taken);  // The first one opens connections, and fills the link.
  }
  const std::vector<double> all = group.gather(std::vector<double>{median(seconds)});
  return *std::max_element(all.begin(), all.end());
}

/// So large that a call takes long enough to tell a rate.
std::size_t find_large_bytes(Group& group) {
  std::size_t bytes = kFirstLargeBytes;
  while (bytes < kMostLargeBytes && call_seconds(group, bytes, 1) < kLongEnoughSeconds) bytes *= 2;
  return bytes;
}

LinkSpeed measure_link(Group& group) {
  std::vector<std::size_t> bytes(std::begin(kSmallBytes), std::end(kSmallBytes));
  const std::size_t large = find_large_bytes(group);
  for (const std::size_t part : {4, 2, 1}) bytes.push_back(large / part);
  const double ranks = group.ranks();
  std::vector<SizeTimes> sizes;
  for (const std::size_t size : bytes) {
    sizes.push_back({2 * (ranks - 1) / ranks * static_cast<double>(size), {}});
  }
  const auto time_round = [&](std::size_t i, int calls) {
    sizes[i].round_seconds.push_back(std::max(1e-9, call_seconds(group, bytes[i], calls)));
  };
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < kSmallRounds * std::size(kSmallBytes); ++i) {
      time_round(i % std::size(kSmallBytes), kSmallCalls);
    }
    for (std::size_t i = std::size(kSmallBytes); i < bytes.size(); ++i) time_round(i, kLargeCalls);
  }
  const ExchangeSteps steps = tuner::exact_call_steps(sizeof(float), group.ranks(), 1);
  return fit_link(sizes, steps.between);
}

OperationCost slowest(Group& group, const OperationCost& cost) {
  const std::vector<double> all =
      group.gather(std::vector<double>{cost.start_seconds, cost.seconds_per_byte});
  OperationCost most;
  for (std::size_t i = 0; i < all.size(); i += 2) {
    most.start_seconds = std::max(most.start_seconds, all[i]);
    most.seconds_per_byte = std::max(most.seconds_per_byte, all[i + 1]);
  }
  return most;
}

CodecSpeed measure_slowest(Group& group, const std::string& codec) {
  group.barrier();
  // No cache keeps the tensors of a step until they are sent.
  Result<CodecSpeed> measured = compress_kernels::measure_codec(
      codec, DType::kFloat32, {group.ranks(), group.ranks(), compress_kernels::ValuesIn::kMemory});
  if (!measured.is_ok()) throw terminal::Error(codec + ": " + measured.status().message());
  CodecSpeed speed = std::move(measured).value();
  speed.encode = slowest(group, speed.encode);
  speed.decode = slowest(group, speed.decode);
  speed.hop = slowest(group, speed.hop);
  speed.look = slowest(group, speed.look);
  speed.agreement.summarise = slowest(group, speed.agreement.summarise);
  return speed;
}

}  // namespace

Speeds measure_speeds(Group& exact, const std::string& codec) {
  Speeds speeds;
  speeds.link = measure_link(exact);
  speeds.exact = measure_slowest(exact, "none");
  speeds.codec = measure_slowest(exact, codec);
  return speeds;
}

}  // namespace ringpress::perf
