#include "perf/all_reduce/benchmark.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "nccl_plugin/command/terminal/error.h"
#include "perf/all_reduce/input.h"
#include "perf/all_reduce/mean_error.h"
#include "perf/all_reduce/setting.h"

namespace ringpress::perf {
namespace {

using Clock = std::chrono::steady_clock;

/// Whether results must be exact.
bool is_exact(const Setting& setting, const std::optional<ringpressStatistics_t>& statistics) {
  const std::string specification = statistics ? statistics->codec : named_codec(setting);
  const std::string name = specification.substr(0, specification.find(':'));
  return name.empty() || name == "none" || name == "lossless";
}

/// Who comes when in an iteration: by chance, and the same on all ranks. What a call finds depends
/// on the calls before it; of the barriers, for one, TCP acknowledges every other message on each
/// of two sockets. A setting with a fixed place, or in turns of two, would meet the same every
/// time.
class SettingOrder {
 public:
  explicit SettingOrder(std::size_t settings) : order_(settings) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
  }

  const std::vector<std::size_t>& next() {
    for (std::size_t left = order_.size(); left > 1; --left) {
      std::swap(order_[left - 1], order_[random_() % left]);
    }
    return order_;
  }

 private:
  std::vector<std::size_t> order_;
  std::mt19937_64 random_;
};

/// `From` is ringpressStatistics_t after the call, or CompressionResult.
template <typename From>
void name_codec(const From& call, CompressionResult& result) {
  result.codec = call.codec;
  result.algorithm = call.algorithm;
  result.reason = call.reason;
}

}  // namespace

/// What is being measured now, with its memory.
struct Benchmark::Case {
  ElementType type;
  OperationName operation;
  std::unique_ptr<Workload> workload;
  DeviceBuffer send;
  DeviceBuffer receive;
  std::vector<ncclRedOp_t> handles;  // By setting.
  std::size_t count = 0;
  std::size_t bytes = 0;
};

Benchmark::Benchmark(const Options& options, Session& session, Listener listener)
    : options_(options), session_(session), listener_(std::move(listener)) {}

std::unique_ptr<Workload> Benchmark::make_workload(const ElementType& type,
                                                   Operation operation) const {
  if (options_.inputs.empty()) {
    return std::make_unique<GeneratedWorkload>(GeneratedWorkload::Shape{
        type, operation, session_.rank(), session_.ranks(), options_.seed});
  }
  std::vector<float> own = read_inputs(options_.inputs, session_.rank());
  const std::vector<double> sizes = session_.control().gather({static_cast<double>(own.size())});
  for (std::size_t rank = 1; rank < sizes.size(); ++rank) {
    if (sizes[rank] == sizes[0]) continue;
    throw terminal::Error(
        fmt::format("--input: rank 0 has {} values, rank {} has {}", sizes[0], rank, sizes[rank]));
  }
  std::vector<double> sums(own.begin(), own.end());
  session_.control().sum(sums);
  return std::make_unique<RecordedWorkload>(std::move(own), std::move(sums));
}

std::vector<ResultRow> Benchmark::run() {
  sizes_ = sweep_sizes(options_);
  if (!options_.inputs.empty() && options_.sweep.maximum_bytes == 0) {
    sizes_ = {read_inputs(options_.inputs, session_.rank()).size() * sizeof(float)};
  }
  std::vector<ElementType> types(element_types().begin(), element_types().end());
  std::vector<OperationName> names(operations().begin(), operations().end());
  if (options_.sweep.data_type != "all") types = {find_element_type(options_.sweep.data_type)};
  if (options_.sweep.operation != "all") names = {find_operation(options_.sweep.operation)};
  steps_ = static_cast<int>(types.size() * names.size() * sizes_.size() *
                            (options_.timing.placement == Placement::kBoth ? 2 : 1)) *
           (1 + options_.timing.warmup_iterations + options_.timing.iterations);
  for (const ElementType& type : types) {
    for (const OperationName& operation : names) run_case(type, operation);
  }
  return std::move(rows_);
}

void Benchmark::run_case(const ElementType& type, const OperationName& operation) {
  const std::size_t largest = *std::max_element(sizes_.begin(), sizes_.end());
  Case current = {type,
                  operation,
                  make_workload(type, operation.value),
                  DeviceBuffer(largest),
                  DeviceBuffer(largest),
                  {}};
  fill(*current.workload, type, largest / type.bytes, current.send);
  prepare_operations(current);
  for (const std::size_t bytes : sizes_) run_size(current, bytes);
  release_operations(current);
}

void Benchmark::prepare_operations(Case& current) const {
  for (std::size_t setting = 0; setting < options_.settings.size(); ++setting) {
    ncclRedOp_t handle = plain_operation(current.operation.value);
    if (current.operation.value == Operation::kMulSum) {
      std::array<std::byte, sizeof(double)> scalar = {};
      const double multiplier = GeneratedWorkload::kPreMultiplier;
      store_elements(current.type, {&multiplier, 1}, scalar.data());
      ncclComm_t comm = session_.measured(setting).handle();
      require(ncclRedOpCreatePreMulSum(&handle, scalar.data(), current.type.value,
                                       ncclScalarHostImmediate, comm),
              "ncclRedOpCreatePreMulSum", comm);
    }
    current.handles.push_back(handle);
  }
}

void Benchmark::release_operations(Case& current) const {
  if (current.operation.value != Operation::kMulSum) return;
  for (std::size_t setting = 0; setting < options_.settings.size(); ++setting) {
    ncclComm_t comm = session_.measured(setting).handle();
    require(ncclRedOpDestroy(current.handles[setting], comm), "ncclRedOpDestroy", comm);
  }
}

void Benchmark::run_size(Case& current, std::size_t bytes) {
  current.count = bytes / current.type.bytes;
  current.bytes = current.count * current.type.bytes;
  std::vector<ResultRow> rows;
  for (const Setting& setting : options_.settings) {
    ResultRow row;
    row.bytes = current.bytes;
    row.count = current.count;
    row.type = current.type.name;
    row.operation = current.operation.name;
    row.root = options_.sweep.root;
    row.setting = setting.label;
    rows.push_back(std::move(row));
  }
  if (options_.timing.placement != Placement::kInPlace) measure_placement(current, false, rows);
  if (options_.timing.placement != Placement::kOutOfPlace) measure_placement(current, true, rows);
  for (ResultRow& row : rows) {
    if (row.identical && !*row.identical) row.failures.insert(Failure::kRanksDiffer);
    const std::optional<double> limit = options_.checks.maximum_relative_error;
    if (limit && row.relative_error && is_worse(*row.relative_error, *limit)) {
      row.failures.insert(Failure::kLargeError);
    }
    if (session_.is_root() && listener_.on_row) listener_.on_row(row);
    rows_.push_back(std::move(row));
  }
}

void Benchmark::report_step(const Case& current, bool in_place) {
  ++step_;
  if (!session_.is_root() || !listener_.on_step) return;
  listener_.on_step(fmt::format("{} bytes of {}, {}, {}", current.bytes, current.type.name,
                                current.operation.name, in_place ? "in place" : "out of place"),
                    step_, steps_);
}

void Benchmark::enqueue(Case& current, std::size_t setting, bool in_place) {
  const Group& group = session_.measured(setting);
  const void* send = in_place ? current.receive.data() : current.send.data();
  const bool grouped = options_.timing.calls_per_iteration > 1;
  if (grouped) require(ncclGroupStart(), "ncclGroupStart");
  for (int i = 0; i < options_.timing.calls_per_iteration; ++i) {
    require(ncclAllReduce(send, current.receive.data(), current.count, current.type.value,
                          current.handles[setting], group.handle(), stream_.handle()),
            "ncclAllReduce", group.handle());
  }
  if (grouped) require(ncclGroupEnd(), "ncclGroupEnd", group.handle());
}

double Benchmark::time_iterations(Case& current, std::size_t setting, bool in_place,
                                  int iterations) {
  const auto begin = Clock::now();
  for (int i = 0; i < iterations; ++i) enqueue(current, setting, in_place);
  stream_.synchronize();
  const std::chrono::duration<double, std::micro> elapsed = Clock::now() - begin;
  return elapsed.count() / iterations / options_.timing.calls_per_iteration;
}

/// As nccl-tests does where calls return early: many iterations, one wait at their end. Not where
/// the single times are asked for, or settings take turns.
bool Benchmark::times_many_at_once() const {
  return device_is_asynchronous() && !options_.reports_median() && !options_.timing.barrier_between;
}

/// How many iterations in place may go by until the input is to be written anew.
int Benchmark::renewal_of(const Case& current, bool in_place) const {
  if (!in_place) return 1 << 30;
  const int calls = calls_until_overflow(current.type, current.operation.value, session_.ranks());
  // Error feedback would carry errors of what has grown into the call whose result is looked at.
  if (options_.checks.results && !times_many_at_once()) return 1;
  return std::max(1, calls / options_.timing.calls_per_iteration);
}

void Benchmark::time_settings(Case& current, bool in_place, std::vector<SettingCalls>& found) {
  const int renewal = renewal_of(current, in_place);
  const std::size_t settings = options_.settings.size();
  const bool renew_for_each_setting = in_place && settings > 1;
  const LookedAt looked_at(options_.timing.iterations, current.bytes, settings);
  if (options_.checks.results) make_room(current, looked_at.kept_count(), found);
  SettingOrder order(settings);
  int at_once = 1;
  for (int iteration = -options_.timing.warmup_iterations; iteration < options_.timing.iterations;
       iteration += at_once) {
    const bool many = iteration >= 0 && times_many_at_once();
    at_once = many ? std::min(renewal, options_.timing.iterations - iteration) : 1;
    for (int i = 0; i < at_once; ++i) report_step(current, in_place);
    const bool is_wanted = std::any_of(found.begin(), found.end(),
                                       [](const SettingCalls& one) { return one.wants_look; });
    // What was summed in place several times is no sum of the input; it is only to be identical.
    const bool can_check = !in_place || at_once * options_.timing.calls_per_iteration == 1;
    const bool looks = options_.checks.results && iteration >= 0 &&
                       ((is_wanted && can_check) || looked_at.has(iteration, at_once));
    const bool checks = looks && can_check;
    const bool renew = iteration % renewal == 0 || renew_for_each_setting || checks;
    for (const std::size_t setting : order.next()) {
      const bool fresh_input = in_place && renew;
      if (fresh_input) current.receive.copy_from(current.send, current.bytes);
      if (iteration == 0) found[setting].before = session_.measured(setting).statistics();
      const bool meet =
          fresh_input || settings > 1 || options_.timing.barrier_between || iteration == 0;
      if (meet) session_.control().barrier();
      const double time = time_iterations(current, setting, in_place, at_once);
      if (iteration < 0) continue;
      found[setting].times.push_back(time);
      const bool is_new = note_codec(setting, found[setting]);
      if (checks || (is_new && options_.checks.results && !in_place)) {
        keep_result(current, setting, found[setting]);
      } else if (looks && !holds_same_bytes(current.receive, current.bytes, session_.control())) {
        found[setting].worst.identical = false;
      }
    }
  }
}

/// Returns whether no result of the codec was looked at so far. All ranks have the same ones.
bool Benchmark::note_codec(std::size_t setting, SettingCalls& found) const {
  const CallStatistics after = session_.measured(setting).statistics();
  if (!after) return false;
  ++found.codecs[after->codec];
  if (!goes_as_asked(options_.settings[setting], after)) found.went_as_asked = false;
  found.wants_look = found.looked_at.count(after->codec) == 0;
  return found.wants_look;
}

/// All its pages are touched, so that no pause comes of that between timed calls.
void Benchmark::make_room(const Case& current, int kept_count, std::vector<SettingCalls>& found) {
  for (SettingCalls& calls : found) {
    for (int i = 0; i < kept_count; ++i) {
      calls.kept.emplace_back(current.bytes).buffer.copy_from(current.receive, current.bytes);
    }
  }
}

void Benchmark::keep_result(const Case& current, std::size_t setting, SettingCalls& found) const {
  const CallStatistics after = session_.measured(setting).statistics();
  if (after) found.looked_at.insert(after->codec);
  found.wants_look = false;
  if (found.kept_count == found.kept.size()) {
    note_timed_call(check_result(current, setting, current.receive, after), after, found);
    return;
  }
  KeptResult& kept = found.kept[found.kept_count++];
  kept.buffer.copy_from(current.receive, current.bytes);
  kept.after = after;
}

PlacementResult Benchmark::placement_result(const Case& current,
                                            std::vector<double> own_times) const {
  const std::size_t samples = own_times.size();
  const std::vector<double> all = session_.control().gather(own_times);
  PlacementResult result;
  result.iterations = summarize(combine_ranks(all, samples, options_.timing.average));
  result.time_us = options_.reports_median() ? result.iterations.median : result.iterations.mean;
  set_bandwidths(result, current.bytes, session_.ranks());
  return result;
}

CompressionResult Benchmark::compression_of(const ringpressStatistics_t& before,
                                            const ringpressStatistics_t& after) const {
  const double calls = static_cast<double>(std::max<std::uint64_t>(after.calls - before.calls, 1));
  CompressionResult result;
  name_codec(after, result);
  result.residual_bytes = after.residual_bytes;
  const auto sent = [](const ringpressStatistics_t& statistics) {
    return statistics.wire_bytes - statistics.calibration_bytes;
  };
  const std::vector<double> all =
      session_.control().gather({static_cast<double>(after.raw_bytes - before.raw_bytes) / calls,
                                 static_cast<double>(sent(after) - sent(before)) / calls});
  for (std::size_t at = 0; at < all.size(); at += 2) {
    result.raw_bytes = std::max(result.raw_bytes, all[at]);
    result.wire_bytes = std::max(result.wire_bytes, all[at + 1]);
  }
  return result;
}

CheckResult Benchmark::check_result(const Case& current, std::size_t setting,
                                    const DeviceBuffer& result, const CallStatistics& after) const {
  Strictness strictness = Strictness::kFinite;
  if (current.workload->sums_exactly() && is_exact(options_.settings[setting], after)) {
    const bool divides = current.type.is_float && current.operation.value == Operation::kAvg;
    strictness = divides ? Strictness::kLastPlace : Strictness::kExact;
  }
  return check(*current.workload, current.type, current.count, result, strictness,
               session_.control());
}

/// Makes one call of its own, on fresh input.
CheckResult Benchmark::check_own_call(Case& current, std::size_t setting, bool in_place) {
  if (in_place) current.receive.copy_from(current.send, current.bytes);
  const Group& group = session_.measured(setting);
  const void* send = in_place ? current.receive.data() : current.send.data();
  require(ncclAllReduce(send, current.receive.data(), current.count, current.type.value,
                        current.handles[setting], group.handle(), stream_.handle()),
          "ncclAllReduce", group.handle());
  stream_.synchronize();
  return check_result(current, setting, current.receive, group.statistics());
}

/// When all are timed. Where no timed call, or none of the last codec, could be looked at, the call
/// that follows them stands for it: out of place, as what is fed back in place may have grown.
void Benchmark::check_timed_calls(Case& current, std::size_t setting, bool in_place,
                                  SettingCalls& found) {
  for (std::size_t i = 0; i < found.kept_count; ++i) {
    const KeptResult& one = found.kept[i];
    note_timed_call(check_result(current, setting, one.buffer, one.after), one.after, found);
  }
  found.kept.clear();
  if (found.has_timed && !found.wants_look) return;
  const bool grows = times_many_at_once() || options_.timing.calls_per_iteration > 1;
  const CheckResult checked = check_own_call(current, setting, in_place && !grows);
  note_timed_call(checked, session_.measured(setting).statistics(), found);
}

/// Of calls that follow the timed ones, out of place: their input stays the same.
double Benchmark::error_of_mean(Case& current, std::size_t setting) {
  const Group& group = session_.measured(setting);
  MeanError mean(*current.workload, current.type, current.count);
  for (int call = 0; call < options_.checks.mean_calls; ++call) {
    require(ncclAllReduce(current.send.data(), current.receive.data(), current.count,
                          current.type.value, current.handles[setting], group.handle(),
                          stream_.handle()),
            "ncclAllReduce", group.handle());
    stream_.synchronize();
    mean.add(current.receive);
  }
  return mean.relative_error(session_.control());
}

/// The row has the error, the codec and the reason of one call, the worst of both placements.
void Benchmark::note_check(const SettingCalls& found, ResultRow& row, PlacementResult& result,
                           std::optional<CompressionResult>& compression) const {
  result.wrong_elements = found.worst.wrong_elements;
  if (found.worst.wrong_elements != 0) row.failures.insert(Failure::kWrongElements);
  row.identical = row.identical.value_or(true) && found.worst.identical;
  const bool is_kept =
      row.relative_error && !is_worse(found.worst.relative_error, *row.relative_error);
  if (is_kept && row.compression && compression) {
    name_codec(*row.compression, *compression);
  } else if (compression && found.worst_call) {
    name_codec(*found.worst_call, *compression);
  }
  if (is_kept) return;
  row.relative_error = found.worst.relative_error;
  row.magnitudes = found.worst.magnitudes;
}

void Benchmark::measure_placement(Case& current, bool in_place, std::vector<ResultRow>& rows) {
  report_step(current, in_place);
  const std::size_t settings = options_.settings.size();
  std::vector<SettingCalls> found(settings);
  // Before any is timed, so that what is wrong is found at once.
  for (std::size_t setting = 0; setting < settings && options_.checks.results; ++setting) {
    found[setting].worst = check_own_call(current, setting, in_place);
  }
  time_settings(current, in_place, found);
  for (std::size_t setting = 0; setting < settings; ++setting) {
    SettingCalls& calls = found[setting];
    std::optional<CompressionResult> compression;
    const auto after = session_.measured(setting).statistics();
    if (calls.before && after) compression = compression_of(*calls.before, *after);
    if (compression) compression->codecs = calls.codecs;
    if (options_.checks.results) check_timed_calls(current, setting, in_place, calls);
    PlacementResult result = placement_result(current, std::move(calls.times));
    ResultRow& row = rows[setting];
    if (options_.checks.results) note_check(calls, row, result, compression);
    if (options_.checks.mean_calls > 0 && !in_place) {
      row.mean_error = error_of_mean(current, setting);
    }
    (in_place ? row.in_place : row.out_of_place) = std::move(result);
    if (options_.checks.requires_codec && !calls.went_as_asked)
      row.failures.insert(Failure::kOtherCodec);
    if (!compression) continue;
    if (row.compression) {
      for (const auto& [codec, waits] : row.compression->codecs)
        compression->codecs[codec] += waits;
    }
    if (row.compression && row.compression->wire_bytes > compression->wire_bytes) {
      compression->raw_bytes = row.compression->raw_bytes;
      compression->wire_bytes = row.compression->wire_bytes;
    }
    row.compression = std::move(compression);
  }
}

}  // namespace ringpress::perf
