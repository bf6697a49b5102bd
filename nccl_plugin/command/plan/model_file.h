// The model of a job as JSON, as RINGPRESS_TRACE writes it into job files and `ringpress schedule`
// takes it in files of jobs.
//
//   "model": {"workers": 4, "codec": "q4",                 with which it was measured
//     "bytes_per_step": 97517568,                                   of gradients, each step
//     "ratio_reduce_scatter": 0.15, "ratio_all_gather": 0.13,
//     "link_gigabytes_per_second": 0.118,
//     "codec_gigabytes_per_second": 2.1,                   may be left out: costs nothing
//     "compute_ms": 51.2, "overhead_ms": 0.4}
#ifndef NCCL_PLUGIN_COMMAND_PLAN_MODEL_FILE_H_
#define NCCL_PLUGIN_COMMAND_PLAN_MODEL_FILE_H_

#include <cstddef>
#include <string>

#include "nccl_plugin/command/plan/json_reader.h"
#include "ringpress/internal/job_model.h"

namespace ringpress::nccl_plugin::command {

struct MeasuredModel {
  JobModel model;
  std::size_t workers = 0;  // With which it was measured; 0: not said.
  std::string codec;        // Empty: not said.
};

MeasuredModel read_model(JsonReader reader);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_PLAN_MODEL_FILE_H_
