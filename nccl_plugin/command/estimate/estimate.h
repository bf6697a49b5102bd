// ringpress estimate: whether compression is worth it for a training, by what is known of the model
// and the machines.
#ifndef NCCL_PLUGIN_COMMAND_ESTIMATE_ESTIMATE_H_
#define NCCL_PLUGIN_COMMAND_ESTIMATE_ESTIMATE_H_

#include <optional>
#include <string>
#include <vector>

#include "nccl_plugin/command/estimate/reductions.h"
#include "nccl_plugin/command/estimate/step_model.h"

namespace ringpress::nccl_plugin::command {

/// As on the command line.
struct EstimateOptions {
  std::string params;          // 1.3B.
  std::string dtype = "bf16";  // Of gradients.
  int gpus = 0;                // Ranks.
  int per_host = 0;            // Ranks of a host; 0: 8 where that divides them, else all.
  std::string net;             // Of a host: 100gbit.
  std::string latency = "30us";
  std::string inside;  // Between the GPUs of a host, of each; empty: as the GPU's links are.
  double step_ms = 0;
  bool is_measured_step = false;  // `step_ms` is with communication, without compression.
  std::string gpu = "h100";       // none: on host memory.
  int cores = 32;                 // Of a host.
  std::string bucket = "25M";
  std::string codecs = "q8,q4,q2";
  std::string doors;  // "A,B"; empty: all that there are for such machines.
  bool json = false;
};

/// One way to reduce, and what a step takes with it.
struct EstimateRow {
  std::optional<Door> door;  // None: without compression.
  std::string codec;
  Rates rates = Rates::kMeasuredHere;
  Reduction bucket;          // Of a whole bucket.
  double leaving_bytes = 0;  // Of a host, in a step.
  StepTimes times;
  // Of the step without compression over the step with it; what is likely, from measurements.
  double speed_up = 1;
  double least_speed_up = 1;
  double most_speed_up = 1;
};

struct Estimate {
  Machines machines;
  Buckets buckets;
  double parameters = 0;
  double gradient_bytes = 0;
  double compute = 0;             // Seconds of a step without communication.
  std::vector<EstimateRow> rows;  // The first one is without compression.
  std::vector<std::string> notes;

  /// The one with the largest speed-up; the first where none is quicker.
  const EstimateRow& best() const;
};

/// Throws terminal::Error for a mistake in the options, which it names.
Estimate make_estimate(const EstimateOptions& options);

/// One sentence.
std::string advice_on(const Estimate& estimate, const EstimateOptions& options);

/// Prints it. Throws as make_estimate().
int print_estimate(const EstimateOptions& options);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_ESTIMATE_ESTIMATE_H_
