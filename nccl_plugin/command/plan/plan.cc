#include "nccl_plugin/command/plan/plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "compress_kernels/factory.h"
#include "nccl_plugin/command/plan/job_file.h"
#include "nccl_plugin/command/plan/plan_rules.h"
#include "nccl_plugin/command/plan/text_file.h"
#include "nccl_plugin/command/plan/timeline_svg.h"
#include "nccl_plugin/session/usable_settings.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::command {
namespace {

using espresso::Box;
using espresso::Plan;
using espresso::Resource;

constexpr int kBadFile = 2;

/// A job with all that is planned for it.
struct Planned {
  espresso::Job job;
  std::vector<espresso::Option> options;
  Plan nothing;
  Plan everything;
  Plan best;
  double naive_seconds = 0;  // Every tensor compressed, gathered whole by all ranks.
  double bound_seconds = 0;

  bool is_on_host() const { return !job.calls.empty(); }
  bool compresses(const Plan& plan, std::size_t tensor) const {
    return options[plan.choices[tensor].option].compresses();
  }
  espresso::Timeline timeline(const Plan& plan) const {
    return predict(job, options, plan.choices);
  }
};

/// What frameworks do that know no better: compress, all-gather among all ranks, decompress what
/// each sent.
double naive_seconds(const espresso::Job& job) {
  using espresso::Device;
  using espresso::Operation;
  using espresso::Phase;
  const espresso::Option naive = {
      "naive",
      {{Operation::kCompress, Phase::kFlat, false, false, Device::kGpu},
       {Operation::kAllGather, Phase::kFlat, true, false, Device::kGpu},
       {Operation::kDecompress, Phase::kFlat, false, false, Device::kGpu}}};
  return predict(job, {naive}, std::vector<espresso::Choice>(job.tensors.size())).seconds;
}

std::vector<espresso::Option> options_of(const espresso::Job& job, const PlanOptions& how) {
  if (!job.calls.empty()) return espresso::call_options();
  if (how.options != "tree") return espresso::engine_options(job.cluster);
  std::vector<espresso::Option> options = espresso::tree_options(false);
  for (espresso::Option& option : espresso::exchange_options()) {
    options.push_back(std::move(option));
  }
  return options;
}

/// Options that would make no difference to such a job are mistakes.
Status check_options(const espresso::Job& job, const PlanOptions& how) {
  const bool has_compressor = !job.compressor.name.empty();
  if (has_compressor && !how.codec.empty()) {
    return {Code::kInvalidArgument,
            "--codec is for a job without \"compressor\": this one says what its own costs"};
  }
  if (!has_compressor && how.options == "tree") {
    return {Code::kInvalidArgument,
            "--options tree is for a job with \"compressor\": calls on host memory have one way"};
  }
  return Status::ok();
}

/// A job, and of one on host memory what it would be if its codec took no time.
struct PricedJob {
  espresso::Job job;
  espresso::Job free_job;
};

CodecSpeed without_work(CodecSpeed codec) {
  codec.encode = codec.decode = codec.hop = codec.look = codec.agreement.summarise = {};
  return codec;
}

/// What calls on host memory take, with the codec as it is on this machine.
Status price_host_calls(const std::string& given, PricedJob* priced) {
  const std::string codec = given.empty() ? "q4" : given;
  const espresso::Cluster& cluster = priced->job.cluster;
  // A single rank's calls take nothing, whatever the codec. No cache keeps the tensors of a step
  // until they are sent.
  const std::size_t ranks = cluster.machines * cluster.gpus_per_machine;
  const compress_kernels::MeasuredFor use = {std::max(2, static_cast<int>(ranks)),
                                             static_cast<int>(cluster.machines),
                                             compress_kernels::ValuesIn::kMemory};
  RINGPRESS_ASSIGN_OR_RETURN(const CodecSpeed exact,
                             compress_kernels::measure_codec("none", DType::kFloat32, use));
  const Result<CodecSpeed> measured = compress_kernels::measure_codec(codec, DType::kFloat32, use);
  if (!measured.is_ok()) {
    return {measured.status().code(), "--codec " + codec + ": " + measured.status().message()};
  }
  const CodecSpeed& speed = measured.value();
  const Settings settings = settings_from_environment();
  RINGPRESS_RETURN_IF_ERROR(nccl_plugin::check_values(settings));
  const std::size_t minimum_bytes = settings.minimum_bytes;
  priced->free_job = priced->job;
  RINGPRESS_RETURN_IF_ERROR(
      espresso::price_calls(exact, without_work(speed), minimum_bytes, &priced->free_job));
  return espresso::price_calls(exact, speed, minimum_bytes, &priced->job);
}

Planned plan_job(PricedJob priced, const PlanOptions& how) {
  espresso::Job& job = priced.job;
  Planned planned;
  planned.options = options_of(job, how);
  const espresso::Search search =
      how.search == "paper" ? espresso::Search::kPaper : espresso::Search::kRepeated;
  planned.nothing = plan_nothing(job, planned.options);
  planned.everything = plan_everything(job, planned.options);
  planned.best = plan(job, planned.options, search);
  if (job.calls.empty()) {
    planned.naive_seconds = naive_seconds(job);
    planned.bound_seconds = free_compression_seconds(job, planned.options);
  } else {
    planned.bound_seconds =
        std::min(planned.best.seconds, plan(priced.free_job, planned.options, search).seconds);
  }
  planned.job = std::move(job);
  return planned;
}

/// As one line of a terminal holds it.
std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7F; }, ' ');
  return text;
}

void print_job(const espresso::Job& job) {
  const espresso::Cluster& cluster = job.cluster;
  double bytes = 0, backward = 0;
  for (const espresso::Tensor& tensor : job.tensors) {
    bytes += static_cast<double>(tensor.bytes);
    backward += tensor.backward_seconds;
  }
  fmt::print("{}\n", job.name);
  if (!job.note.empty()) fmt::print("note: {}\n", one_line(job.note));
  fmt::print("{} machines x {} GPUs; inside {:.1f} GB/s, between {:.2f} GB/s a machine\n",
             cluster.machines, cluster.gpus_per_machine, cluster.inside.bytes_per_second / 1e9,
             cluster.between.bytes_per_second / 1e9);
  fmt::print("{} tensors, {:.1f} MB; forward {:.2f} ms, backward {:.2f} ms; {}, ratio {:.4f}\n\n",
             job.tensors.size(), bytes / 1e6, 1e3 * job.forward_seconds, 1e3 * backward,
             job.compressor.name, job.compressor.ratio);
}

void print_steps(const Planned& planned) {
  const double nothing = planned.nothing.seconds;
  const auto row = [&](const char* name, double seconds) {
    fmt::print("| {} | {:.2f} | {:.2f}x |\n", name, 1e3 * seconds,
               seconds > 0 ? nothing / seconds : 1);
  };
  fmt::print("| predicted step | ms | speed-up |\n|---|---|---|\n");
  row("no compression", nothing);
  if (!planned.is_on_host()) row("everything compressed, gathered whole", planned.naive_seconds);
  row("everything compressed, each its best way", planned.everything.seconds);
  row("plan", planned.best.seconds);
  row("bound: compression for nothing", planned.bound_seconds);
}

/// For each tensor, whether the wire falls idle between it and a later one, if nothing is
/// compressed. So what comes before such a pause cannot gain, unless the program waited for it.
std::vector<bool> before_a_bubble(const Planned& planned) {
  std::vector<Box> sends;
  for (const Box& box : planned.timeline(planned.nothing).boxes) {
    if (box.resource == Resource::kWire) sends.push_back(box);
  }
  std::vector<bool> before(planned.job.tensors.size(), false);
  bool is_before = false;
  for (std::size_t i = sends.size(); i-- > 0;) {
    const bool is_last = i + 1 == sends.size();
    if (!is_last && planned.job.tensors[sends[i + 1].tensor].after_seconds) {
      is_before = false;
    } else if (!is_last && sends[i + 1].begin_seconds > sends[i].end_seconds * (1 + 1e-9)) {
      is_before = true;
    }
    before[sends[i].tensor] = is_before;
  }
  return before;
}

/// What the plan compresses, in numbers.
struct PlanFindings {
  std::size_t compressed = 0;
  std::size_t on_cpu = 0;  // Of those.
  std::size_t smallest_compressed_bytes = 0;
  std::size_t largest_left_bytes = 0;  // Of those that have no bubble after them.
  std::size_t before_bubble = 0;
  std::size_t before_bubble_compressed = 0;
};

PlanFindings find(const Planned& planned) {
  const std::vector<bool> in_vain = before_a_bubble(planned);
  PlanFindings found;
  for (std::size_t i = 0; i < planned.job.tensors.size(); ++i) {
    const std::size_t bytes = planned.job.tensors[i].bytes;
    found.before_bubble += in_vain[i] ? 1 : 0;
    if (!planned.compresses(planned.best, i)) {
      if (!in_vain[i]) found.largest_left_bytes = std::max(found.largest_left_bytes, bytes);
      continue;
    }
    const bool is_first = found.compressed++ == 0;
    found.smallest_compressed_bytes =
        is_first ? bytes : std::min(found.smallest_compressed_bytes, bytes);
    found.on_cpu += planned.best.choices[i].device == espresso::Device::kCpu ? 1 : 0;
    found.before_bubble_compressed += in_vain[i] ? 1 : 0;
  }
  return found;
}

void print_findings(const Planned& planned) {
  const PlanFindings found = find(planned);
  const auto kilobytes = [](std::size_t bytes) { return static_cast<double>(bytes) / 1e3; };
  fmt::print("\ncompressed: {} of {} tensors, {} of them on the CPU\n", found.compressed,
             planned.job.tensors.size(), found.on_cpu);
  if (found.compressed > 0) {
    fmt::print("the smallest compressed: {:.1f} KB\n", kilobytes(found.smallest_compressed_bytes));
  }
  if (found.largest_left_bytes > 0) {
    fmt::print("the largest left as it is, with no bubble after it: {:.1f} KB\n",
               kilobytes(found.largest_left_bytes));
  }
  fmt::print("before a bubble: {} tensors, {} of them compressed\n", found.before_bubble,
             found.before_bubble_compressed);
}

/// As JSON: calls on host memory have no naive way.
std::string milliseconds_of_gpus(const Planned& planned, double seconds) {
  return planned.is_on_host() ? "null" : fmt::format("{}", 1e3 * seconds);
}

/// Numbers, names that are this program's own, and the note.
void print_json(const Planned& planned) {
  const PlanFindings found = find(planned);
  fmt::print(
      "{{\"nothing_ms\": {}, \"naive_ms\": {}, \"everything_ms\": {}, \"plan_ms\": {}, "
      "\"bound_ms\": {},\n",
      1e3 * planned.nothing.seconds, milliseconds_of_gpus(planned, planned.naive_seconds),
      1e3 * planned.everything.seconds, 1e3 * planned.best.seconds, 1e3 * planned.bound_seconds);
  fmt::print(
      " \"compressed\": {}, \"on_cpu\": {}, \"smallest_compressed_bytes\": {}, "
      "\"largest_left_bytes\": {},\n \"before_bubble\": {}, "
      "\"before_bubble_compressed\": {},\n \"tensors\": [",
      found.compressed, found.on_cpu, found.smallest_compressed_bytes, found.largest_left_bytes,
      found.before_bubble, found.before_bubble_compressed);
  for (std::size_t i = 0; i < planned.best.choices.size(); ++i) {
    const espresso::Choice& choice = planned.best.choices[i];
    fmt::print("{}\n  {{\"way\": \"{}\", \"compressed\": {}, \"cpu\": {}}}", i == 0 ? "" : ",",
               planned.options[choice.option].name, planned.compresses(planned.best, i),
               choice.device == espresso::Device::kCpu);
  }
  fmt::print("],\n \"note\": {}}}\n",
             nlohmann::json(planned.job.note)
                 .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

/// A name as a cell of a table holds it.
std::string cell(const std::string& name) {
  std::string text;
  for (const char c : one_line(name)) {
    if (c == '|') text += '\\';
    text += c;
  }
  return text;
}

void print_tensors(const Planned& planned) {
  fmt::print("\n| tensor | KB | way | codecs on |\n|---|---|---|---|\n");
  for (std::size_t i = 0; i < planned.job.tensors.size(); ++i) {
    const espresso::Choice& choice = planned.best.choices[i];
    const bool is_on_gpu = choice.device == espresso::Device::kGpu;
    const char* const device = planned.is_on_host() ? "host" : is_on_gpu ? "GPU" : "CPU";
    fmt::print("| {} | {:.1f} | {} | {} |\n", cell(planned.job.tensors[i].name),
               static_cast<double>(planned.job.tensors[i].bytes) / 1e3,
               planned.options[choice.option].name,
               planned.compresses(planned.best, i) ? device : "");
  }
}

DrawnStep drawn(const Planned& planned, const char* title, const Plan& plan) {
  DrawnStep step;
  step.timeline = planned.timeline(plan);
  step.title = fmt::format("{}: {:.2f} ms", title, 1e3 * step.timeline.seconds);
  for (std::size_t i = 0; i < plan.choices.size(); ++i) {
    step.is_compressed.push_back(planned.compresses(plan, i));
  }
  return step;
}

bool write_picture(const Planned& planned, const std::string& path) {
  const std::string picture =
      draw_steps(planned.job, {drawn(planned, "no compression", planned.nothing),
                               drawn(planned, "everything compressed", planned.everything),
                               drawn(planned, "plan", planned.best)});
  std::ofstream file(path, std::ios::binary);
  file << picture;
  file.close();
  if (file) return true;
  fmt::print(stderr, "ringpress plan: {}: {}\n", path, std::strerror(errno));
  return false;
}

std::vector<PlannedTensor> planned_tensors(const Planned& planned) {
  std::vector<PlannedTensor> tensors;
  for (std::size_t i = 0; i < planned.job.tensors.size(); ++i) {
    tensors.push_back({planned.job.tensors[i].bytes, planned.compresses(planned.best, i),
                       planned.options[planned.best.choices[i].option].name});
  }
  return tensors;
}

Status write_rules(const Planned& planned, const std::string& path) {
  Result<PlanRules> rules =
      make_plan_rules(planned_tensors(planned), planned.job.compressor.name, planned.job.name);
  if (!rules.is_ok()) {
    return {rules.status().code(), "--rules " + path + ": " + rules.status().message()};
  }
  std::ofstream file(path, std::ios::binary);
  file << rules.value().text;
  file.close();
  if (!file) return {Code::kSystem, path + ": " + std::strerror(errno)};
  const std::size_t otherwise = rules.value().otherwise;
  if (otherwise > 0) {
    fmt::print(stderr,
               "ringpress plan: {}: {} tensors get what others of their size get, as rules know "
               "sizes alone\n",
               path, otherwise);
  }
  return Status::ok();
}

Result<PricedJob> make_priced_preset(const PlanOptions& options) {
  PresetOptions preset = options.preset;
  preset.codec = options.codec;
  PricedJob priced{make_preset_job(preset), {}};
  if (priced.job.compressor.name.empty()) {
    RINGPRESS_RETURN_IF_ERROR(check_options(priced.job, options));
    RINGPRESS_RETURN_IF_ERROR(price_host_calls(options.codec, &priced));
  }
  RINGPRESS_RETURN_IF_ERROR(check(priced.job));
  return priced;
}

/// The job with its prices. An error says of which file.
Result<PricedJob> load_job(const PlanOptions& options) {
  if (!options.preset.preset.empty()) return make_priced_preset(options);
  const auto bad = [&](const char* separator, const Status& status) {
    return Status(Code::kInvalidArgument, options.job_file + separator + status.message());
  };
  const Result<std::string> text = read_text_file(options.job_file);
  if (!text.is_ok()) return bad(": ", text.status());
  Result<espresso::Job> job = parse_job(text.value());
  if (!job.is_ok()) return bad(":", job.status());
  const Status useful = check_options(job.value(), options);
  if (!useful.is_ok()) return bad(": ", useful);
  PricedJob priced{std::move(job).value(), {}};
  if (priced.job.compressor.name.empty()) {
    RINGPRESS_RETURN_IF_ERROR(price_host_calls(options.codec, &priced));
  }
  return priced;
}

}  // namespace

int print_plan(const PlanOptions& options) {
  Result<PricedJob> job = load_job(options);
  if (!job.is_ok()) {
    fmt::print(stderr, "ringpress plan: {}\n", job.status().message());
    return kBadFile;
  }
  const Planned planned = plan_job(std::move(job).value(), options);
  if (options.json) {
    print_json(planned);
  } else {
    print_job(planned.job);
    print_steps(planned);
    print_findings(planned);
    if (!options.summary) print_tensors(planned);
  }
  if (!options.rules_file.empty()) {
    const Status written = write_rules(planned, options.rules_file);
    if (!written.is_ok()) {
      fmt::print(stderr, "ringpress plan: {}\n", written.message());
      return written.code() == Code::kSystem ? EXIT_FAILURE : kBadFile;
    }
  }
  if (options.svg_file.empty()) return EXIT_SUCCESS;
  return write_picture(planned, options.svg_file) ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace ringpress::nccl_plugin::command
