#include "perf/accuracy/measure.h"

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "compress_kernels/factory.h"

namespace ringpress::perf {
namespace {

using Bytes = std::vector<std::byte>;

std::unique_ptr<Codec> make(const std::string& specification) {
  auto codec = compress_kernels::make_codec(specification, DType::kFloat32, ReduceOp::kSum);
  if (!codec.is_ok()) throw std::invalid_argument(codec.status().message());
  return std::move(codec).value();
}

/// A range of elements that one rank reduces.
struct Shard {
  std::size_t first = 0;
  std::size_t count = 0;
};

std::vector<Shard> even_shards(std::size_t count, std::size_t ranks) {
  const std::size_t tiles = (count + kTileElements - 1) / kTileElements;
  std::vector<Shard> shards;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::size_t first = std::min(count, tiles * rank / ranks * kTileElements);
    const std::size_t end = std::min(count, tiles * (rank + 1) / ranks * kTileElements);
    shards.push_back({first, end - first});
  }
  return shards;
}

/// One all-reduce after the other, with the residuals that stay between them.
class Simulation {
 public:
  Simulation(const AllReduceCase& c, const RankTensors& inputs)
      : case_(c),
        codec_(make(c.codec)),
        inputs_(inputs),
        residuals_(c.error_feedback ? inputs.size() : 0,
                   std::vector<float>(inputs[0].size(), 0.0f)) {}

  std::vector<float> step(std::uint64_t number) {
    step_ = number;
    std::vector<float> result(inputs_[0].size());
    const auto shards = even_shards(result.size(), inputs_.size());
    for (std::size_t owner = 0; owner < shards.size(); ++owner) {
      if (shards[owner].count == 0) continue;
      const Bytes wire = case_.algorithm == "ring" ? reduce_in_ring(owner, shards[owner])
                                                   : reduce_at_owner(owner, shards[owner]);
      codec_->decode({wire.data(), shards[owner].count, result.data() + shards[owner].first});
    }
    return result;
  }

 private:
  RandomKey random(std::size_t rank, const Shard& shard) const {
    return {0, step_, static_cast<std::uint32_t>(rank), shard.first};
  }
  float* residual(std::size_t rank, const Shard& shard) {
    return residuals_.empty() ? nullptr : residuals_[rank].data() + shard.first;
  }

  Bytes encode(std::size_t rank, const Shard& shard) {
    Bytes wire(codec_->wire_bytes(shard.count));
    EncodeArgs args;
    args.values = inputs_[rank].data() + shard.first;
    args.count = shard.count;
    args.residual = residual(rank, shard);
    args.wire = wire.data();
    args.random = random(rank, shard);
    codec_->encode(args);
    return wire;
  }

  Bytes hop(std::size_t rank, const Shard& shard, const std::vector<const std::byte*>& wires,
            std::size_t own_position) {
    Bytes wire(codec_->wire_bytes(shard.count));
    DecodeAddEncodeArgs args;
    args.wires = wires;
    args.own_position = own_position;
    args.values = inputs_[rank].data() + shard.first;
    args.count = shard.count;
    args.residual = residual(rank, shard);
    args.wire = wire.data();
    args.random = random(rank, shard);
    codec_->decode_add_encode(args);
    return wire;
  }

  Bytes reduce_at_owner(std::size_t owner, const Shard& shard) {
    std::vector<Bytes> contributions;
    for (std::size_t rank = 0; rank < inputs_.size(); ++rank) {
      if (rank != owner) contributions.push_back(encode(rank, shard));
    }
    std::vector<const std::byte*> wires;
    for (const Bytes& contribution : contributions) wires.push_back(contribution.data());
    return hop(owner, shard, wires, owner);
  }

  /// The shard begins its way after its owner and ends there.
  Bytes reduce_in_ring(std::size_t owner, const Shard& shard) {
    const std::size_t ranks = inputs_.size();
    Bytes wire = encode((owner + 1) % ranks, shard);
    for (std::size_t distance = 2; distance <= ranks; ++distance) {
      wire = hop((owner + distance) % ranks, shard, {wire.data()}, 1);
    }
    return wire;
  }

  const AllReduceCase& case_;
  const std::unique_ptr<Codec> codec_;
  const RankTensors& inputs_;
  RankTensors residuals_;
  std::uint64_t step_ = 0;
};

}  // namespace

SingleShot measure_single_shot(const std::string& specification, const std::vector<float>& values) {
  const auto codec = make(specification);
  Bytes wire(codec->wire_bytes(values.size()));
  EncodeArgs args;
  args.values = values.data();
  args.count = values.size();
  args.wire = wire.data();
  codec->encode(args);
  std::vector<float> decoded(values.size());
  codec->decode({wire.data(), decoded.size(), decoded.data()});
  double norm = 0;
  double error = 0;
  double product = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double difference = double{decoded[i]} - values[i];
    norm += double{values[i]} * values[i];
    error += difference * difference;
    product += difference * values[i];
  }
  const double bits = 8.0 * static_cast<double>(wire.size()) / static_cast<double>(values.size());
  return {error / norm, product / norm, bits};
}

double measure_all_reduce(const AllReduceCase& c, const RankTensors& inputs) {
  Simulation simulation(c, inputs);
  std::vector<double> mean(inputs[0].size());
  for (std::size_t step = 0; step < c.steps; ++step) {
    const std::vector<float> result = simulation.step(step);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      mean[i] += result[i] / static_cast<double>(c.steps);
    }
  }
  double norm = 0;
  double error = 0;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    double sum = 0;
    for (const auto& input : inputs) sum += input[i];
    norm += sum * sum;
    error += (mean[i] - sum) * (mean[i] - sum);
  }
  return error / norm;
}

}  // namespace ringpress::perf
