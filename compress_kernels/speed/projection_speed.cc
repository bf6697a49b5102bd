#include "compress_kernels/speed/projection_speed.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "compress_kernels/speed/timing.h"
#include "ringpress/internal/projection.h"

namespace ringpress::compress_kernels::speed {
namespace {

// Two sizes that show how what is projected grows, in values: large enough that whole rows and
// columns make no difference.
constexpr std::size_t kSmallerCount = std::size_t{1} << 22;
constexpr std::size_t kLargerCount = std::size_t{1} << 26;

double projected_values(const Projection& projection, std::size_t count) {
  double values = 0;
  for (int round = 0; round < projection.rounds(); ++round) {
    values += static_cast<double>(projection.projected_count(round, {count, {}}));
  }
  return values;
}

/// a s + b sqrt(s), in bytes, through two points.
ProjectionCost sizes_of(const Projection& projection, DType dtype) {
  const auto bytes = static_cast<double>(dtype_size(dtype));
  const auto root_of = [&](std::size_t count) {
    return std::sqrt(static_cast<double>(count) * bytes);
  };
  const auto per_root = [&](std::size_t count) {
    return sizeof(float) * projected_values(projection, count) / root_of(count);
  };
  const double smaller = per_root(kSmallerCount);
  const double larger = per_root(kLargerCount);
  ProjectionCost cost;
  cost.rounds = projection.rounds();
  cost.most = sizeof(float) / bytes;
  cost.share = std::max(0.0, (larger - smaller) / (root_of(kLargerCount) - root_of(kSmallerCount)));
  cost.of_root = std::max(0.0, larger - cost.share * root_of(kLargerCount));
  return cost;
}

/// A codec with all that its operations want, as on a single rank.
class ProjectionBench {
 public:
  ProjectionBench(std::unique_ptr<Codec> codec, std::size_t count, ErrorOf values)
      : most_(count),
        codec_(std::move(codec)),
        projection_(*codec_->projection()),
        values_(make_elements(values, codec_->dtype(), count)),
        result_(values_.size()),
        residual_(count),
        state_(projection_.state_count({count, {}})) {
    for (int round = 0; round < projection_.rounds(); ++round) {
      const std::size_t projected = projection_.projected_count(round, {count, {}});
      own_memory_.emplace_back(projected);
      sum_memory_.emplace_back(projected);
      own_.push_back(own_memory_.back().data());
      summed_.push_back(sum_memory_.back().data());
      dropped_.push_back(nullptr);
    }
  }

  void all_reduce(std::size_t count) {
    ProjectArgs args;
    args.shape = {count, {}};
    args.values = values_.data();
    args.residual = residual_.data();
    args.state = state_.empty() ? nullptr : state_.data();
    args.own = own_;
    args.summed = summed_;
    args.dropped = dropped_;
    args.result = result_.data();
    for (int round = 0; round < projection_.rounds(); ++round) {
      const auto r = static_cast<std::size_t>(round);
      projection_.project(round, args);
      std::copy_n(own_[r], projection_.projected_count(round, args.shape), summed_[r]);
    }
    projection_.finish(args);
  }

  /// Of the first call.
  double measure_error(std::size_t count) {
    all_reduce(count);
    return relative_error(codec_->dtype(), values_.data(), result_.data(), count);
  }

  OperationCost measure() {
    return cost_of([this](std::size_t count) { all_reduce(count); }, dtype_size(codec_->dtype()),
                   most_);
  }

 private:
  std::size_t most_;  // Values that it is measured on.
  std::unique_ptr<Codec> codec_;
  const Projection& projection_;
  std::vector<std::byte> values_;
  std::vector<std::byte> result_;
  std::vector<float> residual_;
  std::vector<float> state_;
  std::vector<std::vector<float>> own_memory_;
  std::vector<std::vector<float>> sum_memory_;
  std::vector<float*> own_;
  std::vector<float*> summed_;
  std::vector<float*> dropped_;
};

}  // namespace

Result<CodecSpeed> measure_projection(const std::string& specification, DType dtype,
                                      const MeasuredFor& use) {
  RINGPRESS_ASSIGN_OR_RETURN(auto codec, make_codec(specification, dtype, ReduceOp::kSum));
  const std::string inner = codec->projection()->inner().specification();
  RINGPRESS_ASSIGN_OR_RETURN(CodecSpeed speed, measure_codec(inner, DType::kFloat32, use));
  speed.codec = codec->specification();
  speed.sums_exactly = !speed.requantises();
  speed.projection = sizes_of(*codec->projection(), dtype);
  RINGPRESS_ASSIGN_OR_RETURN(
      const double left_out,
      measure_projection_error(specification, dtype, ErrorOf::kNormalValues));
  // What is projected keeps sqrt(1 - left_out^2) of the values' norm, and the inner codec loses of
  // that.
  const double kept = std::sqrt(std::max(0.0, 1 - left_out * left_out));
  speed.error = std::hypot(left_out, kept * speed.error);
  const std::size_t count = use.where == ValuesIn::kCache ? kLarge : kWhole;
  speed.look = ProjectionBench(std::move(codec), count, ErrorOf::kNormalValues).measure();
  return speed;
}

Result<double> measure_projection_error(const std::string& specification, DType dtype,
                                        ErrorOf values) {
  RINGPRESS_ASSIGN_OR_RETURN(auto codec, make_codec(specification, dtype, ReduceOp::kSum));
  return ProjectionBench(std::move(codec), kDifferent, values).measure_error(kDifferent);
}

}  // namespace ringpress::compress_kernels::speed
