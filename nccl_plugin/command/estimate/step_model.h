// A step of data-parallel training: gradients are all-reduced in buckets while the backward pass
// makes more of them, as PyTorch's DDP does.
#ifndef NCCL_PLUGIN_COMMAND_ESTIMATE_STEP_MODEL_H_
#define NCCL_PLUGIN_COMMAND_ESTIMATE_STEP_MODEL_H_

#include <cstddef>

namespace ringpress::nccl_plugin::command {

struct Buckets {
  std::size_t bytes = 0;  // Of each but the last.
  std::size_t count = 0;  // With the last.
  std::size_t last = 0;   // Its bytes, from 1 to `bytes`.
};

/// Gradients of so many bytes; both above 0.
Buckets cut_into_buckets(double gradient_bytes, std::size_t bucket_bytes);

/// What all-reduces of a bucket and of the last one take, one after the other.
struct BucketSeconds {
  double each = 0;
  double last = 0;
};

struct StepTimes {
  double all_reduces = 0;  // Seconds of all.
  double exposed = 0;      // Of these, after the backward pass.
  double step = 0;
};

/// `compute`: seconds of forward, backward and optimizer, of which the backward pass is the part
/// `backward`. Buckets become ready evenly over it.
StepTimes time_step(const Buckets& buckets, const BucketSeconds& seconds, double compute,
                    double backward);

/// The time without communication of a step that takes `measured` with it; below 0: the all-reduces
/// alone take longer.
double compute_of_step(const Buckets& buckets, const BucketSeconds& seconds, double measured,
                       double backward);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_ESTIMATE_STEP_MODEL_H_
