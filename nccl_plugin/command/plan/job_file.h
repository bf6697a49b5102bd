// Job files: what Espresso's planner is asked about, as JSON.
//
//   {"name": "BERT-base", "note": "free text",
//    "machines": 8, "gpus_per_machine": 8,
//    "inside":  {"latency_us": 5, "gigabytes_per_second": 120},     from GPU to GPU of a machine
//    "between": {"latency_us": 15, "gigabytes_per_second": 11},     of a machine's network card
//    "compressor": {"name": "topk:density=0.01", "ratio": 0.02,     compressed over raw bytes
//      "gpu": {"compress":   {"start_us": 30, "gigabytes_per_second": 100},  of raw bytes
//              "decompress": {"start_us": 20, "gigabytes_per_second": 400}},
//      "cpu": {...}},                                               as gpu, for one GPU's part of
//      it;
//    "model": {...},                                                may be left out: for `ringpress
//                                                                   schedule` (model_file.h); a
//                                                                   plan does not depend on it
//    "forward_ms": 21.5,                                            may be left out
//    "tensors": [{"name": "pooler.bias", "bytes": 3072, "backward_us": 4.5}, ...]}
//
// Without "compressor" it is a job on host memory, as RINGPRESS_TRACE records one: a call is one
// piece of work, and `ringpress plan` measures a codec on this machine. There, a tensor may have
// "after_call_us" too: when "backward_us" have passed the program waits until the call of the
// tensor before has ended, computes for so long, and only then is the gradient there. Without it
// the program does not wait.
//
// Tensors, 10000 at most, stand in the order in which backward makes their gradients. A name may be
// left out where nothing is said, "note" too; all else must be there, and nothing else may.
#ifndef NCCL_PLUGIN_COMMAND_PLAN_JOB_FILE_H_
#define NCCL_PLUGIN_COMMAND_PLAN_JOB_FILE_H_

#include <string_view>

#include "ringpress/internal/espresso.h"

namespace ringpress::nccl_plugin::command {

/// The compressor's name is empty where there is none. An error begins with the line, then names
/// the key and what is allowed there, as "7: tensors[3].bytes: must be a whole number from 1 to
/// 2^53, not -4".
Result<espresso::Job> parse_job(std::string_view text);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_PLAN_JOB_FILE_H_
