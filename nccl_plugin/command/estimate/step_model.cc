#include "nccl_plugin/command/estimate/step_model.h"

#include <algorithm>
#include <cmath>

namespace ringpress::nccl_plugin::command {

Buckets cut_into_buckets(double gradient_bytes, std::size_t bucket_bytes) {
  const double each = static_cast<double>(bucket_bytes);
  const double count = std::max(1.0, std::ceil(gradient_bytes / each));
  return {bucket_bytes, static_cast<std::size_t>(count),
          static_cast<std::size_t>(gradient_bytes - (count - 1) * each)};
}

StepTimes time_step(const Buckets& buckets, const BucketSeconds& seconds, double compute,
                    double backward) {
  const auto count = static_cast<double>(buckets.count);
  const double of_backward = backward * compute;
  // The first bucket is ready after its share of the pass. From then on either all-reduces wait for
  // buckets, or buckets wait for all-reduces.
  const double queued = of_backward / count + (count - 1) * seconds.each;
  StepTimes times;
  times.all_reduces = (count - 1) * seconds.each + seconds.last;
  times.exposed = std::max(of_backward, queued) + seconds.last - of_backward;
  times.step = compute + times.exposed;
  return times;
}

double compute_of_step(const Buckets& buckets, const BucketSeconds& seconds, double measured,
                       double backward) {
  constexpr int kHalvings = 60;
  double least = 0, most = measured;
  if (time_step(buckets, seconds, least, backward).step > measured) return -1;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (least + most) / 2;
    (time_step(buckets, seconds, middle, backward).step > measured ? most : least) = middle;
  }
  return least;
}

}  // namespace ringpress::nccl_plugin::command
