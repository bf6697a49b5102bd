// All-reduces of codecs with a projection, in this process: all ranks project, what they projected
// is summed, all finish. States and residuals stay from call to call.
#ifndef PERF_ACCURACY_PROJECTED_SIMULATION_H_
#define PERF_ACCURACY_PROJECTED_SIMULATION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "perf/accuracy/laws.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/projection.h"

namespace ringpress::perf {

class ProjectedSimulation {
 public:
  /// `codec` of float32 and ReduceOp::kSum, and `inputs` must outlive this.
  ProjectedSimulation(const Codec& codec, const RankTensors& inputs, bool error_feedback);

  /// The result of call number `number`.
  std::vector<float> step(std::uint64_t number);
  /// Of all contributions to sums, and of the sums.
  std::size_t sent_bytes() const { return sent_bytes_; }

 private:
  ProjectArgs arguments(std::size_t rank, std::uint64_t number);
  /// One contribution after the other is decoded and added on the rank of the first.
  std::vector<float> sum(const RankTensors& projected, RankTensors* dropped);

  const Codec& codec_;
  const Projection& projection_;
  const RankTensors& inputs_;
  const TensorShape shape_;
  RankTensors residuals_;
  RankTensors states_;
  bool is_warm_ = false;
  std::uint64_t step_ = 0;
  std::size_t sent_bytes_ = 0;
};

}  // namespace ringpress::perf

#endif  // PERF_ACCURACY_PROJECTED_SIMULATION_H_
