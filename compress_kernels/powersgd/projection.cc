// The all-reduce of powersgd, on one rank (ringpress/internal/projection.h). X: this rank's values
// plus its residual, as a matrix; Q0: the columns of the last call's Q, each of norm 1, or random
// ones.
//
//   round 0   X Q0                 summed: P, whose columns every rank makes orthonormal
//   round 1   own Q = X^T P        summed: Q
//   finish    result = P Q^T, for averages divided by the number of ranks
//             residual = X - P own Q^T: what of its own values this rank has not got across
//             state = the columns of Q, each of norm 1; random ones in the place of zero columns,
//             which would stay zero for ever
//
// Values of parts that are not projected are in round 0 as they are: their residual is zero.
//
// A matrix whose P or Q is not finite when summed, which all ranks see alike, comes out NaN; its
// residual stays as it was, and so does its state.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "compress_kernels/core/element.h"
#include "compress_kernels/core/reduce.h"
#include "compress_kernels/factory.h"
#include "compress_kernels/powersgd/factors.h"
#include "compress_kernels/powersgd/parts.h"
#include "compress_kernels/powersgd/powersgd.h"

namespace ringpress::compress_kernels::powersgd {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class PowerProjection : public Projection {
 public:
  PowerProjection(const Parameters& parameters, const Kernels& kernels,
                  std::unique_ptr<Codec> inner)
      : rank_(parameters.rank),
        dtype_(parameters.dtype),
        kernels_(kernels),
        inner_(std::move(inner)) {}

  const Codec& inner() const override { return *inner_; }
  int rounds() const override { return 2; }
  std::size_t projected_count(int round, const TensorShape& shape) const override {
    const Part end = for_each_part(shape, rank_, [](const Part&) {});
    return round == 0 ? end.first_round : end.second_round;
  }
  std::size_t state_count(const TensorShape& shape) const override {
    return projected_count(1, shape);
  }

  void project(int round, const ProjectArgs& args) const override {
    for_each_part(args.shape, rank_, [&](const Part& part) {
      if (round == 0) {
        project_left(part, args);
      } else if (part.is_matrix()) {
        project_right(part, args);
      }
    });
  }

  void finish(const ProjectArgs& args) const override {
    for_each_part(args.shape, rank_, [&](const Part& part) {
      if (part.is_matrix()) {
        finish_matrix(part, args);
      } else {
        finish_values(part, args);
      }
    });
  }

 private:
  MatrixView view(const Part& part, const ProjectArgs& args) const {
    MatrixView view{part.shape, part.count, dtype_, nullptr, nullptr};
    view.values = static_cast<const std::byte*>(args.values) + part.offset * dtype_size(dtype_);
    if (args.residual != nullptr) view.residual = args.residual + part.offset;
    return view;
  }
  static RandomKey random_key(const Part& part, const ProjectArgs& args) {
    return {args.seed, args.step, static_cast<std::uint32_t>(part.index), 0};
  }

  void project_left(const Part& part, const ProjectArgs& args) const {
    float* own = args.own[0] + part.first_round;
    const MatrixView matrix = view(part, args);
    if (!part.is_matrix()) {
      load_values(matrix, own);
      return;
    }
    std::vector<float> q;
    if (args.state_is_warm) {
      q = spread_columns(args.state + part.second_round, part.shape.columns, rank_);
    } else {
      q.resize(rank_ * stride_of(part.shape.columns));
      for (std::size_t k = 0; k < rank_; ++k) {
        draw_column(random_key(part, args), k, part.shape.columns,
                    q.data() + k * stride_of(part.shape.columns));
      }
    }
    kernels_.left(matrix, rank_, q.data(), own);
  }

  void project_right(const Part& part, const ProjectArgs& args) const {
    float* p = args.summed[0] + part.first_round;
    float* own = args.own[1] + part.second_round;
    if (!all_finite(p, rank_ * part.shape.rows)) {
      p[0] = kNan;  // finish() looks there.
      std::fill_n(own, rank_ * part.shape.columns, 0.0f);
      return;
    }
    orthonormalise(part.shape.rows, rank_, p);
    std::vector<float> q(rank_ * stride_of(part.shape.columns));
    kernels_.right(view(part, args), rank_, p, q.data());
    gather_columns(q.data(), part.shape.columns, rank_, own);
  }

  void finish_matrix(const Part& part, const ProjectArgs& args) const {
    const float* p = args.summed[0] + part.first_round;
    const float* sum = args.summed[1] + part.second_round;
    std::byte* result = static_cast<std::byte*>(args.result) + part.offset * dtype_size(dtype_);
    const std::size_t columns = part.shape.columns;
    if (!core::is_finite(p[0]) || !all_finite(sum, rank_ * columns)) {
      fill(kNan, part.count, result);
      if (args.state != nullptr && !args.state_is_warm) draw_state(part, args);
      return;
    }
    std::vector<float> q = spread_columns(sum, columns, rank_);
    for (float& value : q) value = core::divide(value, args.divisor);
    std::vector<float> own_q;
    RebuildArgs rebuild;
    rebuild.shape = part.shape;
    rebuild.count = part.count;
    rebuild.rank = rank_;
    rebuild.p = p;
    rebuild.q = q.data();
    rebuild.result = result;
    rebuild.result_dtype = dtype_;
    if (args.residual != nullptr) {
      own_q = spread_columns(args.own[1] + part.second_round, columns, rank_);
      rebuild.own = view(part, args);
      rebuild.own_q = own_q.data();
      rebuild.residual = args.residual + part.offset;
    }
    kernels_.rebuild(rebuild);
    if (args.state != nullptr) keep_state(part, args, sum);
  }

  void keep_state(const Part& part, const ProjectArgs& args, const float* sum) const {
    const std::size_t columns = part.shape.columns;
    float* state = args.state + part.second_round;
    std::copy_n(sum, rank_ * columns, state);
    for (std::size_t k = 0; k < rank_; ++k) {
      if (normalise(columns, state + k * columns)) continue;
      draw_column(random_key(part, args), k, columns, state + k * columns);
    }
  }
  void draw_state(const Part& part, const ProjectArgs& args) const {
    for (std::size_t k = 0; k < rank_; ++k) {
      draw_column(random_key(part, args), k, part.shape.columns,
                  args.state + part.second_round + k * part.shape.columns);
    }
  }

  void load_values(const MatrixView& values, float* own) const {
    core::for_each_value(dtype_, values.values, values.count,
                         [&](std::size_t i, float value) { own[i] = value; });
    if (values.residual == nullptr) return;
    for (std::size_t i = 0; i < values.count; ++i) own[i] += values.residual[i];
  }

  void fill(float value, std::size_t count, std::byte* result) const {
    core::store_values(dtype_, result, count, [&](std::size_t) { return value; });
  }

  void finish_values(const Part& part, const ProjectArgs& args) const {
    const float* own = args.own[0] + part.first_round;
    const float* sum = args.summed[0] + part.first_round;
    std::byte* result = static_cast<std::byte*>(args.result) + part.offset * dtype_size(dtype_);
    core::store_values(dtype_, result, part.count,
                       [&](std::size_t i) { return core::divide(sum[i], args.divisor); });
    if (args.residual == nullptr) return;
    for (std::size_t i = 0; i < part.count; ++i) {
      if (core::is_finite(own[i])) args.residual[part.offset + i] = 0;
    }
  }

  const std::size_t rank_;
  const DType dtype_;
  const Kernels& kernels_;
  const std::unique_ptr<Codec> inner_;
};

}  // namespace

std::unique_ptr<Projection> make_projection(const Parameters& parameters, const Kernels& kernels) {
  auto inner = make_codec("none", DType::kFloat32, ReduceOp::kSum);
  return std::make_unique<PowerProjection>(parameters, kernels, std::move(inner).value());
}

}  // namespace ringpress::compress_kernels::powersgd
