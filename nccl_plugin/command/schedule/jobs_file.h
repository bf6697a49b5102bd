// Jobs that want to run on a cluster, as JSON.
//
//   {"name": "tuesday", "note": "free text",                  may be left out
//    "slot_seconds": 60,                                      needed where a job has a model, and
//                                                             allowed only there
//    "jobs": [{"name": "bert", "arrival": 0,                  the first slot in which it may run
//      "workers": 5,                                          at most, at a time
//      "least_workers": 2,                                    if it runs; may be left out: 1
//      "needs": {"gpus": 1, "memory_gb": 40},                 of each worker
//      "lifetime": {"gpus": 4000},                            in all, times slots: a slot's at
//                                                             least; may be left out: no end
//      "ring_gigabits_per_second": 2.5,                       that its ring reserves, uncompressed
//      "ratio": 0.25,                                         bytes on the wire over raw ones
//      "iterations_per_worker_slot": 120, "utility": {"kind": "sqrt", "scale": 10}}, ...]}
//
// In place of "iterations_per_worker_slot" and "ratio" a job may have a measured "model"
// (nccl_plugin/command/plan/model_file.h). Its ring goes as fast as the rate that it reserves, and
// no faster than the model's link, so it never reserves more than that; with a rate of 0 it
// reserves nothing and has the model's link. A step with all its workers then takes what the model
// says. If it is compressed, and has a rate and more than one worker, it has a choice in each slot:
// less time, where it reserves that rate and sends fewer bytes, or less reserved: the mean ratio of
// both halves times that rate, over which the fewer bytes take as long as all would.
//
// Utilities of k iterations, counted over all workers: "sqrt": scale sqrt(k); "log": scale
// log(1 + k); "sigmoid": scale / (1 + exp(-steepness (k - midpoint))); "energy": scale k - cost
// k^2.
#ifndef NCCL_PLUGIN_COMMAND_SCHEDULE_JOBS_FILE_H_
#define NCCL_PLUGIN_COMMAND_SCHEDULE_JOBS_FILE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "ringpress/internal/gadget.h"

namespace ringpress::nccl_plugin::command {

/// Of a job's model; empty where that does not say.
struct MeasuredWith {
  bool is_there = false;  // The job has a model.
  std::size_t workers = 0;
  std::string codec;
};

struct JobsFile {
  std::string name;         // Empty: none.
  double slot_seconds = 0;  // 0: not said.
  std::vector<gadget::Job> jobs;
  std::vector<MeasuredWith> measured_with;  // Of each job.
};

/// Errors are as those of parse_cluster(); a job larger than the cluster is one.
Result<JobsFile> parse_jobs(std::string_view text, const gadget::Cluster& cluster);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_SCHEDULE_JOBS_FILE_H_
