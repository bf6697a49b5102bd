// The calls that trainings make on one communicator, step after step: models of random size, in the
// orders of the usual ways to train in parallel. Each call says whether it is of a gradient.
#ifndef TESTS_SUPPORT_TRAINING_CALLS_H_
#define TESTS_SUPPORT_TRAINING_CALLS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "nccl_plugin/session/calls/call_evidence.h"
#include "nccl_plugin/session/calls/call_pattern.h"

namespace ringpress::testing {

enum class Parallelism {
  kReplicas,          // DistributedDataParallel; buckets are arranged anew after the first step.
  kAccumulating,      // The same, with every micro-batch reduced.
  kEvaluating,        // The same, with passes of evaluation between.
  kOneBucket,         // The same, of a small model.
  kShardedLayers,     // FullyShardedDataParallel: parameters are gathered forward and backward.
  kKeptLayers,        // The same, gathered once a step.
  kShardedReplicas,   // All-reduces of shards between replicas of those.
  kShardedStates,     // ZeRO 1: buckets are all-reduced, then parameters gathered.
  kShardedGradients,  // ZeRO 2.
  kShardedAll,        // ZeRO 3: layers in buckets.
  kTensorParallel,    // Megatron: two activations of a layer forward, two backward.
  kTwoStacks,         // The same, of an encoder and a decoder.
  kSequenceParallel,  // Megatron: activations are gathered and scattered.
  kServing,           // Forward alone.
  kEmbeddings,        // Pipeline: the first stage and the last have one tensor in common.
  kExperts,           // Replicas of experts; what routers count is summed up too.
  kStatistics,  // Batch norm over all ranks, in float32 of up to 2048 channels, beside replicas.
  kAveraging,   // Metrics of all ranks, of many sizes, once each.
  // What is summed up for other reasons, in three sizes.
  kThreeActivations,  // Layers split between ranks: attention, the rest of the layer, vocabulary.
  kServingThree,      // The same, forward alone.
  kEvaluations,       // After each batch: losses, hits by class, scores.
  kCentroids,         // Clustering: sums, counts and distances of clusters.
  kEvaluatingOften,   // Replicas, and sums of an evaluation, of the same sizes, every fifth step.
  kModelBeside,       // Replicas, and one layer's parameters are averaged each step.
  kModels,            // Parameters are averaged after many local steps.
  kHistograms,        // Boosted trees: gradients by bin, twice as many at each level.
  kScoring,           // Replicas, and every few steps sums of both signs in buffers of their own.
};
inline constexpr Parallelism kParallelisms[] = {
    Parallelism::kReplicas,         Parallelism::kAccumulating,   Parallelism::kEvaluating,
    Parallelism::kOneBucket,        Parallelism::kShardedLayers,  Parallelism::kKeptLayers,
    Parallelism::kShardedReplicas,  Parallelism::kShardedStates,  Parallelism::kShardedGradients,
    Parallelism::kShardedAll,       Parallelism::kTensorParallel, Parallelism::kTwoStacks,
    Parallelism::kSequenceParallel, Parallelism::kServing,        Parallelism::kEmbeddings,
    Parallelism::kExperts,          Parallelism::kStatistics,     Parallelism::kAveraging,
    Parallelism::kThreeActivations, Parallelism::kServingThree,   Parallelism::kEvaluations,
    Parallelism::kCentroids,        Parallelism::kModels,         Parallelism::kHistograms,
    Parallelism::kEvaluatingOften,  Parallelism::kModelBeside,    Parallelism::kScoring};

struct TrainingCall {
  nccl_plugin::TensorCall call;  // With the count of the whole tensor.
  double pause_seconds = 0;      // Before it.
  bool is_gradient = false;
  nccl_plugin::ValueSample values{};
};

/// One job.
class TrainingCalls {
 public:
  TrainingCalls(Parallelism training, std::uint32_t seed) : training_(training), dice_(seed) {
    layers_ = between(2, 48);
    width_ = 256U << between(0, 4);
    type_ = one_in(3) ? DType::kFloat32 : DType::kBfloat16;
    tokens_ = 512U << between(0, 4);
    micro_batches_ = between(1, 3);
    keeps_activations_ = one_in(2);
    free_blocks_ = between(1, 4);
    make_parameters();
    make_buckets();
    const bool has_others =
        training == Parallelism::kEvaluatingOften || training == Parallelism::kModelBeside;
    if (has_others && buckets_.size() == 1) buckets_.push_back(buckets_[0] / 2);
  }

  std::vector<TrainingCall> step(std::size_t number) {
    calls_.clear();
    switch (training_) {
      case Parallelism::kReplicas:
        add_buckets(number == 0 ? first_buckets_ : buckets_);
        break;
      case Parallelism::kAccumulating:
        for (std::size_t i = 0; i < micro_batches_; ++i) add_buckets(buckets_);
        break;
      case Parallelism::kEvaluating:
        add_buckets(buckets_);
        if (number % 7 == 6) add_metrics(number % 3 + 1);
        break;
      case Parallelism::kOneBucket:
        add_buckets({buckets_.front()});
        break;
      case Parallelism::kShardedLayers:
        add_sharded_layers(true);
        break;
      case Parallelism::kKeptLayers:
        add_sharded_layers(false);
        break;
      case Parallelism::kShardedReplicas:
        add_buckets(layer_sizes());
        break;
      case Parallelism::kShardedStates:
        add_buckets(buckets_);
        for (const std::size_t count : buckets_) add(gather(count), kShort, false);
        break;
      case Parallelism::kShardedGradients:
        for (const std::size_t count : buckets_) add(scatter(count), kShort, true);
        calls_[calls_.size() - buckets_.size()].pause_seconds = forward_seconds();
        for (const std::size_t count : buckets_) add(gather(count), kShort, false);
        break;
      case Parallelism::kShardedAll:
        add_sharded_layers(true);
        break;
      case Parallelism::kTensorParallel:
        add_split_layers({tokens_ * width_});
        break;
      case Parallelism::kTwoStacks:
        add_split_layers({tokens_ * width_, tokens_ / 2 * width_});
        break;
      case Parallelism::kSequenceParallel:
        add_sequence_parallel();
        break;
      case Parallelism::kServing:
        keeps_activations_ = false;
        for (std::size_t i = 0; i < 2 * layers_; ++i) {
          add(reduce(tokens_ * width_, activation(i)), i == 0 ? 5 * kShort : kShort, false);
        }
        break;
      case Parallelism::kEmbeddings:
        add(reduce(width_ * 32000, gradient(0)), forward_seconds(), true);
        break;
      case Parallelism::kExperts:
        for (std::size_t i = 0; i < layers_; ++i) {
          add(reduce(64, activation(i), DType::kFloat32), kShort, false);
        }
        add_buckets(buckets_);
        break;
      case Parallelism::kStatistics:
        for (std::size_t i = 0; i < layers_; ++i) {
          add(reduce((128U << (i % 5)) + 1, activation(i), DType::kFloat32), kShort, false);
        }
        add_buckets(buckets_);
        break;
      case Parallelism::kAveraging:
        add_metrics(number + 1);
        break;
      case Parallelism::kThreeActivations:
        add_three_activations(true);
        break;
      case Parallelism::kServingThree:
        add_three_activations(false);
        break;
      case Parallelism::kEvaluations:
        add_sums({tokens_ * 64, 1000 * 1000, tokens_ * width_}, Values::kOneSigned, one_in(2));
        break;
      case Parallelism::kCentroids:
        add_sums({1000 * width_, 64 * 1024, tokens_ * 100}, Values::kSlow, true);
        break;
      case Parallelism::kEvaluatingOften:
        add_buckets(buckets_);
        if (number % 5 != 4) break;
        for (std::size_t i = 0; i < 3; ++i) {
          evaluations_ += 1;
          add(reduce(100000 + 1000 * i, gradient(100000 + evaluations_), DType::kFloat32), kShort,
              false);
        }
        break;
      case Parallelism::kScoring:
        add_buckets(buckets_);
        if (number % (1 + micro_batches_ * free_blocks_) != 0) break;
        for (std::size_t i = 0; i < micro_batches_; ++i) {
          add(reduce(100000 + 1000 * i, gradient(100000 + i), DType::kFloat32), kShort, false);
        }
        break;
      case Parallelism::kModelBeside:
        add_buckets(buckets_);
        add_sum(width_ * 1001, gradient(90000), Values::kSlow, kShort);
        break;
      case Parallelism::kModels:
        add_sums(buckets_, Values::kSlow, true);
        break;
      case Parallelism::kHistograms:
        for (std::size_t i = 0; i < 6; ++i) {
          add_sum((width_ * 256) << i, gradient(i), Values::kHalfSlow, forward_seconds() / 6);
        }
        calls_.front().pause_seconds += forward_seconds();
        break;
    }
    return calls_;
  }

 private:
  static constexpr double kShort = 1e-3;
  static constexpr std::size_t kFirstBucketBytes = 1 << 20, kBucketBytes = 25 << 20;

  std::size_t between(std::size_t least, std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(least, most)(dice_);
  }
  bool one_in(std::size_t count) { return between(1, count) == 1; }

  /// Of a transformer: all layers are alike. Of a convolution net: they widen.
  void make_parameters() {
    const bool widens = one_in(3);
    parameters_.push_back(between(1000, 50000) * width_);
    for (std::size_t i = 0; i < layers_; ++i) {
      const std::size_t width = widens ? width_ / 4 + i * width_ / 16 : width_;
      for (const std::size_t count : {3 * width * width, 3 * width, width * width, width,
                                      4 * width * width, 4 * width, 4 * width * width, width}) {
        parameters_.push_back(count);
      }
    }
    parameters_.push_back(between(10, 1000) * width_);
  }

  /// From the last parameter on, as they become ready.
  void make_buckets() {
    std::size_t count = 0, limit = kFirstBucketBytes;
    for (auto p = parameters_.rbegin(); p != parameters_.rend(); ++p) {
      count += *p;
      if (count * dtype_size(type_) < limit) continue;
      buckets_.push_back(count);
      count = 0;
      limit = kBucketBytes;
    }
    if (count > 0) buckets_.push_back(count);
    first_buckets_ = {buckets_.rbegin(), buckets_.rend()};
  }

  std::vector<std::size_t> layer_sizes() const {
    std::vector<std::size_t> sizes{parameters_.back()};
    for (std::size_t i = 0; i < layers_; ++i) {
      std::size_t count = 0;
      for (std::size_t p = 0; p < 8; ++p) count += parameters_[1 + 8 * i + p];
      sizes.push_back(count);
    }
    sizes.push_back(parameters_.front());
    return sizes;
  }

  /// The pause before the first bucket: half as long as all of backward.
  double forward_seconds() const { return 0.5 * kShort * static_cast<double>(4 * layers_); }
  double noisy(double seconds) {
    return seconds * std::uniform_real_distribution<double>(0.8, 1.25)(dice_);
  }

  const void* gradient(std::size_t place) const {
    return reinterpret_cast<const void*>((place + 1) << 36);
  }
  /// Memory that was free, or that is kept until backward.
  const void* activation(std::size_t place) {
    const std::size_t which = keeps_activations_ ? place : between(1, free_blocks_);
    return reinterpret_cast<const void*>((which + 1000) << 36);
  }

  nccl_plugin::TensorCall reduce(std::size_t count, const void* address) {
    return reduce(count, address, type_);
  }
  static nccl_plugin::TensorCall reduce(std::size_t count, const void* address, DType type,
                                        ReduceOp op = ReduceOp::kSum) {
    return {CollectiveKind::kAllReduce, count, type, op, address};
  }
  nccl_plugin::TensorCall scatter(std::size_t count) const {
    return {CollectiveKind::kReduceScatter, count, type_, ReduceOp::kSum, nullptr};
  }
  nccl_plugin::TensorCall gather(std::size_t count) const {
    return {CollectiveKind::kAllGather, count, type_, ReduceOp::kSum, nullptr};
  }
  void add(const nccl_plugin::TensorCall& call, double pause_seconds, bool is_gradient) {
    calls_.push_back(
        {call, noisy(pause_seconds), is_gradient, values_like(Values::kNew, calls_.size())});
  }

  enum class Values { kNew, kOneSigned, kSlow, kHalfSlow };
  /// Of the call at this place of the step.
  nccl_plugin::ValueSample values_like(Values kind, std::size_t place) {
    if (values_.size() <= place) values_.resize(place + 1);
    nccl_plugin::ValueSample& values = values_[place];
    const bool is_first = values == nccl_plugin::ValueSample{};
    for (std::size_t i = 0; i < values.size(); ++i) {
      // The sum of four: near enough to a normal distribution, and quick.
      const std::uint32_t bits = dice_();
      const auto byte = [bits](int which) { return static_cast<float>(bits >> (8 * which) & 255); };
      const float noise = (byte(0) + byte(1) + byte(2) + byte(3) - 510) / 147;
      const bool is_slow = kind == Values::kSlow || (kind == Values::kHalfSlow && i % 2 == 1);
      if (!is_slow) values[i] = kind == Values::kOneSigned ? std::abs(noise) : noise;
      if (is_slow && is_first) values[i] = kind == Values::kSlow ? noise : 5 + noise;
      if (is_slow && !is_first) values[i] += 0.05F * noise;
    }
    return values;
  }
  void add_sum(std::size_t count, const void* address, Values values, double pause_seconds) {
    calls_.push_back({reduce(count, address, DType::kFloat32), noisy(pause_seconds), false,
                      values_like(values, calls_.size())});
  }
  /// One after the other, once something has been computed.
  void add_sums(const std::vector<std::size_t>& counts, Values values, bool has_own_buffers) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const void* const address = has_own_buffers ? gradient(i) : activation(i);
      add_sum(counts[i], address, values, i == 0 ? forward_seconds() : kShort);
    }
  }

  void add_buckets(const std::vector<std::size_t>& counts) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const double backward = 2 * forward_seconds() / static_cast<double>(counts.size());
      add(reduce(counts[i], gradient(i)), backward + (i == 0 ? forward_seconds() : 0), true);
    }
  }

  /// Sizes that come once.
  void add_metrics(std::size_t seed) {
    for (std::size_t i = 0; i < 3; ++i) {
      add(reduce(50000 + 977 * seed * (i + 1), activation(i), DType::kFloat32), 4 * kShort, false);
    }
  }

  void add_sharded_layers(bool again) {
    const std::vector<std::size_t> sizes = layer_sizes();
    for (const std::size_t count : sizes) add(gather(count), kShort, false);
    for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
      if (again) add(gather(*size), kShort, false);
      add(scatter(*size), 2 * kShort, true);
    }
  }

  void add_split_layers(const std::vector<std::size_t>& counts) {
    for (std::size_t batch = 0; batch < micro_batches_; ++batch) {
      std::size_t place = 0;
      for (const std::size_t count : counts) {
        for (std::size_t i = 0; i < 2 * layers_; ++i) {
          add(reduce(count, activation(place++)), kShort, false);
        }
      }
      add(reduce(tokens_, activation(place++), DType::kFloat32, ReduceOp::kMax), kShort, false);
      for (int i = 0; i < 2; ++i) {
        add(reduce(tokens_, activation(place++), DType::kFloat32), kShort, false);
      }
      for (auto count = counts.rbegin(); count != counts.rend(); ++count) {
        for (std::size_t i = 0; i < 2 * layers_; ++i) {
          add(reduce(*count, activation(place++)), 2 * kShort, false);
          // The decoder's attention to the encoder.
          const bool is_cross = counts.size() == 2 && count == counts.rbegin() && i % 2 == 0;
          if (is_cross) add(reduce(counts[0], activation(place++)), kShort, false);
        }
      }
    }
    calls_.front().pause_seconds += 4 * kShort;  // The optimizer's step.
  }

  void add_three_activations(bool trains) {
    const std::size_t sizes[] = {tokens_ * width_, tokens_ * width_ * 2, tokens_ * width_ * 3};
    const std::size_t calls = 1 + 2 * layers_;
    keeps_activations_ = keeps_activations_ && trains;
    std::size_t place = 0;
    for (std::size_t batch = 0; batch < (trains ? micro_batches_ : 1); ++batch) {
      for (std::size_t i = 0; i < calls; ++i) {
        add(reduce(sizes[i == 0 ? 2 : i % 2], activation(place++)), kShort, false);
      }
      for (std::size_t i = calls; trains && i-- > 0;) {
        add(reduce(sizes[i == 0 ? 2 : i % 2], activation(place++)), 2 * kShort, false);
      }
    }
    double all = 0;
    for (const TrainingCall& call : calls_) all += call.pause_seconds;
    calls_.front().pause_seconds += 0.1 * all;  // The optimizer's step, or the next request.
  }

  void add_sequence_parallel() {
    const std::size_t count = tokens_ * width_;
    for (std::size_t i = 0; i < 2 * layers_; ++i) {
      add(gather(count), kShort, false);
      add(scatter(count), kShort, false);
    }
    for (std::size_t i = 0; i < 2 * layers_; ++i) {
      add(gather(count), kShort, false);
      if (i % 2 == 1) add(gather(count), kShort, false);
      add(scatter(count), kShort, false);
    }
  }

  const Parallelism training_;
  std::mt19937 dice_;
  std::size_t layers_ = 0, width_ = 0, tokens_ = 0, micro_batches_ = 0;
  bool keeps_activations_ = false;
  std::size_t free_blocks_ = 1;
  std::size_t evaluations_ = 0;
  DType type_ = DType::kFloat32;
  std::vector<std::size_t> parameters_, buckets_, first_buckets_;
  std::vector<TrainingCall> calls_;
  std::vector<nccl_plugin::ValueSample> values_;  // Of the step before.
};

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_TRAINING_CALLS_H_
