#include "nccl_plugin/command/estimate/estimate.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "compress_kernels/factory.h"
#include "nccl_plugin/command/doors.h"
#include "nccl_plugin/command/estimate/quantities.h"
#include "nccl_plugin/command/terminal/codec_list.h"
#include "nccl_plugin/command/terminal/error.h"
#include "nccl_plugin/command/terminal/hint.h"
#include "ringpress/internal/byte_size.h"

namespace ringpress::nccl_plugin::command {
namespace {

constexpr const char* kNoGpu = "none";
constexpr int kUsualPerHost = 8;
// Of forward, backward and optimizer: a backward pass has twice the operations of a forward one.
constexpr double kBackward = 2.0 / 3;
constexpr double kInsideLatency = 5e-6;
// Shared memory, as explain has it.
constexpr double kInsideRateOfHosts = 100e9 / 8;

const Gpu* gpu_of(const std::string& name) {
  if (name == kNoGpu) return nullptr;
  if (const Gpu* const gpu = find_gpu(name)) return gpu;
  std::string known;
  for (const std::string_view one : gpu_names()) known += std::string(one) + ", ";
  throw terminal::Error(
      fmt::format("--gpu {}: it is not in the table{}; there are {}and none, for "
                  "machines without a GPU",
                  name, terminal::hint_at(name, gpu_names()), known));
}

int per_host_of(const EstimateOptions& options) {
  if (options.gpus < 2) {
    throw terminal::Error(fmt::format("--gpus {}: there must be two at least", options.gpus));
  }
  if (options.per_host == 0) {
    return options.gpus % kUsualPerHost == 0 ? kUsualPerHost : options.gpus;
  }
  if (options.per_host < 1 || options.gpus % options.per_host != 0) {
    throw terminal::Error(fmt::format("--per-host {}: {} ranks are not so many to a host",
                                      options.per_host, options.gpus));
  }
  return options.per_host;
}

Machines machines_of(const EstimateOptions& options) {
  Machines machines;
  machines.ranks = options.gpus;
  machines.per_host = per_host_of(options);
  if (options.cores < 1) {
    throw terminal::Error(fmt::format("--cores {}: a host has one at least", options.cores));
  }
  machines.cores = options.cores;
  machines.gpu = gpu_of(options.gpu);
  machines.dtype = read_dtype("--dtype", options.dtype);
  const double inside = machines.gpu == nullptr ? kInsideRateOfHosts
                                                : 1e9 * machines.gpu->inside_gigabytes_per_second;
  machines.links.between = {read_time("--latency", options.latency),
                            read_rate("--net", options.net)};
  machines.links.inside = {kInsideLatency,
                           options.inside.empty() ? inside : read_rate("--inside", options.inside)};
  return machines;
}

/// `none` is always there.
std::vector<std::string> codecs_to_compare(const EstimateOptions& options) {
  std::vector<std::string> codecs = terminal::split_codecs("--codecs", options.codecs);
  for (const std::string& codec : codecs) {
    const Status known = compress_kernels::normalize_specification(codec).status();
    if (!known.is_ok()) throw terminal::Error("--codecs " + codec + ": " + known.message());
  }
  std::erase(codecs, "none");
  return codecs;
}

std::vector<Door> doors_of(const EstimateOptions& options, const Machines& machines) {
  const bool has_gpu = machines.gpu != nullptr;
  if (options.doors.empty()) {
    if (has_gpu) return {Door::kPreloaded, Door::kPlugin};
    return {Door::kHost};
  }
  std::vector<Door> doors;
  for (const std::string& text : terminal::split_codecs("--doors", options.doors)) {
    const std::optional<Door> door = parse_door(text);
    if (!door) throw terminal::Error("--doors " + text + ": there are A, B and C");
    if (has_gpu == (*door == Door::kHost)) {
      throw terminal::Error(
          fmt::format("--doors {}: door {} is for machines {} a GPU, and --gpu "
                      "is {}",
                      options.doors, door_name(*door), has_gpu ? "without" : "with", options.gpu));
    }
    doors.push_back(*door);
  }
  return doors;
}

Buckets buckets_of(const EstimateOptions& options, double gradient_bytes) {
  const auto bytes = parse_byte_size(options.bucket);
  constexpr std::size_t kLeast = 1024;
  if (!bytes || *bytes < kLeast) {
    throw terminal::Error(
        fmt::format("--bucket {}: expected a size of 1K or more, such as 25M", options.bucket));
  }
  return cut_into_buckets(gradient_bytes, *bytes);
}

/// Whole values.
std::size_t rounded(std::size_t bytes, DType dtype) {
  const std::size_t each = dtype_size(dtype);
  return std::max(each, bytes / each * each);
}

double compute_of(const EstimateOptions& options, const Buckets& buckets,
                  const BucketSeconds& exact) {
  const double given = options.step_ms / 1e3;
  if (!(given > 0) || !std::isfinite(given)) {
    throw terminal::Error(
        fmt::format("--step-ms {}: expected milliseconds above 0", options.step_ms));
  }
  if (!options.is_measured_step) return given;
  const double compute = compute_of_step(buckets, exact, given, kBackward);
  if (compute > 0) return compute;
  throw terminal::Error(fmt::format(
      "--step-ms {} with --measured-step: the all-reduces alone would take {:.0f} ms over {}; is "
      "that the network?",
      options.step_ms, 1e3 * time_step(buckets, exact, 0, kBackward).step, options.net));
}

/// What times are likely, as they are measured.
struct LikelySteps {
  double least = 0;
  double most = 0;
};

BucketSeconds scaled(const BucketSeconds& seconds, double factor) {
  return {factor * seconds.each, factor * seconds.last};
}

/// Kernels of codecs share the GPU with the backward pass, which may be that much longer.
LikelySteps likely_steps(const Estimate& estimate, const Reduction& reduction,
                         const BucketSeconds& seconds, bool is_on_gpu) {
  const Factors& range = reduction.range;
  const double kernels =
      is_on_gpu ? reduction.codec_seconds * static_cast<double>(estimate.buckets.count) : 0;
  const auto step = [&](double factor) {
    return time_step(estimate.buckets, scaled(seconds, factor), estimate.compute, kBackward).step;
  };
  return {step(range.least), step(range.most) + kernels};
}

class Estimator {
 public:
  explicit Estimator(const EstimateOptions& options)
      : options_(options), reducer_(machines_of(options)) {
    found_.machines = machines_of(options);
    found_.parameters = read_count("--params", options.params);
    found_.gradient_bytes =
        found_.parameters * static_cast<double>(dtype_size(found_.machines.dtype));
    found_.buckets = buckets_of(options, found_.gradient_bytes);
  }

  Estimate make() {
    add_uncompressed();
    for (const Door door : doors_of(options_, found_.machines)) {
      for (const std::string& codec : codecs_to_compare(options_)) add(door, codec);
    }
    return std::move(found_);
  }

 private:
  std::size_t whole_bucket() const {
    const Buckets& buckets = found_.buckets;
    return rounded(buckets.count == 1 ? buckets.last : buckets.bytes, found_.machines.dtype);
  }
  std::size_t last_bucket() const { return rounded(found_.buckets.last, found_.machines.dtype); }

  void fill(const Reduction& each, const Reduction& last, EstimateRow* row) const {
    row->bucket = each;
    row->leaving_bytes =
        static_cast<double>(found_.buckets.count - 1) * each.leaving_bytes + last.leaving_bytes;
    row->times = time_step(found_.buckets, {each.seconds, last.seconds}, found_.compute, kBackward);
  }

  void add_uncompressed() {
    const Reduction each = reducer_.uncompressed(whole_bucket());
    const Reduction last = reducer_.uncompressed(last_bucket());
    const BucketSeconds seconds{each.seconds, last.seconds};
    found_.compute = compute_of(options_, found_.buckets, seconds);
    EstimateRow row;
    row.codec = "none";
    fill(each, last, &row);
    exact_ = likely_steps(found_, each, seconds, false);
    found_.rows.push_back(row);
  }

  void add(Door door, const std::string& codec) {
    const auto each = reducer_.compressed(door, codec, whole_bucket());
    if (!each) {
      found_.notes.push_back(door == Door::kPlugin
                                 ? codec + " looks at whole tensors, and the plugin gets pieces"
                                 : "how quick kernels of " + codec +
                                       " are is not known: they were not measured");
      return;
    }
    const auto last = reducer_.compressed(door, codec, last_bucket());
    EstimateRow row;
    row.door = door;
    row.codec = codec;
    row.rates = reducer_.rates(door);
    fill(*each, *last, &row);
    const LikelySteps likely =
        likely_steps(found_, *each, {each->seconds, last->seconds}, door == Door::kPreloaded);
    row.speed_up = found_.rows[0].times.step / row.times.step;
    // A step that was measured is as it is.
    const double measured = options_.step_ms / 1e3;
    const bool is_known = options_.is_measured_step;
    row.least_speed_up = (is_known ? measured : exact_.least) / likely.most;
    row.most_speed_up = (is_known ? measured : exact_.most) / likely.least;
    found_.rows.push_back(row);
  }

  const EstimateOptions& options_;
  Reducer reducer_;
  Estimate found_;
  LikelySteps exact_;
};

}  // namespace

const EstimateRow& Estimate::best() const {
  return *std::max_element(
      rows.begin(), rows.end(),
      [](const EstimateRow& a, const EstimateRow& b) { return a.speed_up < b.speed_up; });
}

Estimate make_estimate(const EstimateOptions& options) {
  return Estimator(options).make();
}

std::string advice_on(const Estimate& estimate, const EstimateOptions& options) {
  // Less is less than steps differ by from one to the next.
  constexpr double kWorthWhile = 1.03;
  if (estimate.machines.hosts() == 1) {
    return "not worth it: all ranks are on one host, and calls within a host are left alone";
  }
  const EstimateRow& none = estimate.rows[0];
  const EstimateRow& best = estimate.best();
  const double exposed = none.times.exposed / none.times.step;
  if (exposed < kWorthWhile - 1) {
    return fmt::format(
        "not worth it: the network is hidden behind the backward pass at {}: {:.1f} % of the step "
        "waits for it",
        options.net, 100 * exposed);
  }
  if (best.speed_up < kWorthWhile) {
    return fmt::format(
        "not worth it: {:.0f} % of the step waits for the network, but what codecs take is as "
        "much as they save",
        100 * exposed);
  }
  const std::string what =
      fmt::format("{} at door {} makes steps {:.2f} times as fast ({:.2f} to {:.2f})", best.codec,
                  door_name(*best.door), best.speed_up, best.least_speed_up, best.most_speed_up);
  return best.least_speed_up >= kWorthWhile
             ? "worth it: " + what
             : "maybe worth it: " + what + "; measure a few steps with it and with --off";
}

}  // namespace ringpress::nccl_plugin::command
