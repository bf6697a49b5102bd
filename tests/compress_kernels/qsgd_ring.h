// An all-reduce of a codec on a shared grid without ranks or a network: what its tests sum with.
#ifndef TESTS_COMPRESS_KERNELS_QSGD_RING_H_
#define TESTS_COMPRESS_KERNELS_QSGD_RING_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "compress_kernels/factory.h"
#include "perf/accuracy/local_agreement.h"

namespace ringpress::compress_kernels::testing {

using Tensors = std::vector<std::vector<float>>;
using Bytes = std::vector<std::byte>;

inline std::unique_ptr<Codec> make_float_codec(const std::string& specification) {
  auto codec = make_codec(specification, DType::kFloat32, ReduceOp::kSum);
  EXPECT_TRUE(codec.is_ok()) << codec.status().message();
  return std::move(codec).value();
}

/// One all-reduce in a ring, of tensors that are one chunk.
class Ring {
 public:
  Ring(const std::string& specification, const Tensors& inputs)
      : codec_(make_float_codec(specification)), inputs_(inputs), count_(inputs[0].size()) {
    std::vector<perf::RankValues> ranks;
    for (const auto& input : inputs) ranks.push_back({input.data()});
    tensor_.push_back(perf::LocalAgreement::of_tensor(*codec_, ranks, 0, count_));
    chunk_.push_back(perf::LocalAgreement::of_chunk(*codec_, ranks, count_, tensor_[0]));
  }

  /// The average. `step` names the random bits.
  std::vector<float> average(std::uint64_t step) const {
    const std::size_t world = inputs_.size();
    Bytes wire = first_hop(step);
    for (std::size_t rank = 1; rank < world; ++rank) wire = hop(rank, step, wire);
    std::vector<float> result(count_);
    DecodeArgs args;
    args.wire = wire.data();
    args.count = count_;
    args.values = result.data();
    args.divisor = world;
    args.form = {world, world};
    args.agreed = agreed();
    codec_->decode(args);
    return result;
  }

 private:
  Agreed agreed() const { return perf::LocalAgreement::agreed(tensor_[0], chunk_[0]); }

  Bytes first_hop(std::uint64_t step) const {
    Bytes wire(codec_->wire_bytes(count_, {1, inputs_.size()}));
    EncodeArgs args;
    args.values = inputs_[0].data();
    args.count = count_;
    args.wire = wire.data();
    args.random = {3, step, 0, 0};
    args.form = {1, inputs_.size()};
    args.agreed = agreed();
    codec_->encode(args);
    return wire;
  }

  Bytes hop(std::size_t rank, std::uint64_t step, const Bytes& partial_sum) const {
    const std::byte* const wires[] = {partial_sum.data()};
    const Contributions form{rank + 1, inputs_.size()};
    Bytes wire(codec_->wire_bytes(count_, form));
    DecodeAddEncodeArgs args;
    args.wires = wires;
    args.wire_contributions = rank;
    args.own_position = 1;
    args.values = inputs_[rank].data();
    args.count = count_;
    args.wire = wire.data();
    args.random = {3, step, static_cast<std::uint32_t>(rank), 0};
    args.form = form;
    args.agreed = agreed();
    codec_->decode_add_encode(args);
    return wire;
  }

  std::unique_ptr<Codec> codec_;
  const Tensors& inputs_;
  std::size_t count_;
  std::vector<perf::LocalAgreement> tensor_;  // One.
  std::vector<perf::LocalAgreement> chunk_;   // One.
};

/// Each value is law(Gaussian, index).
inline Tensors draw(std::size_t ranks, std::size_t count,
                    const std::function<float(float, std::size_t)>& law) {
  std::mt19937 engine(17);
  std::normal_distribution<float> normal;
  Tensors tensors(ranks, std::vector<float>(count));
  for (auto& tensor : tensors) {
    for (std::size_t i = 0; i < count; ++i) tensor[i] = law(normal(engine), i);
  }
  return tensors;
}

inline std::vector<double> mean_of(const Tensors& inputs) {
  std::vector<double> mean(inputs[0].size());
  for (const auto& input : inputs) {
    for (std::size_t i = 0; i < mean.size(); ++i) {
      mean[i] += double{input[i]} / static_cast<double>(inputs.size());
    }
  }
  return mean;
}

}  // namespace ringpress::compress_kernels::testing

#endif  // TESTS_COMPRESS_KERNELS_QSGD_RING_H_
