// Trainings whose loss is scaled: gradients overflow, the step is left out on all ranks, and the
// training goes on as it does without compression.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_plugin/session/mesh_communicator.h"
#include "tests/support/narrow_values.h"
#include "tests/support/numbers.h"
#include "tests/support/random_tensor.h"
#include "tests/support/sanitizers.h"
#include "tests/support/thread_mesh.h"

namespace ringpress::nccl_plugin::loss_scaling_test {
namespace {

using Floats = std::vector<float>;
using Environment = std::vector<std::pair<std::string, std::string>>;

constexpr int kWorld = 3;
constexpr std::size_t kValues = 3000;
#if defined(RINGPRESS_WITH_ASAN) || defined(RINGPRESS_WITH_TSAN)
constexpr std::size_t kSteps = 100;
constexpr double kUnfinished = 2.5;  // Each step that is left out shows.
#else
constexpr std::size_t kSteps = 600;
constexpr double kUnfinished = 1;
#endif
constexpr std::size_t kNoises = 31;
constexpr float kRate = 0.02F;

/// The ranks' gradients are those of half the squared distance from a point of their own, with
/// noise: together they lead to the mean of these points.
struct Training {
  Environment environment;
  DType dtype = DType::kFloat32;
  bool overflows = true;
  float largest_scale = 1024;
};

/// As torch.amp's GradScaler: doubled after some good steps, halved by an overflow.
class LossScaler {
 public:
  static constexpr int kGrowsAfter = 19;

  explicit LossScaler(float largest) : largest_(largest) {}

  float scale() const { return scale_; }
  /// Whether the step counts.
  bool is_good(std::span<const float> result) {
    const bool is_finite =
        std::all_of(result.begin(), result.end(), [](float value) { return std::isfinite(value); });
    good_ = is_finite ? good_ + 1 : 0;
    if (!is_finite) scale_ /= 2;
    if (good_ == kGrowsAfter) {
      scale_ = std::min(2 * scale_, largest_);
      good_ = 0;
    }
    return is_finite;
  }

 private:
  const float largest_;
  float scale_ = 1024;
  int good_ = 0;
};

/// What one rank sees.
struct Course {
  std::vector<bool> had_overflow;  // A rank's gradient, of each step.
  std::vector<bool> was_left_out;
  Floats parameters;

  std::size_t left_out() const {
    return static_cast<std::size_t>(std::count(was_left_out.begin(), was_left_out.end(), true));
  }
};

Floats point_of(int rank) {
  return testing::random_gradient(kValues, 1, rank);
}

/// The step and the place of an overflow are equal on all ranks; one of them has it.
struct Overflow {
  int rank = 0;
  std::size_t place = 0;
  float value = 0;
};

std::vector<Overflow> overflows_of(const Training& training) {
  std::vector<Overflow> overflows(kSteps, {-1, 0, 0});
  if (!training.overflows) return overflows;
  std::mt19937 random(5);  // (A fixed seed: all ranks draw the same.)
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kValuesOfOverflows[] = {kInfinity, -kInfinity,
                                          std::numeric_limits<float>::quiet_NaN()};
  for (std::size_t i = 0; i < kSteps / 20; ++i) {
    overflows[random() % kSteps] = {static_cast<int>(random() % kWorld), random() % kValues,
                                    kValuesOfOverflows[random() % 3]};
  }
  return overflows;
}

class Rank {
 public:
  Rank(const Training& training, int rank)
      : training_(training),
        rank_(rank),
        point_(point_of(rank)),
        overflows_(overflows_of(training)),
        scaler_(training.largest_scale) {
    course_.parameters.resize(kValues);
    buffer_.resize(kValues * dtype_size(training.dtype));
    for (std::size_t i = 0; i < kNoises; ++i) {
      noises_.push_back(testing::random_gradient(kValues, i + 2, rank));
    }
  }

  void run(MeshCommunicator* communicator) {
    for (std::size_t step = 0; step < kSteps; ++step) {
      course_.had_overflow.push_back(overflows_[step].rank >= 0);
      write_gradient(step);
      const Status status = communicator->all_reduce(buffer_.data(), buffer_.data(), kValues,
                                                     training_.dtype, {ReduceOp::kAvg});
      ASSERT_TRUE(status.is_ok()) << status.message();
      take_step();
    }
  }

  const Course& course() const { return course_; }

 private:
  void write_gradient(std::size_t step) {
    const Floats& noise = noises_[step % noises_.size()];
    Floats scaled(kValues);
    for (std::size_t i = 0; i < kValues; ++i) {
      const float gradient = course_.parameters[i] - point_[i] + noise[i] / 4;
      scaled[i] = gradient * scaler_.scale();
    }
    const Overflow& overflow = overflows_[step];
    if (overflow.rank == rank_) scaled[overflow.place] = overflow.value;
    compress_kernels::narrow_values(scaled.data(), kValues, training_.dtype, buffer_.data());
  }

  void take_step() {
    Floats result(kValues);
    for (std::size_t i = 0; i < kValues; ++i) {
      result[i] = static_cast<float>(
          testing::read_number(buffer_.data() + i * dtype_size(training_.dtype), training_.dtype));
    }
    const float scale = scaler_.scale();
    const bool is_good = scaler_.is_good(result);
    course_.was_left_out.push_back(!is_good);
    if (!is_good) return;
    for (std::size_t i = 0; i < kValues; ++i) {
      course_.parameters[i] -= kRate * result[i] / scale;
    }
  }

  const Training training_;
  const int rank_;
  const Floats point_;
  const std::vector<Overflow> overflows_;
  std::vector<Floats> noises_;  // By turns.
  LossScaler scaler_;
  std::vector<std::byte> buffer_;
  Course course_;
};

/// All ranks have the same course.
Course run(const Training& training) {
  Environment environment = training.environment;
  environment.emplace_back("RINGPRESS_MIN_BYTES", "0");
  environment.emplace_back("RINGPRESS_CACHE", "off");
  const Settings settings = parse_settings(environment, nullptr);
  EXPECT_EQ(settings.mistake, "");
  const auto fabric = std::make_shared<testing::ThreadFabric>(kWorld, false);
  std::vector<Rank> ranks;
  for (int rank = 0; rank < kWorld; ++rank) ranks.emplace_back(training, rank);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < kWorld; ++rank) {
    threads.emplace_back([&, rank] {
      MeshCommunicator communicator(std::make_unique<testing::ThreadMesh>(fabric, rank), settings);
      ranks[static_cast<std::size_t>(rank)].run(&communicator);
    });
  }
  threads.clear();
  for (const Rank& rank : ranks) {
    EXPECT_EQ(rank.course().was_left_out, ranks[0].course().was_left_out);
    EXPECT_EQ(rank.course().parameters, ranks[0].course().parameters);
  }
  return ranks[0].course();
}

/// From where the mean of the ranks' points is, over its length.
double distance_of(const Course& course) {
  double distance = 0, length = 0;
  std::vector<Floats> points;
  for (int rank = 0; rank < kWorld; ++rank) points.push_back(point_of(rank));
  for (std::size_t i = 0; i < kValues; ++i) {
    double mean = 0;
    for (const Floats& point : points) mean += double{point[i]} / kWorld;
    distance += std::pow(double{course.parameters[i]} - mean, 2);
    length += mean * mean;
  }
  return std::sqrt(distance / length);
}

/// "CODEC NAME=VALUE".
Environment environment_of(const std::string& method) {
  const std::size_t end = method.find(' ');
  Environment environment{{"RINGPRESS_CODEC", method.substr(0, end)}};
  if (end == std::string::npos) return environment;
  const std::string more = method.substr(end + 1);
  const std::size_t sign = more.find('=');
  environment.emplace_back("RINGPRESS_" + more.substr(0, sign), more.substr(sign + 1));
  return environment;
}

struct Method {
  const char* name;
  double farther = 1.25;  // Times as far from the mean as without overflows, at most.
};
void PrintTo(const Method& method, std::ostream* to) {
  *to << method.name;
}

class Overflows : public ::testing::TestWithParam<Method> {};

TEST_P(Overflows, OfOneRankAreSeenByAllAndTheNextStepIsGood) {
  Training training{environment_of(GetParam().name)};
  const Course course = run(training);
  EXPECT_EQ(course.was_left_out, course.had_overflow);
  training.overflows = false;
  const Course undisturbed = run(training);
  EXPECT_EQ(undisturbed.left_out(), 0U);
  EXPECT_LT(distance_of(course), kUnfinished * GetParam().farther * distance_of(undisturbed) + 0.01)
      << distance_of(undisturbed);
}

INSTANTIATE_TEST_SUITE_P(
    Codecs, Overflows,
    ::testing::Values(Method{"auto"}, Method{"q8"}, Method{"q4"}, Method{"q4 EF=0"},
                      Method{"q4 EF=scales"}, Method{"q4 ADJUST_STEPS=20"},
                      Method{"q4:round=stochastic"}, Method{"q2"}, Method{"q2:grid=lloyd"},
                      Method{"q1", 5}, Method{"sign", 5}, Method{"tern"}, Method{"qsgd"},
                      Method{"fp8"}, Method{"fp16"}, Method{"lossless"}, Method{"topk:density=0.1"},
                      Method{"topk:density=0.01"}, Method{"randk:density=0.02"},
                      Method{"powersgd:rank=1"}, Method{"powersgd:rank=4"}));

class ScaleOfHalves : public ::testing::TestWithParam<const char*> {};

TEST_P(ScaleOfHalves, GoesUpAndDownAsWithoutCompression) {
  Training training{environment_of(GetParam()), DType::kFloat16, false};
  training.largest_scale = std::numeric_limits<float>::max();
  const Course course = run(training);
  training.environment = {{"RINGPRESS", "off"}};
  const Course exact = run(training);
  EXPECT_GT(exact.left_out(), kSteps / 50);
  EXPECT_NEAR(static_cast<double>(course.left_out()), static_cast<double>(exact.left_out()),
              0.1 * static_cast<double>(exact.left_out()) + 1);
}

INSTANTIATE_TEST_SUITE_P(Codecs, ScaleOfHalves,
                         ::testing::Values("q8", "q4", "q4 EF=scales", "q2:grid=lloyd", "sign",
                                           "topk:density=0.1", "powersgd:rank=4"));

}  // namespace
}  // namespace ringpress::nccl_plugin::loss_scaling_test
