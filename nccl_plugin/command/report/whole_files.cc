#include "nccl_plugin/command/report/whole_files.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "nccl_plugin/command/report/json_values.h"

namespace ringpress::nccl_plugin::command::report {
namespace {

constexpr std::size_t kMostTensors = 10000;
constexpr std::size_t kMostRowsKept = 20000;

const Json& list_of(const Json& object, const char* name) {
  static const Json* const kEmpty = new Json(Json::array());
  const Json* const member = find_member(object, name);
  return member != nullptr && member->is_array() ? *member : *kEmpty;
}

double number_or_0(const Json& object, const char* name) {
  return number_of(object, name).value_or(0);
}

std::string add_trace(const Json& json, JobData* data, FileNote* note) {
  TracedStep step;
  step.file = note->path;
  step.name = text_of(json, "name");
  step.note = text_of(json, "note");
  step.machines = small_count_of(json, "machines");
  step.forward_ms = number_or_0(json, "forward_ms");
  if (const Json* const between = find_member(json, "between")) {
    step.latency_us = number_or_0(*between, "latency_us");
    step.gigabytes_per_second = number_or_0(*between, "gigabytes_per_second");
  }
  if (const Json* const model = find_member(json, "model")) step.codec = text_of(*model, "codec");
  for (const Json& tensor : list_of(json, "tensors")) {
    if (step.tensors.size() == kMostTensors) break;
    step.tensors.push_back(
        {text_of(tensor, "name"), count_of(tensor, "bytes"),
         number_or_0(tensor, "backward_us") + number_or_0(tensor, "after_call_us")});
  }
  note->rows = step.tensors.size();
  if (step.tensors.empty()) return "a job file without tensors";
  data->steps.push_back(std::move(step));
  return "";
}

/// The better of the two placements.
double time_of(const Json& row) {
  double best = 0;
  for (const char* const name : {"out_of_place", "in_place"}) {
    const Json* const placement = find_member(row, name);
    const double time = placement == nullptr ? 0 : number_or_0(*placement, "time");
    if (time > 0 && (best == 0 || time < best)) best = time;
  }
  return best;
}

std::string add_benchmark(const Json& json, JobData* data, FileNote* note) {
  const Json* const config = find_member(json, "config");
  const auto ranks = static_cast<int>(config == nullptr ? 0 : list_of(*config, "devices").size());
  for (const Json& row : list_of(json, "results")) {
    if (data->benchmarks.size() == kMostRowsKept) break;
    const Json* const ours = find_member(row, "ringpress");
    if (ours == nullptr) continue;
    BenchmarkRow result;
    result.file = note->path;
    result.setting = text_of(*ours, "setting");
    result.codec = text_of(*ours, "codec");
    result.type = text_of(row, "type");
    result.ranks = ranks;
    result.bytes = count_of(row, "size");
    result.time_us = time_of(row);
    result.ratio = number_or_0(*ours, "ratio");
    result.error = number_of(*ours, "relerr");
    result.mean_error = number_of(*ours, "mean_relerr");
    result.mean_of = config == nullptr ? 0 : small_count_of(*config, "mean_of");
    result.is_identical = truth_of(*ours, "identical");
    if (result.time_us <= 0) continue;
    ++note->rows;
    data->benchmarks.push_back(std::move(result));
  }
  return note->rows == 0 ? "results of all_reduce_perf without a row that was timed" : "";
}

std::string add_fidelity(const Json& json, JobData* data, FileNote* note) {
  for (const Json& row : list_of(json, "rows")) {
    if (data->fidelity.size() == kMostRowsKept) break;
    const std::optional<double> loss = number_of(row, "loss_percent");
    if (!loss || text_of(row, "method").empty()) continue;
    FidelityRow result;
    result.file = note->path;
    result.task = text_of(row, "task") + ", " + text_of(row, "optimizer");
    result.method = text_of(row, "method");
    result.workers = small_count_of(row, "workers");
    result.steps = small_count_of(row, "steps");
    result.loss_percent = *loss;
    result.standard_error = number_or_0(row, "standard_error");
    result.times_fewer_bytes = number_or_0(row, "times_fewer_bytes");
    ++note->rows;
    data->fidelity.push_back(std::move(result));
  }
  return note->rows == 0 ? "results without rows" : "";
}

/// What a file that is no JSON may be.
std::string describe_foreign(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin != std::string::npos && (text[begin] == '{' || text[begin] == '[')) {
    const std::size_t lines =
        1 + static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    return "JSON that is cut off or damaged (" + std::to_string(lines) + " lines)";
  }
  return "no file of ringpress: nothing in it is known";
}

bool has_rows_of_fidelity(const Json& json) {
  const Json& rows = list_of(json, "rows");
  return !rows.empty() && find_member(rows.front(), "loss_percent") != nullptr;
}

}  // namespace

std::string add_whole_file(const std::string& text, JobData* data, FileNote* note) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return describe_foreign(text);
  if (find_member(json, "tensors") != nullptr && find_member(json, "machines") != nullptr) {
    note->kind = FileKind::kTrace;
    return add_trace(json, data, note);
  }
  if (find_member(json, "results") != nullptr && find_member(json, "config") != nullptr) {
    note->kind = FileKind::kBenchmark;
    return add_benchmark(json, data, note);
  }
  if (has_rows_of_fidelity(json)) {
    note->kind = FileKind::kFidelity;
    return add_fidelity(json, data, note);
  }
  return "no file of ringpress: JSON that has nothing of a report";
}

}  // namespace ringpress::nccl_plugin::command::report
