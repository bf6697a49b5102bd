#include "perf/accuracy/measure.h"

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "compress_kernels/factory.h"
#include "perf/accuracy/local_agreement.h"
#include "perf/accuracy/projected_simulation.h"
#include "ring/collective/two_way_ring.h"

namespace ringpress::perf {
namespace {

using Bytes = std::vector<std::byte>;

std::unique_ptr<Codec> make(const std::string& specification) {
  auto codec = compress_kernels::make_codec(specification, DType::kFloat32, ReduceOp::kSum);
  if (!codec.is_ok()) throw std::invalid_argument(codec.status().message());
  return std::move(codec).value();
}

/// As the library has it: some codecs are never given a residual.
bool keeps_residual(const AllReduceCase& c) {
  return c.error_feedback && compress_kernels::takes_error_feedback(c.codec).value();
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

/// An encoded shard.
struct Encoded {
  Bytes bytes;
  std::size_t summed = 1;  // Ranks whose values it holds.
};

/// One all-reduce after the other, with the residuals that stay between them.
class Simulation {
 public:
  Simulation(const AllReduceCase& c, const RankTensors& inputs)
      : case_(c),
        codec_(make(c.codec)),
        inputs_(inputs),
        residuals_(keeps_residual(c) && !codec_->traits().lossless ? inputs.size() : 0,
                   std::vector<float>(inputs[0].size(), 0.0f)) {
    if (codec_->projection() != nullptr) {
      projected_ = std::make_unique<ProjectedSimulation>(*codec_, inputs, keeps_residual(c));
    }
  }

  std::vector<float> step(std::uint64_t number) {
    if (projected_ != nullptr) {
      std::vector<float> projected = projected_->step(number);
      sent_bytes_ = projected_->sent_bytes();
      return projected;
    }
    step_ = number;
    std::vector<float> result(inputs_[0].size());
    agree_on_tensor();
    const auto shards = even_shards(result.size(), inputs_.size());
    for (std::size_t owner = 0; owner < shards.size(); ++owner) {
      const Shard& shard = shards[owner];
      if (shard.count == 0) continue;
      agree_on_chunk(owner, shard);
      const Encoded sum =
          case_.algorithm == "ring" ? reduce_in_ring(owner, shard) : reduce_at_owner(owner, shard);
      DecodeArgs args;
      args.wire = sum.bytes.data();
      args.wire_size = sum.bytes.size();
      args.count = shard.count;
      args.values = result.data() + shard.first;
      args.form = {sum.summed, inputs_.size()};
      args.agreed = agreed(owner);
      codec_->decode(args);
      sent_bytes_ += sum.bytes.size() * (inputs_.size() - 1);
    }
    return result;
  }

  /// See AllReduceOutcome, for all steps together.
  double bits_per_transfer() const {
    const double transfers =
        2.0 * static_cast<double>(inputs_.size() - 1) * static_cast<double>(inputs_[0].size());
    return 8.0 * static_cast<double>(sent_bytes_) / transfers;
  }

 private:
  std::vector<RankValues> values_of(const Shard& shard) {
    std::vector<RankValues> values;
    for (std::size_t rank = 0; rank < inputs_.size(); ++rank) {
      values.push_back({inputs_[rank].data() + shard.first, residual(rank, shard)});
    }
    return values;
  }
  void agree_on_tensor() {
    const Shard all{0, inputs_[0].size()};
    tensors_.clear();
    for (std::size_t rank = 0; rank < inputs_.size(); ++rank) {
      tensors_.push_back(LocalAgreement::of_tensor(*codec_, values_of(all), rank, all.count));
    }
  }
  /// Everybody sends its summary to the owner, which sends the result to everybody.
  void agree_on_chunk(std::size_t owner, const Shard& shard) {
    chunk_ = {LocalAgreement::of_chunk(*codec_, values_of(shard), shard.count, tensors_[owner])};
    const Agreement* agreement = codec_->agreement();
    for (int round = 0; agreement != nullptr && round < agreement->rounds(); ++round) {
      sent_bytes_ += 2 * (inputs_.size() - 1) * agreement->round_bytes(round, shard.count);
    }
  }
  Agreed agreed(std::size_t rank) const {
    return LocalAgreement::agreed(tensors_[rank], chunk_.front());
  }

  RandomKey random(std::size_t rank, const Shard& shard) const {
    return {0, step_, static_cast<std::uint32_t>(rank), shard.first};
  }
  float* residual(std::size_t rank, const Shard& shard) {
    return residuals_.empty() ? nullptr : residuals_[rank].data() + shard.first;
  }

  /// What a rank encodes of its own values, alone or added to others'.
  template <typename Args>
  void fill(Args* args, std::size_t rank, const Shard& shard, const Contributions& form,
            std::byte* wire) {
    args->values = inputs_[rank].data() + shard.first;
    args->count = shard.count;
    args->residual = residual(rank, shard);
    args->wire = wire;
    args->random = random(rank, shard);
    args->form = form;
    args->agreed = agreed(rank);
  }

  Encoded encode(std::size_t rank, const Shard& shard, std::size_t summed = 1) {
    const Contributions form{summed, inputs_.size()};
    Bytes wire(codec_->wire_bytes(shard.count, form));
    EncodeArgs args;
    fill(&args, rank, shard, form, wire.data());
    wire.resize(codec_->encode(args));
    return {wire, summed};
  }

  /// Adds rank `rank`'s values to `parts`, which are taken to hold equally many contributions each.
  Encoded hop(std::size_t rank, const Shard& shard, const std::vector<Encoded>& parts,
              std::size_t own_position, std::size_t summed) {
    const Contributions form{summed, inputs_.size()};
    std::vector<const std::byte*> wires;
    std::vector<std::size_t> sizes;
    for (const Encoded& part : parts) {
      wires.push_back(part.bytes.data());
      sizes.push_back(part.bytes.size());
    }
    Bytes wire(codec_->wire_bytes(shard.count, form));
    DecodeAddEncodeArgs args;
    args.wires = wires;
    args.wire_sizes = sizes;
    args.wire_contributions = parts.front().summed;
    args.own_position = own_position;
    fill(&args, rank, shard, form, wire.data());
    wire.resize(codec_->decode_add_encode(args));
    return {wire, form.summed};
  }

  Encoded reduce_at_owner(std::size_t owner, const Shard& shard) {
    std::vector<Encoded> contributions;
    for (std::size_t rank = 0; rank < inputs_.size(); ++rank) {
      if (rank == owner) continue;
      contributions.push_back(encode(rank, shard));
      sent_bytes_ += contributions.back().bytes.size();
    }
    return hop(owner, shard, contributions, owner, inputs_.size());
  }

  Encoded reduce_in_ring(std::size_t owner, const Shard& shard) {
    const std::size_t ranks = inputs_.size();
    if (!ring::goes_two_ways(*codec_)) {
      return hop(owner, shard, {sum_of_way(owner, shard, ranks - 1, 1)}, 1, ranks);
    }
    std::vector<Encoded> sums = {sum_of_way(owner, shard, ranks / 2, 1)};
    if (ranks > 2) sums.push_back(sum_of_way(owner, shard, ranks - 1 - ranks / 2, ranks - 1));
    return hop(owner, shard, sums, 1, ranks);
  }

  /// What comes to the owner from one side: the sum of the `length` ranks before it. Each step of
  /// the way adds `step` to the rank.
  Encoded sum_of_way(std::size_t owner, const Shard& shard, std::size_t length, std::size_t step) {
    const std::size_t ranks = inputs_.size();
    Encoded sum;
    for (std::size_t distance = length; distance > 0; --distance) {
      const std::size_t rank = (owner + (ranks - step) * distance) % ranks;
      const std::size_t held = length - distance + 1;
      // The owner takes what comes from both sides to hold equally many contributions.
      const bool is_last = distance == 1 && ring::goes_two_ways(*codec_);
      const std::size_t summed = is_last ? ranks / 2 : held;
      sum = held == 1 ? encode(rank, shard, summed) : hop(rank, shard, {sum}, 1, summed);
      sent_bytes_ += sum.bytes.size();
    }
    return sum;
  }

  const AllReduceCase& case_;
  const std::unique_ptr<Codec> codec_;
  std::unique_ptr<ProjectedSimulation> projected_;  // Null: the codec encodes values.
  const RankTensors& inputs_;
  RankTensors residuals_;
  std::vector<LocalAgreement> tensors_;  // By rank.
  std::vector<LocalAgreement> chunk_;    // One: of the shard that is being reduced.
  std::uint64_t step_ = 0;
  std::size_t sent_bytes_ = 0;
};

}  // namespace

SingleShot measure_single_shot(const std::string& specification, const std::vector<float>& values) {
  const auto codec = make(specification);
  Bytes wire(codec->wire_bytes(values.size()));
  EncodeArgs args;
  args.values = values.data();
  args.count = values.size();
  args.wire = wire.data();
  wire.resize(codec->encode(args));
  std::vector<float> decoded(values.size());
  DecodeArgs decode;
  decode.wire = wire.data();
  decode.wire_size = wire.size();
  decode.count = decoded.size();
  decode.values = decoded.data();
  codec->decode(decode);
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

AllReduceOutcome measure_all_reduce(const AllReduceCase& c, const RankTensors& inputs) {
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
  return {error / norm, simulation.bits_per_transfer() / static_cast<double>(c.steps)};
}

}  // namespace ringpress::perf
