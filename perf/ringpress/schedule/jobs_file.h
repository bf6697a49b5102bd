// Jobs that want to run on a cluster, as JSON.
//
//   {"name": "tuesday", "note": "free text",                  may be left out
//    "slot_seconds": 60,                                      needed where a job has a model
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
// (perf/ringpress/plan/model_file.h): a step with all its workers takes what that says of links of
// the rate that the ring reserves, and the ratio is the mean of both halves.
//
// Utilities of k iterations, counted over all workers: "sqrt": scale sqrt(k); "log": scale
// log(1 + k); "sigmoid": scale / (1 + exp(-steepness (k - midpoint))); "energy": scale k - cost
// k^2.
#ifndef PERF_RINGPRESS_SCHEDULE_JOBS_FILE_H_
#define PERF_RINGPRESS_SCHEDULE_JOBS_FILE_H_

#include <string_view>
#include <vector>

#include "ringpress/gadget.h"

namespace ringpress::perf {

/// Errors are as those of parse_cluster(); a job larger than the cluster is one.
Result<std::vector<gadget::Job>> parse_jobs(std::string_view text, const gadget::Cluster& cluster);

}  // namespace ringpress::perf

#endif  // PERF_RINGPRESS_SCHEDULE_JOBS_FILE_H_
