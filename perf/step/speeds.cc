#include "perf/step/speeds.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "compress_kernels/factory.h"
#include "perf/all_reduce/error.h"

namespace ringpress::perf {
namespace {

constexpr std::size_t kSmallBytes = 1024;
constexpr std::size_t kFirstLargeBytes = std::size_t{1} << 20;
constexpr std::size_t kMostLargeBytes = std::size_t{1} << 27;
constexpr double kLongEnoughSeconds = 0.1;
constexpr int kSmallCalls = 41;
constexpr int kLargeCalls = 5;

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

LinkSpeed measure_link(Group& group) {
  const double small = call_seconds(group, kSmallBytes, kSmallCalls);
  std::size_t bytes = kFirstLargeBytes;
  double large = call_seconds(group, bytes, kLargeCalls);
  while (large < kLongEnoughSeconds && bytes < kMostLargeBytes) {
    bytes *= 2;
    large = call_seconds(group, bytes, kLargeCalls);
  }
  const double ranks = group.ranks();
  const double sent = 2 * (ranks - 1) / ranks * static_cast<double>(bytes);
  return {small / 2, sent / std::max(1e-9, large - small)};
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
  Result<CodecSpeed> measured = compress_kernels::measure_codec(codec, DType::kFloat32);
  if (!measured.is_ok()) throw PerfError(codec + ": " + measured.status().message());
  CodecSpeed speed = std::move(measured).value();
  speed.encode = slowest(group, speed.encode);
  speed.decode = slowest(group, speed.decode);
  speed.hop = slowest(group, speed.hop);
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
