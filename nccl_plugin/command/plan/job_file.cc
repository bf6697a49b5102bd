#include "nccl_plugin/command/plan/job_file.h"

#include <fmt/core.h>

#include "nccl_plugin/command/plan/json_reader.h"
#include "nccl_plugin/command/plan/model_file.h"

namespace ringpress::nccl_plugin::command {
namespace {

constexpr double kMostBytes = 9007199254740992.0;  // 2^53: so far numbers of JSON are exact.
constexpr double kMostRanks = 1 << 20;

constexpr Range kCount = {1, kMostRanks, true, "a whole number from 1 to 2^20"};
constexpr Range kBytes = {1, kMostBytes, true, "a whole number from 1 to 2^53"};
constexpr Range kTime = {0, 1e12, false, "a number from 0 to 1e12"};
constexpr Range kRate = {1e-9, 1e9, false, "a number from 1e-9 to 1e9"};
constexpr Range kRatio = {1e-9, 1, false, "a number from 1e-9 to 1"};

constexpr double kMicro = 1e-6;

double seconds_per_byte(JsonReader* reader) {
  return 1e-9 / reader->number("gigabytes_per_second", kRate);
}

espresso::Link read_link(JsonReader reader) {
  reader.check_names({"latency_us", "gigabytes_per_second"}, {});
  return {kMicro * reader.number("latency_us", kTime), 1 / seconds_per_byte(&reader)};
}

espresso::CodecCost read_cost(JsonReader reader) {
  reader.check_names({"start_us", "gigabytes_per_second"}, {});
  return {kMicro * reader.number("start_us", kTime), seconds_per_byte(&reader)};
}

espresso::DeviceCosts read_costs(JsonReader reader) {
  reader.check_names({"compress", "decompress"}, {});
  return {read_cost(reader.object("compress")), read_cost(reader.object("decompress"))};
}

espresso::Compressor read_compressor(JsonReader reader) {
  reader.check_names({"ratio", "gpu"}, {"cpu", "name", "note"});
  espresso::Compressor compressor;
  compressor.name = reader.text("name");
  compressor.ratio = reader.number("ratio", kRatio);
  compressor.gpu = read_costs(reader.object("gpu"));
  if (reader.has("cpu")) compressor.cpu = read_costs(reader.object("cpu"));
  reader.text("note");
  return compressor;
}

espresso::Tensor read_tensor(JsonReader reader) {
  reader.check_names({"bytes", "backward_us"}, {"name", "after_call_us"});
  espresso::Tensor tensor = {reader.text("name"),
                             static_cast<std::size_t>(reader.number("bytes", kBytes)),
                             kMicro * reader.number("backward_us", kTime)};
  if (reader.has("after_call_us")) {
    tensor.after_seconds = kMicro * reader.number("after_call_us", kTime);
  }
  return tensor;
}

espresso::Job read_job(JsonReader reader) {
  reader.check_names({"machines", "gpus_per_machine", "inside", "between", "tensors"},
                     {"name", "note", "forward_ms", "compressor", "model"});
  espresso::Job job;
  job.name = reader.text("name");
  job.note = reader.text("note");
  job.cluster.machines = static_cast<std::size_t>(reader.number("machines", kCount));
  job.cluster.gpus_per_machine =
      static_cast<std::size_t>(reader.number("gpus_per_machine", kCount));
  const std::size_t ranks = job.cluster.machines * job.cluster.gpus_per_machine;
  if (static_cast<double>(ranks) > kMostRanks) {
    reader.refuse_value("gpus_per_machine", "machines x gpus_per_machine must be at most 2^20");
  }
  job.cluster.inside = read_link(reader.object("inside"));
  job.cluster.between = read_link(reader.object("between"));
  if (reader.has("model")) read_model(reader.object("model"));
  if (reader.has("compressor")) {
    job.compressor = read_compressor(reader.object("compressor"));
    if (job.compressor.name.empty()) job.compressor.name = "compressor";
  }
  job.forward_seconds = 1000 * kMicro * reader.number("forward_ms", kTime, 0);
  for (std::size_t i = 0; i < reader.list("tensors", "tensors").size(); ++i) {
    job.tensors.push_back(read_tensor(reader.item("tensors", i)));
    espresso::Tensor& tensor = job.tensors.back();
    if (tensor.name.empty()) tensor.name = fmt::format("tensor {}", i);
    if (tensor.after_seconds && !job.compressor.name.empty()) {
      reader.item("tensors", i)
          .refuse_value("after_call_us",
                        "is for a job without \"compressor\", whose calls are one piece of work");
    }
  }
  return job;
}

}  // namespace

Result<espresso::Job> parse_job(std::string_view text) {
  RINGPRESS_ASSIGN_OR_RETURN(const JsonNode root, parse_json(text));
  Status status;
  espresso::Job job = read_job(JsonReader(root, "", &status, "the job"));
  if (!status.is_ok()) return status;
  RINGPRESS_RETURN_IF_ERROR(check(job));
  return job;
}

}  // namespace ringpress::nccl_plugin::command
