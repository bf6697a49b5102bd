// All-reduces of a DeviceProjection, and what differs between those of two of them. The ranks take
// their turns on one device, and their sums are taken here. Knows nothing of GoogleTest: tests/gpu/
// runs it where there is none.
#ifndef TESTS_COMPRESS_KERNELS_PROJECTION_CASE_H_
#define TESTS_COMPRESS_KERNELS_PROJECTION_CASE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "ringpress/internal/device.h"
#include "tests/compress_kernels/codec_data.h"
#include "tests/compress_kernels/device_array.h"

namespace ringpress::compress_kernels::testing {

struct ProjectionCase {
  std::string specification;
  DType dtype = DType::kFloat32;
  std::size_t count = 0;
  std::vector<Layer> layers;
  Values kind = Values::kNormal;
  std::uint32_t seed = 1;
  std::size_t offset = 0;  // Misalignment of arrays, in elements.
  std::size_t world = 2;
  std::size_t steps = 3;
  bool is_average = false;
  bool residual = true;
  bool in_place = false;
  bool drops = false;             // The sums are taken by a codec that loses something.
  std::size_t step_without = 99;  // In which the last rank has no state.

  TensorShape shape() const { return {count, layers}; }
};

inline std::ostream& operator<<(std::ostream& stream, const ProjectionCase& c) {
  return stream << c.specification << ' ' << dtype_name(c.dtype) << ' ' << c.count << " layers "
                << c.layers.size() << " kind " << static_cast<int>(c.kind) << " seed " << c.seed
                << " offset " << c.offset << " world " << c.world << " average " << c.is_average
                << " residual " << c.residual << " in place " << c.in_place << " drops " << c.drops
                << " without state " << c.step_without;
}

/// One rank's arrays.
class ProjectionRank {
 public:
  using Arrays = std::vector<std::unique_ptr<DeviceArray>>;

  ProjectionRank(const ProjectionCase& c, Device& device, const DeviceProjection& projection)
      : device_(device) {
    const Projection& sizes = *projection.codec().projection();
    const std::size_t bytes = dtype_size(c.dtype);
    values = make(c.count * bytes, c.offset * bytes);
    result = make(c.count * bytes, c.offset * 3 % 7 * bytes);
    residual = make(c.count * sizeof(float), c.offset * 5 % 11 * sizeof(float));
    state = make(sizes.state_count(c.shape()) * sizeof(float), 8);
    state_call = make(sizeof(std::uint64_t));
    tags = make(2 * sizeof(std::uint64_t));
    scratch = make(projection.scratch_count(c.shape()) * sizeof(float));
    for (const auto* array : {&residual, &state, &state_call}) (*array)->zero();
    for (int round = 0; round < sizes.rounds(); ++round) {
      const std::size_t count = sizes.projected_count(round, c.shape());
      for (Arrays* arrays : {&own, &summed, &dropped}) {
        arrays->push_back(make(count * sizeof(float), round * sizeof(float)));
      }
      own_floats_.push_back(own.back()->floats());
      summed_floats_.push_back(summed.back()->floats());
      dropped_floats_.push_back(dropped.back()->floats());
    }
  }

  DeviceProjectArgs arguments(const ProjectionCase& c, std::size_t step, bool has_state) const {
    DeviceProjectArgs args;
    args.call.shape = c.shape();
    args.call.values = values->data();
    args.call.residual = c.residual ? residual->floats() : nullptr;
    args.call.seed = c.seed * 77;
    args.call.step = step + (std::uint64_t{3} << 32);
    args.call.turn = step;
    args.call.own = own_floats_;
    args.call.summed = summed_floats_;
    if (c.drops) args.call.dropped = dropped_floats_;
    args.call.divisor = c.is_average ? c.world : 1;
    args.call.result = c.in_place ? values->data() : result->data();
    if (has_state) {
      args.call.state = state->floats();
      args.state_call = reinterpret_cast<std::uint64_t*>(state_call->data());
    }
    args.tags = reinterpret_cast<std::uint64_t*>(tags->data());
    args.scratch = scratch->floats();
    return args;
  }

  /// Null, or the name of the first array that has other elements; NaNs are alike.
  const char* difference(const ProjectionRank& other, DType dtype) const {
    if (differs(*result, *other.result, dtype)) return "result";
    if (differs(*values, *other.values, dtype)) return "values";
    if (differs(*residual, *other.residual, DType::kFloat32)) return "residual";
    if (differs(*state, *other.state, DType::kFloat32)) return "state";
    if (differs(*state_call, *other.state_call, DType::kUint64)) return "call of the state";
    for (std::size_t round = 0; round < own.size(); ++round) {
      if (differs(*own[round], *other.own[round], DType::kFloat32)) return "what is projected";
    }
    return nullptr;
  }
  bool guards_intact() const {
    bool intact = true;
    for (const auto* array : {&values, &result, &residual, &state, &state_call, &tags, &scratch}) {
      intact &= (*array)->guards_intact();
    }
    for (const Arrays* arrays : {&own, &summed, &dropped}) {
      for (const auto& array : *arrays) intact &= array->guards_intact();
    }
    return intact;
  }

  std::unique_ptr<DeviceArray> values, result, residual, state, state_call, tags, scratch;
  Arrays own, summed, dropped;  // By round.

 private:
  std::unique_ptr<DeviceArray> make(std::size_t bytes, std::size_t offset = 0) const {
    return std::make_unique<DeviceArray>(device_, bytes, offset);
  }
  static bool differs(DeviceArray& a, DeviceArray& b, DType dtype) {
    const std::size_t count = a.bytes() / dtype_size(dtype);
    return first_difference(a.read(), b.read(), count, dtype) != count;
  }

  Device& device_;
  std::vector<float*> own_floats_, summed_floats_, dropped_floats_;
};

/// The ranks of a case on one device.
class ProjectionRanks {
 public:
  ProjectionRanks(const ProjectionCase& c, Device& device,
                  std::unique_ptr<DeviceProjection> projection)
      : case_(c), projection_(std::move(projection)) {
    for (std::size_t rank = 0; rank < c.world; ++rank) {
      ranks_.push_back(std::make_unique<ProjectionRank>(c, device, *projection_));
    }
  }

  /// One all-reduce.
  Status run(std::size_t step) {
    std::vector<DeviceProjectArgs> all;
    for (std::size_t rank = 0; rank < case_.world; ++rank) {
      const auto seed = case_.seed + static_cast<std::uint32_t>(100 * rank + step);
      // Values that are not finite come and go.
      const Values kind = step == 1 ? Values::kNormal : case_.kind;
      ranks_[rank]->values->write(draw_elements(case_.count, case_.dtype, kind, seed).data());
      const bool is_without = step == case_.step_without && rank + 1 == case_.world;
      all.push_back(ranks_[rank]->arguments(case_, step, !is_without));
      RINGPRESS_RETURN_IF_ERROR(projection_->offer_state(nullptr, all.back()));
    }
    take_least();
    for (std::size_t round = 0; round < ranks_[0]->own.size(); ++round) {
      for (const DeviceProjectArgs& args : all) {
        RINGPRESS_RETURN_IF_ERROR(projection_->project(nullptr, static_cast<int>(round), args));
      }
      sum(round);
    }
    for (const DeviceProjectArgs& args : all) {
      RINGPRESS_RETURN_IF_ERROR(projection_->finish(nullptr, args));
    }
    return Status::ok();
  }

  const ProjectionRank& rank(std::size_t number) const { return *ranks_[number]; }

 private:
  void take_least() {
    std::uint64_t least[2] = {~std::uint64_t{0}, ~std::uint64_t{0}};
    for (const auto& rank : ranks_) {
      std::uint64_t tags[2];
      std::memcpy(tags, rank->tags->read(), sizeof tags);
      for (int i = 0; i < 2; ++i) least[i] = std::min(least[i], tags[i]);
    }
    for (const auto& rank : ranks_) rank->tags->write(least);
  }

  /// In the order of ranks. What the codec of the sums drops is a part of each rank's own.
  void sum(std::size_t round) {
    const std::size_t count = ranks_[0]->own[round]->bytes() / sizeof(float);
    std::vector<float> sums(count), own(count);
    for (const auto& rank : ranks_) {
      const std::byte* const bytes = rank->own[round]->read();
      if (count > 0) std::memcpy(own.data(), bytes, count * sizeof(float));
      for (std::size_t i = 0; i < count; ++i) {
        sums[i] = rank == ranks_[0] ? own[i] : sums[i] + own[i];
        own[i] = own[i] - own[i] == 0 ? own[i] / 16 : 0;
      }
      rank->dropped[round]->write(own.data());
    }
    for (const auto& rank : ranks_) rank->summed[round]->write(sums.data());
  }

  const ProjectionCase case_;
  std::unique_ptr<DeviceProjection> projection_;
  std::vector<std::unique_ptr<ProjectionRank>> ranks_;
};

}  // namespace ringpress::compress_kernels::testing

#endif  // TESTS_COMPRESS_KERNELS_PROJECTION_CASE_H_
