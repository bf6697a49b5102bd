// Ranks that all-reduce the same calls step after step, and how wrong the sums are: what
// RINGPRESS_ADJUST_STEPS makes of a codec, beside the codec for all.
#ifndef TESTS_SUPPORT_LEVELED_TRAINING_H_
#define TESTS_SUPPORT_LEVELED_TRAINING_H_

#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_plugin/session/mesh_communicator.h"
#include "tests/support/random_tensor.h"
#include "tests/support/thread_mesh.h"

namespace ringpress::testing {

/// The gradients of a program. A call's are the same whenever they are asked for.
struct TrainingGradients {
  std::string name;
  std::vector<std::size_t> counts;  // Of the calls of a step.
  std::function<void(std::size_t call, std::size_t step, int rank, std::span<float> values)> fill;
};

struct Training {
  int world = 2;
  std::size_t steps = 0;
  std::size_t counted_from = 0;  // Steps before it are not counted.
  std::vector<std::pair<std::string, std::string>> environment;
};

struct TrainingErrors {
  double of_calls = 0;  // The root of the mean over steps of the squares, and
  // of the mean over all steps so far: over the last fifth of all steps, as it depends on the step.
  double of_mean = 0;
  double sent_bytes = 0;
  bool ranks_agree = true;
};

/// What one rank sees.
class TrainingRank {
 public:
  TrainingRank(const TrainingGradients& gradients, const Training& training)
      : gradients_(gradients), training_(training) {
    for (const std::size_t count : gradients.counts) {
      // Calls stay where they are: what is kept of a tensor is known by its address, too.
      values_.emplace_back(count);
      lost_.emplace_back(count);
    }
  }

  void run(nccl_plugin::MeshCommunicator& communicator) {
    for (std::size_t step = 0; step < training_.steps; ++step) {
      if (step == training_.counted_from) bytes_before_ = sent_bytes(communicator);
      for (std::size_t call = 0; call < values_.size(); ++call) {
        gradients_.fill(call, step, communicator.rank(), values_[call]);
        std::vector<float> result(values_[call].size());
        const Status status = communicator.all_reduce(values_[call].data(), result.data(),
                                                      result.size(), DType::kFloat32, {});
        if (!status.is_ok()) throw std::runtime_error(status.message());
        for (const float value : result) hash_ = hash_ * 31 + std::hash<float>()(value);
        if (communicator.rank() == 0 && step >= training_.counted_from) count(call, step, result);
      }
    }
    bytes_ = sent_bytes(communicator) - bytes_before_;
  }

  TrainingErrors errors() const {
    const auto steps = static_cast<double>(training_.steps - training_.counted_from);
    return {std::sqrt(squares_ / steps), std::sqrt(mean_squares_), bytes_, true};
  }
  std::size_t hash() const { return hash_; }

 private:
  static double sent_bytes(const nccl_plugin::MeshCommunicator& communicator) {
    return static_cast<double>(communicator.statistics().wire_bytes);
  }
  void count(std::size_t call, std::size_t step, const std::vector<float>& result) {
    std::vector<double> lost(result.begin(), result.end());
    std::vector<float> values(result.size());
    for (int rank = 0; rank < training_.world; ++rank) {
      gradients_.fill(call, step, rank, values);
      for (std::size_t i = 0; i < lost.size(); ++i) lost[i] -= double{values[i]};
    }
    for (std::size_t i = 0; i < lost.size(); ++i) {
      squares_ += lost[i] * lost[i];
      lost_[call][i] += lost[i];
    }
    if (step < training_.steps - training_.steps / 5) return;
    const auto steps = static_cast<double>(step + 1 - training_.counted_from);
    for (const double sum : lost_[call]) mean_squares_ += std::pow(sum / steps, 2);
  }

  const TrainingGradients& gradients_;
  const Training& training_;
  std::vector<std::vector<float>> values_;
  std::vector<std::vector<double>> lost_;
  double squares_ = 0;
  double mean_squares_ = 0;
  double bytes_before_ = 0;
  double bytes_ = 0;
  std::size_t hash_ = 0;
};

inline TrainingErrors run_training(const TrainingGradients& gradients, const Training& training) {
  auto environment = training.environment;
  environment.emplace_back("RINGPRESS_CACHE", "off");
  environment.emplace_back("RINGPRESS_MIN_BYTES", "0");
  environment.emplace_back("RINGPRESS_WARMUP_STEPS", "0");
  const Settings settings = parse_settings(environment, nullptr);
  const auto fabric = std::make_shared<ThreadFabric>(training.world, false);
  std::vector<TrainingRank> ranks(static_cast<std::size_t>(training.world),
                                  TrainingRank(gradients, training));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < training.world; ++rank) {
    threads.emplace_back([&, rank] {
      nccl_plugin::MeshCommunicator communicator(std::make_unique<ThreadMesh>(fabric, rank),
                                                 settings);
      ranks[static_cast<std::size_t>(rank)].run(communicator);
    });
  }
  threads.clear();
  TrainingErrors errors = ranks[0].errors();
  for (const TrainingRank& rank : ranks) errors.ranks_agree &= rank.hash() == ranks[0].hash();
  return errors;
}

/// With levels, over without.
inline TrainingErrors leveled_over_uniform(const TrainingGradients& gradients, Training training,
                                           const std::string& adjust_steps) {
  const TrainingErrors uniform = run_training(gradients, training);
  training.environment.emplace_back("RINGPRESS_ADJUST_STEPS", adjust_steps);
  const TrainingErrors leveled = run_training(gradients, training);
  return {leveled.of_calls / uniform.of_calls, leveled.of_mean / uniform.of_mean,
          leveled.sent_bytes / uniform.sent_bytes, leveled.ranks_agree && uniform.ranks_agree};
}

/// Of a call: the values of a rank, normally distributed, some large; another kind of them; noise.
struct TrainingValues {
  std::vector<std::vector<float>> own, other, noise;  // By rank.

  TrainingValues(std::size_t count, std::size_t call, int world) {
    for (int rank = 0; rank < world; ++rank) {
      own.push_back(random_gradient(count, 10 + call, rank));
      other.push_back(random_gradient(count, 20 + call, rank));
      noise.push_back(random_gradient(2 * count, 30 + call, rank));
      // Ranks have something in common.
      if (rank == 0) continue;
      for (std::size_t i = 0; i < count; ++i) own[own.size() - 1][i] += own[0][i];
    }
  }
};

/// Of a call whose values have one law of four, and another one later; nothing in common on ranks.
inline TrainingValues values_of_laws(std::size_t count, std::size_t call, int world) {
  TrainingValues values(count, call, 1);
  values.noise.resize(static_cast<std::size_t>(world), values.noise[0]);
  std::normal_distribution<float> normal;
  const auto draw = [&](std::size_t law, std::mt19937_64& generator, std::size_t i) {
    const float value = normal(generator);
    switch (law % 4) {
      case 0:
        return value;
      case 1:  // A few large ones.
        return (generator() % 50 == 0 ? 20.0f : 0.3f) * value;
      case 2:
        return std::exp(2 * normal(generator)) * value;
      default:  // Rows, as of an embedding.
        return (i / 1000 % 7 == 0 ? 5.0f : 0.05f) * value;
    }
  };
  const auto draw_all = [&](std::size_t law, int rank) {
    std::mt19937_64 generator(1000 * call + 10 * law + static_cast<std::size_t>(rank));
    std::vector<float> drawn(count);
    for (std::size_t i = 0; i < count; ++i) drawn[i] = draw(law, generator, i);
    return drawn;
  };
  values.own.clear();
  values.other.clear();
  for (int rank = 0; rank < world; ++rank) {
    values.own.push_back(draw_all(call, rank));
    values.other.push_back(draw_all(call + 2, rank));
  }
  return values;
}

enum class TrainingKind { kConstant, kAlternating, kDrifting, kNoisy, kSwinging };
inline constexpr TrainingKind kTrainingKinds[] = {
    TrainingKind::kConstant, TrainingKind::kAlternating, TrainingKind::kDrifting,
    TrainingKind::kNoisy, TrainingKind::kSwinging};

/// `values` and `scales`: by call. `steps`: in which drifting ones come to be ten times as large,
/// or small, and others; swinging ones grow and fall by 4 once, while others fall and grow.
inline TrainingGradients gradients_of(TrainingKind kind,
                                      std::shared_ptr<std::vector<TrainingValues>> values,
                                      std::vector<float> scales, std::size_t steps) {
  std::vector<std::size_t> counts;
  for (const TrainingValues& of_call : *values) counts.push_back(of_call.own[0].size());
  static constexpr const char* kNames[] = {"constant", "alternating", "drifting", "noisy",
                                           "swinging"};
  TrainingGradients gradients{kNames[static_cast<std::size_t>(kind)], counts, {}};
  gradients.fill = [kind, values, scales, steps](std::size_t call, std::size_t step, int rank,
                                                 std::span<float> to) {
    const TrainingValues& of_call = (*values)[call];
    const auto number = static_cast<std::size_t>(rank);
    const std::vector<float>& own = of_call.own[number];
    const std::vector<float>& other = of_call.other[number];
    const std::vector<float>& noise = of_call.noise[number];
    const float reversed = scales[scales.size() - 1 - call];
    const float part = static_cast<float>(step) / static_cast<float>(steps);
    const float grown = std::pow(10.0f, call % 2 == 0 ? part : -part);
    const float swing = std::sin(6.2831853f * part);
    const float swung = std::pow(2.0f, call % 2 == 0 ? swing : -swing);
    // Noise of its own in each step: from another place of it.
    const std::size_t shift = std::mt19937_64(step * 1000 + call)() % to.size();
    // Calls differ in how much of them is noise.
    const float noisy = call % 2 == 0 ? 3.0f : 0.3f;
    for (std::size_t i = 0; i < to.size(); ++i) {
      switch (kind) {
        case TrainingKind::kConstant:
          to[i] = scales[call] * own[i];
          break;
        case TrainingKind::kAlternating:
          to[i] = step % 2 == 0 ? scales[call] * own[i] : reversed * other[i];
          break;
        case TrainingKind::kDrifting:
          to[i] = scales[call] * grown * ((1 - part) * own[i] + part * other[i]);
          break;
        case TrainingKind::kNoisy:
          to[i] = scales[call] * (own[i] + noisy * noise[i + shift]);
          break;
        case TrainingKind::kSwinging:
          to[i] = scales[call] * swung * own[i];
          break;
      }
    }
  };
  return gradients;
}

/// Calls whose values differ in size by a factor of `spread` from one to the next.
inline TrainingGradients make_gradients(TrainingKind kind, const std::vector<std::size_t>& counts,
                                        int world, std::size_t steps, float spread) {
  auto values = std::make_shared<std::vector<TrainingValues>>();
  std::vector<float> scales;
  for (std::size_t call = 0; call < counts.size(); ++call) {
    values->emplace_back(counts[call], call, world);
    scales.push_back(std::pow(spread, -static_cast<float>(call)));
  }
  return gradients_of(kind, values, scales, steps);
}

/// Five calls of several laws and sizes. `smaller`: than those that tell most.
inline TrainingGradients make_mixed_gradients(TrainingKind kind, int world, std::size_t steps,
                                              std::size_t smaller = 1) {
  constexpr std::size_t kCounts[] = {40003, 20001, 65536, 30011, 50001};
  auto values = std::make_shared<std::vector<TrainingValues>>();
  for (const std::size_t count : kCounts) {
    values->push_back(values_of_laws(count / smaller, values->size(), world));
  }
  TrainingGradients gradients = gradients_of(kind, values, {1, 10, 0.1f, 3, 0.5f}, steps);
  gradients.name += ", mixed laws";
  return gradients;
}

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_LEVELED_TRAINING_H_
