#include "nccl_plugin/session/tuning/calibration.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "compress_kernels/factory.h"
#include "tuner/factory.h"

namespace ringpress::nccl_plugin::tuning {
namespace {

// What automatic mode chooses from, besides the budget's codec.
constexpr const char* kCandidates[] = {"bf16", "q8", "q4", "q3", "q2"};
constexpr std::size_t kLatencyCalls = 15;
constexpr std::size_t kFewCalls = 3;
constexpr double kLongLatencyCall = 2e-3;     // Of such, in seconds, kFewCalls are enough.
constexpr std::size_t kFirstRateCount = 512;  // Floats.
// Twice as many are sent each time, until they take so many seconds, and never more than these:
constexpr std::size_t kLastRateCount = 256 * 1024;
// What is more than that is sent in several calls. What TCP keeps of larger ones would make later
// calls of some ten kilobytes take longer, which are to be compared.
constexpr std::size_t kMostCountOfCall = 64 * 1024;
constexpr double kLongRound = 10e-3;
// Of such, one is enough. If others went before, they were a burst that the link lets pass, or this
// one was held up by something else: another one tells.
constexpr double kVeryLongRound = 30e-3;
// A link that was said to be so much better or worse is measured anew.
constexpr double kDrift = 1.5;

/// A call that is timed, and of so many bytes the latencies that it takes and what it puts on the
/// link.
struct Probe {
  std::function<Status(std::span<float>)> call;
  std::function<double(std::size_t bytes)> latencies;
  std::function<double(std::size_t bytes)> sent_bytes;
};

/// All ranks' sums: what leaves a host, as the cost model has it.
Probe sums(Peers& peers, int ranks_per_host) {
  const int ranks = peers.size();
  // What is waited for inside hosts is no matter beside what is between them.
  const auto latencies = [ranks, ranks_per_host](std::size_t bytes) {
    const ExchangeSteps steps = tuner::exact_call_steps(bytes, ranks, ranks_per_host);
    return static_cast<double>(std::max(1, steps.between > 0 ? steps.between : steps.inside));
  };
  return {[&peers](std::span<float> values) { return peers.sum(values); }, latencies,
          [ranks, ranks_per_host](std::size_t bytes) {
            return tuner::leaving_bytes(bytes, ranks, ranks_per_host);
          }};
}

/// With whom this rank swaps on its host, two and two of them by rank; -1: it is left over.
int find_neighbour(const Peers& peers) {
  int before = 0;
  for (int peer = 0; peer < peers.rank(); ++peer) before += peers.is_local(peer) ? 1 : 0;
  const int step = before % 2 == 0 ? 1 : -1;
  for (int peer = peers.rank() + step; peer >= 0 && peer < peers.size(); peer += step) {
    if (peers.is_local(peer)) return peer;
  }
  return -1;
}

/// All ranks' swaps with their neighbours.
Probe swaps(Peers& peers) {
  return {[&peers, neighbour = find_neighbour(peers),
           received = std::vector<float>()](std::span<float> values) mutable {
            received.resize(values.size());
            return peers.swap(neighbour, values, received);
          },
          [](std::size_t) { return 1.0; },
          [](std::size_t bytes) { return static_cast<double>(bytes); }};
}

/// Calls that are timed together: what a link lets pass at once helps the first of them alone.
struct Round {
  std::size_t count = 0;  // Of each call's floats.
  std::size_t calls = 1;
};

Round split_into_calls(std::size_t count) {
  const std::size_t most = std::min(count, kMostCountOfCall);
  return {most, count / most};
}

/// On the rank where it takes longest. The same on all ranks.
Result<double> time_calls(Peers& peers, const Probe& probe, std::span<float> values,
                          std::size_t calls) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  for (std::size_t i = 0; i < calls; ++i) RINGPRESS_RETURN_IF_ERROR(probe.call(values));
  double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  RINGPRESS_RETURN_IF_ERROR(peers.max({&seconds, 1}));
  return seconds;
}

/// Of empty calls the quickest: other programs only ever make them slower.
Result<double> time_latency(Peers& peers, const Probe& probe) {
  float value = 0;
  RINGPRESS_RETURN_IF_ERROR(time_calls(peers, probe, {&value, 1}, 1).status());  // Connects.
  RINGPRESS_RETURN_IF_ERROR(time_calls(peers, probe, {&value, 1}, 1).status());
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < (best < kLongLatencyCall ? kLatencyCalls : kFewCalls); ++i) {
    RINGPRESS_ASSIGN_OR_RETURN(const double seconds, time_calls(peers, probe, {&value, 1}, 1));
    best = std::min(best, seconds);
  }
  return best;
}

/// Of rounds of a size the quickest; of those that a burst may have helped, the one in the middle,
/// or the second of two very long ones: the burst may have ended in the first.
Result<double> time_size(Peers& peers, const Probe& probe, const Round& round) {
  std::vector<float> values(round.count);
  std::vector<double> times;
  std::size_t very_long = 0;
  while (times.size() < kFewCalls + very_long) {
    RINGPRESS_ASSIGN_OR_RETURN(const double seconds, time_calls(peers, probe, values, round.calls));
    times.push_back(seconds);
    if (seconds <= kVeryLongRound) continue;
    ++very_long;
    if (times.size() == 1 || very_long == 2) return seconds;
  }
  std::sort(times.begin(), times.end());
  return times[0] < kLongRound ? times[0] : times[times.size() / 2];
}

/// In bytes a second. `latency`, as empty calls show it, becomes less if calls with values take
/// less: something else held the empty ones up.
Result<double> measure_rate(Peers& peers, const Probe& probe, double* latency) {
  double rate = 0;
  for (std::size_t count = kFirstRateCount; count <= kLastRateCount; count *= 2) {
    const Round round = split_into_calls(count);
    const std::size_t bytes = round.count * sizeof(float);
    const double latencies = probe.latencies(bytes) * static_cast<double>(round.calls);
    RINGPRESS_ASSIGN_OR_RETURN(const double seconds, time_size(peers, probe, round));
    *latency = std::min(*latency, seconds / latencies);
    // Of calls that took no longer than empty ones, nothing would be left.
    const double moving = std::max(seconds - *latency * latencies, seconds / 10);
    rate = probe.sent_bytes(bytes) * static_cast<double>(round.calls) / moving;
    if (seconds >= kLongRound) break;
  }
  return rate;
}

Result<LinkSpeed> measure_link(Peers& peers, const Probe& probe) {
  LinkSpeed link;
  RINGPRESS_ASSIGN_OR_RETURN(const double smallest, time_latency(peers, probe));
  link.latency_seconds = smallest / probe.latencies(sizeof(float));
  RINGPRESS_ASSIGN_OR_RETURN(link.bytes_per_second,
                             measure_rate(peers, probe, &link.latency_seconds));
  return link;
}

/// Whether the link is about as quick as is said of it.
Result<bool> is_as_said(Peers& peers, const Probe& probe, const LinkSpeed& said) {
  float value = 0;
  RINGPRESS_RETURN_IF_ERROR(time_calls(peers, probe, {&value, 1}, 1).status());  // Connects.
  double latency = said.latency_seconds;
  RINGPRESS_ASSIGN_OR_RETURN(const double rate, measure_rate(peers, probe, &latency));
  return rate < kDrift * said.bytes_per_second && said.bytes_per_second < kDrift * rate;
}

/// The codecs that lose no more than the budget's, by what the ranks agree on, should the last
/// digit of an error differ.
Result<std::vector<std::string>> find_codecs(Peers& peers, const std::string& budget, DType dtype) {
  RINGPRESS_ASSIGN_OR_RETURN(const std::vector<double> allowed, measure_errors(budget, dtype));
  const std::vector<std::string> codecs = candidate_codecs(budget);
  std::vector<double> excess;
  for (const std::string& codec : codecs) {
    const bool is_allowed = codec == kNoCodec || codec == budget;
    RINGPRESS_ASSIGN_OR_RETURN(
        const std::vector<double> errors,
        is_allowed ? Result<std::vector<double>>(allowed) : measure_errors(codec, dtype));
    excess.push_back(find_excess(errors, allowed));
  }
  RINGPRESS_RETURN_IF_ERROR(peers.max(excess));
  std::vector<std::string> within;
  for (std::size_t i = 0; i < codecs.size(); ++i) {
    if (excess[i] <= 0) within.push_back(codecs[i]);
  }
  return within;
}

/// Each number as the rank with the largest has it: the slowest one is waited for.
Status agree(Peers& peers, std::vector<CodecSpeed>* codecs) {
  std::vector<double*> numbers;
  for (CodecSpeed& codec : *codecs) {
    for (OperationCost* const cost : {&codec.encode, &codec.decode, &codec.hop}) {
      numbers.push_back(&cost->start_seconds);
      numbers.push_back(&cost->seconds_per_byte);
    }
    numbers.push_back(&codec.ratio);
    numbers.push_back(&codec.error);
  }
  std::vector<double> values;
  for (const double* const number : numbers) values.push_back(*number);
  RINGPRESS_RETURN_IF_ERROR(peers.max(values));
  for (std::size_t i = 0; i < numbers.size(); ++i) *numbers[i] = values[i];
  return Status::ok();
}

Result<std::vector<CodecSpeed>> measure_codecs(Peers& peers, const std::string& budget,
                                               DType dtype) {
  RINGPRESS_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                             find_codecs(peers, budget, dtype));
  std::vector<CodecSpeed> codecs;
  for (const std::string& name : names) {
    RINGPRESS_ASSIGN_OR_RETURN(CodecSpeed speed, compress_kernels::measure_codec(name, dtype));
    speed.codec = name;
    codecs.push_back(std::move(speed));
  }
  RINGPRESS_RETURN_IF_ERROR(agree(peers, &codecs));
  // What saves no bytes would only take time.
  std::erase_if(codecs, [](const CodecSpeed& codec) {
    return !is_no_codec(codec.codec) && codec.ratio >= 1;
  });
  return codecs;
}

}  // namespace

std::vector<std::string> candidate_codecs(const std::string& budget) {
  const std::string whole = compress_kernels::normalize_specification(budget).value();
  std::vector<std::string> codecs{std::string(kNoCodec)};
  for (const char* const codec : kCandidates) {
    if (compress_kernels::normalize_specification(codec).value() != whole) codecs.push_back(codec);
  }
  if (whole != kNoCodec) codecs.push_back(budget);
  return codecs;
}

Result<std::vector<double>> measure_errors(const std::string& codec, DType dtype) {
  std::vector<double> errors;
  for (const auto values :
       {compress_kernels::ErrorOf::kNormalValues, compress_kernels::ErrorOf::kHeavyTails}) {
    RINGPRESS_ASSIGN_OR_RETURN(const double error,
                               compress_kernels::measure_codec_error(codec, dtype, values));
    errors.push_back(error);
  }
  return errors;
}

double find_excess(const std::vector<double>& errors, const std::vector<double>& allowed) {
  double most = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < errors.size(); ++i) most = std::max(most, errors[i] - allowed[i]);
  return most;
}

Result<int> count_ranks_per_host(Peers& peers) {
  int local = 1;
  for (int peer = 0; peer < peers.size(); ++peer) {
    local += peer != peers.rank() && peers.is_local(peer) ? 1 : 0;
  }
  double bounds[] = {static_cast<double>(local), -static_cast<double>(local)};
  RINGPRESS_RETURN_IF_ERROR(peers.max(bounds));
  const bool is_alike = bounds[0] == -bounds[1] && peers.size() % local == 0;
  return is_alike && local < peers.size() ? local : 1;
}

Result<Calibrations> calibrate(Peers& peers, const CallSettings& settings, int ranks_per_host) {
  Calibrations found;
  RINGPRESS_ASSIGN_OR_RETURN(const LinkSpeed link,
                             measure_link(peers, sums(peers, ranks_per_host)));
  LinkSpeed inside;
  if (ranks_per_host > 1) {
    RINGPRESS_ASSIGN_OR_RETURN(inside, measure_link(peers, swaps(peers)));
  }
  for (std::size_t i = 0; i < kTunedTypes.size(); ++i) {
    RINGPRESS_ASSIGN_OR_RETURN(found.by_type[i].codecs,
                               measure_codecs(peers, settings.budget.codec, kTunedTypes[i]));
  }
  found.set_links(link, inside);
  return found;
}

Result<LinkSpeed> measure_link_of_ranks(Peers& peers) {
  return measure_link(peers, sums(peers, 1));
}

Result<bool> still_hold(Peers& peers, const Calibrations& said, int ranks_per_host) {
  RINGPRESS_ASSIGN_OR_RETURN(const bool holds,
                             is_as_said(peers, sums(peers, ranks_per_host), said.link()));
  if (!holds || ranks_per_host == 1) return holds;
  return is_as_said(peers, swaps(peers), said.inside());
}

}  // namespace ringpress::nccl_plugin::tuning
