#include "nccl_plugin/command/plan/templates.h"

namespace ringpress::nccl_plugin::command {

const char* const kJobTemplate =
    R"({"name": "my model",
 "note": "tensors stand in the order in which backward makes their gradients; bytes are those of gradients; backward_us is the time of a tensor's own layer; RINGPRESS_TRACE=job.json PROGRAM records such a file",
 "machines": 2, "gpus_per_machine": 8,
 "inside":  {"latency_us": 5, "gigabytes_per_second": 120},
 "between": {"latency_us": 15, "gigabytes_per_second": 11},
 "compressor": {"name": "q4", "ratio": 0.13,
  "note": "ratio: compressed over raw bytes; rates are of raw bytes; cpu may be left out; without a compressor the job is on host memory, and a codec is measured here",
  "gpu": {"compress":   {"start_us": 5, "gigabytes_per_second": 900},
          "decompress": {"start_us": 5, "gigabytes_per_second": 1600}},
  "cpu": {"compress":   {"start_us": 20, "gigabytes_per_second": 3},
          "decompress": {"start_us": 20, "gigabytes_per_second": 10}}},
 "forward_ms": 20,
 "tensors": [
  {"name": "head.weight",    "bytes": 154389504, "backward_us": 9000},
  {"name": "layer.1.weight", "bytes": 9437184,   "backward_us": 1000},
  {"name": "layer.1.bias",   "bytes": 3072,      "backward_us": 5},
  {"name": "layer.0.weight", "bytes": 9437184,   "backward_us": 1000},
  {"name": "layer.0.bias",   "bytes": 3072,      "backward_us": 5}
 ]}
)";

const char* const kClusterTemplate =
    R"({"name": "my cluster",
 "note": "each rack has an uplink, each server a card, of so many Gb/s; a server has so much of each resource",
 "resources": ["gpus", "cores"],
 "racks":   [{"name": "rack0", "gigabits_per_second": 100},
             {"name": "rack1", "gigabits_per_second": 100}],
 "servers": [{"name": "host0", "rack": "rack0", "gigabits_per_second": 25, "has": {"gpus": 8, "cores": 64}},
             {"name": "host1", "rack": "rack0", "gigabits_per_second": 25, "has": {"gpus": 8, "cores": 64}},
             {"name": "host2", "rack": "rack1", "gigabits_per_second": 25, "has": {"gpus": 4, "cores": 32}}]}
)";

const char* const kJobsTemplate =
    R"({"name": "my jobs",
 "note": "arrival: a slot; needs: of one worker; a job has iterations_per_worker_slot and a ratio (compressed over raw bytes), or a model as RINGPRESS_TRACE records it; utility: sqrt, log, sigmoid or energy",
 "slot_seconds": 600,
 "jobs": [
  {"name": "small", "arrival": 0, "workers": 4, "least_workers": 2, "needs": {"gpus": 1, "cores": 4},
   "ring_gigabits_per_second": 5, "iterations_per_worker_slot": 1000, "ratio": 0.13,
   "lifetime": {"gpus": 40}, "utility": {"kind": "sqrt", "scale": 10}},
  {"name": "traced", "arrival": 1, "workers": 8, "needs": {"gpus": 1, "cores": 4},
   "ring_gigabits_per_second": 10,
   "model": {"workers": 4, "codec": "q4", "bytes_per_step": 97517568,
    "ratio_reduce_scatter": 0.15, "ratio_all_gather": 0.13, "link_gigabytes_per_second": 1.25,
    "codec_gigabytes_per_second": 2.1, "compute_ms": 51.2, "overhead_ms": 0.4},
   "lifetime": {"gpus": 80},
   "utility": {"kind": "sigmoid", "scale": 100, "steepness": 0.001, "midpoint": 20000}}
 ]}
)";

}  // namespace ringpress::nccl_plugin::command
