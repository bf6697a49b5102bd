// The all-reduce of randk, on one rank (ringpress/internal/projection.h). x: value plus residual.
//
//   round 0   the values of this call's slice and a zero if it is short; then 0, or NaN if any x of
//             this rank is not finite
//   finish    result: the sums at the coordinates of the slice, elsewhere 0; NaN everywhere if the
//             last sum is not finite
//             residual: what the inner codec dropped at the coordinates of the slice, elsewhere x
//             state: the place in the cycle of slices
//
// A call that comes out NaN changes neither residual nor state. (Without a state, the session has
// counted its turn.)
#include <cstring>
#include <limits>
#include <utility>

#include "compress_kernels/core/element.h"
#include "compress_kernels/factory.h"
#include "compress_kernels/randk/randk.h"

namespace ringpress::compress_kernels::randk {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class RandomProjection : public Projection {
 public:
  RandomProjection(const Parameters& parameters, std::unique_ptr<Codec> inner,
                   const Kernels& kernels)
      : parameters_(parameters), inner_(std::move(inner)), kernels_(kernels) {}

  const Codec& inner() const override { return *inner_; }
  int rounds() const override { return 1; }
  std::size_t projected_count(int, const TensorShape& shape) const override {
    return slices(shape).longest() + 1;
  }
  std::size_t state_count(const TensorShape&) const override { return 2; }
  std::size_t cycle(const TensorShape& shape) const override { return slices(shape).number; }

  void project(int, const ProjectArgs& args) const override {
    const Slices slices_of_tensor = slices(args.shape);
    const core::ChunkValues x = values(args);
    float* own = args.own[0];
    if (slices_of_tensor.longest() > 0) own[slices_of_tensor.longest() - 1] = 0;
    for_each_chosen(args, [&](std::size_t place, std::size_t coordinate) {
      own[place] = load_one(x, coordinate);
    });
    own[slices_of_tensor.longest()] = kernels_.all_finite(x) ? 0.0f : kNan;
  }

  void finish(const ProjectArgs& args) const override {
    const float* sums = args.summed[0];
    if (!core::is_finite(sums[slices(args.shape).longest()])) {
      core::visit_compressible(parameters_.dtype, [&](auto tag) {
        for (std::size_t i = 0; i < args.shape.count; ++i) {
          core::store_wide<typename decltype(tag)::type>(args.result, i, kNan);
        }
      });
      // The place of now, which all ranks have alike; what a cold state holds they may not.
      keep(place(args), args.state);
      return;
    }
    if (keeps_residual(args)) kernels_.keep_all(values(args), args.residual);
    std::memset(args.result, 0, args.shape.count * dtype_size(parameters_.dtype));
    write_slice(args, sums);
    keep(slices(args.shape).place_after(place(args)), args.state);
  }

 private:
  Slices slices(const TensorShape& shape) const { return {parameters_.density, shape.count}; }

  SlicePlace place(const ProjectArgs& args) const {
    if (args.state_is_warm) return {args.state[0], args.state[1]};
    return {static_cast<float>(slices(args.shape).of_turn(args.turn)), 0};
  }
  std::size_t slice(const ProjectArgs& args) const {
    return slices(args.shape).of_place(place(args));
  }
  static void keep(SlicePlace place, float* state) {
    if (state == nullptr) return;
    state[0] = place.first;
    state[1] = place.turn;
  }

  bool keeps_residual(const ProjectArgs& args) const {
    return args.residual != nullptr && !parameters_.unbiased;
  }

  core::ChunkValues values(const ProjectArgs& args) const {
    return {args.values, args.shape.count, parameters_.dtype,
            keeps_residual(args) ? args.residual : nullptr};
  }

  template <typename Use>
  void for_each_chosen(const ProjectArgs& args, Use&& use) const {
    const Permutation permutation(args.seed, args.shape.count);
    for_each_in_slice(permutation, slices(args.shape), slice(args), use);
  }

  void write_slice(const ProjectArgs& args, const float* sums) const {
    const float* dropped = args.dropped.empty() ? nullptr : args.dropped[0];
    const float factor =
        parameters_.unbiased ? static_cast<float>(slices(args.shape).number) : 1.0f;
    core::visit_compressible(parameters_.dtype, [&](auto tag) {
      for_each_chosen(args, [&](std::size_t place, std::size_t coordinate) {
        core::store_wide<typename decltype(tag)::type>(
            args.result, coordinate, result_of(sums[place], args.divisor, factor));
        if (!keeps_residual(args)) return;
        args.residual[coordinate] = dropped == nullptr ? 0.0f : dropped[place];
      });
    });
  }

  const Parameters parameters_;
  const std::unique_ptr<Codec> inner_;
  const Kernels& kernels_;
};

}  // namespace

std::unique_ptr<Projection> make_projection(const Parameters& parameters, const std::string& code,
                                            const Kernels& kernels) {
  auto inner = make_codec(code, DType::kFloat32, ReduceOp::kSum);
  return std::make_unique<RandomProjection>(parameters, std::move(inner).value(), kernels);
}

}  // namespace ringpress::compress_kernels::randk
