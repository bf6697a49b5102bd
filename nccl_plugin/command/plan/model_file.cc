#include "nccl_plugin/command/plan/model_file.h"

namespace ringpress::nccl_plugin::command {
namespace {

constexpr Range kWorkers = {1, 1 << 20, true, "a whole number from 1 to 2^20"};
constexpr Range kBytes = {1, 9007199254740992.0, true, "a whole number from 1 to 2^53"};
constexpr Range kRatio = {1e-9, 2, false, "a number from 1e-9 to 2"};
constexpr Range kRate = {1e-9, 1e9, false, "a number from 1e-9 to 1e9"};
constexpr Range kTime = {0, 1e12, false, "a number from 0 to 1e12"};

}  // namespace

MeasuredModel read_model(JsonReader reader) {
  reader.check_names({"bytes_per_step", "ratio_reduce_scatter", "ratio_all_gather",
                      "link_gigabytes_per_second", "compute_ms", "overhead_ms"},
                     {"workers", "codec", "codec_gigabytes_per_second"});
  MeasuredModel measured;
  measured.workers = static_cast<std::size_t>(reader.number("workers", kWorkers, 0));
  measured.codec = reader.text("codec");
  JobModel& model = measured.model;
  model.bytes = reader.number("bytes_per_step", kBytes);
  model.ratio_reduce_scatter = reader.number("ratio_reduce_scatter", kRatio);
  model.ratio_all_gather = reader.number("ratio_all_gather", kRatio);
  model.bytes_per_second = 1e9 * reader.number("link_gigabytes_per_second", kRate);
  if (reader.has("codec_gigabytes_per_second")) {
    model.codec_seconds_per_byte = 1e-9 / reader.number("codec_gigabytes_per_second", kRate);
  }
  model.compute_seconds = 1e-3 * reader.number("compute_ms", kTime);
  model.overhead_seconds = 1e-3 * reader.number("overhead_ms", kTime);
  return measured;
}

}  // namespace ringpress::nccl_plugin::command
