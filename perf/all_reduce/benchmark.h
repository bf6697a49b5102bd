// The sweep over sizes, types, operations and settings.
#ifndef PERF_ALL_REDUCE_BENCHMARK_H_
#define PERF_ALL_REDUCE_BENCHMARK_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "perf/all_reduce/check.h"
#include "perf/all_reduce/options.h"
#include "perf/all_reduce/results.h"
#include "perf/all_reduce/session.h"
#include "perf/all_reduce/timed_calls.h"
#include "perf/all_reduce/workload.h"

namespace ringpress::perf {

class Benchmark {
 public:
  /// `on_row` hears of each row when it is measured, `on_step` what is about to be done and which
  /// step of how many it is; both on rank 0 only.
  struct Listener {
    std::function<void(const ResultRow&)> on_row;
    std::function<void(const std::string&, int step, int steps)> on_step;
  };
  Benchmark(const Options& options, Session& session, Listener listener);

  /// Collective. Every rank gets the rows.
  std::vector<ResultRow> run();

 private:
  struct Case;

  void run_case(const ElementType& type, const OperationName& operation);
  void run_size(Case& current, std::size_t bytes);
  void prepare_operations(Case& current) const;
  void release_operations(Case& current) const;
  void measure_placement(Case& current, bool in_place, std::vector<ResultRow>& rows);
  int renewal_of(const Case& current, bool in_place) const;
  void time_settings(Case& current, bool in_place, std::vector<SettingCalls>& found);
  bool note_codec(std::size_t setting, SettingCalls& found) const;
  static void make_room(const Case& current, int kept_count, std::vector<SettingCalls>& found);
  void keep_result(const Case& current, std::size_t setting, SettingCalls& found) const;
  /// Collective. Of what a call of a setting has left, after which the statistics were `after`.
  CheckResult check_result(const Case& current, std::size_t setting, const DeviceBuffer& result,
                           const CallStatistics& after) const;
  CheckResult check_own_call(Case& current, std::size_t setting, bool in_place);
  void check_timed_calls(Case& current, std::size_t setting, bool in_place, SettingCalls& found);
  double error_of_mean(Case& current, std::size_t setting);
  void note_check(const SettingCalls& found, ResultRow& row, PlacementResult& result,
                  std::optional<CompressionResult>& compression) const;
  double time_iterations(Case& current, std::size_t setting, bool in_place, int iterations);
  bool times_many_at_once() const;
  void enqueue(Case& current, std::size_t setting, bool in_place);
  PlacementResult placement_result(const Case& current, std::vector<double> own_times) const;
  CompressionResult compression_of(const ringpressStatistics_t& before,
                                   const ringpressStatistics_t& after) const;
  std::unique_ptr<Workload> make_workload(const ElementType& type, Operation operation) const;
  void report_step(const Case& current, bool in_place);

  const Options options_;
  Session& session_;
  Listener listener_;
  DeviceStream stream_;
  std::vector<std::size_t> sizes_;
  std::vector<ResultRow> rows_;
  int step_ = 0;
  int steps_ = 0;
};

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_BENCHMARK_H_
