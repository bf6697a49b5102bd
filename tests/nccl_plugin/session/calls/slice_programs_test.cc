// Random programs whose calls send a slice of coordinates each: whatever their buffers do, each
// tensor's calls take all slices in each cycle.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "nccl_plugin/session/mesh_communicator.h"
#include "tests/support/random_tensor.h"
#include "tests/support/thread_mesh.h"

namespace ringpress::nccl_plugin::slice_programs_test {
namespace {

using Floats = std::vector<float>;

/// Where the tensors of a rank are.
enum class Buffers {
  kOwn,       // Each in a buffer of its own.
  kNew,       // In a new one each time.
  kByTurns,   // Each in several of its own, one after the other.
  kOneForAll  // All in one.
};

struct SliceProgram {
  int world = 2;
  std::vector<std::size_t> tensors;  // Their counts: two or more, and one size is there once.
  std::size_t slices = 4;
  std::size_t stray_every = 0;   // Steps, after which another tensor comes; 0: never.
  std::vector<Buffers> buffers;  // By rank.

  bool has_few_of_each_size() const {
    std::map<std::size_t, int> times;
    for (const std::size_t count : tensors) ++times[count];
    return std::all_of(times.begin(), times.end(), [](const auto& of) { return of.second < 3; });
  }
};

SliceProgram random_slice_program(std::mt19937& random) {
  const auto draw = [&random](std::size_t most) { return random() % most; };
  SliceProgram program;
  program.world = 2 + static_cast<int>(draw(2));
  program.tensors = {700};
  const std::size_t sizes = 1 + draw(3);
  for (std::size_t more = 1 + draw(5); more > 0; --more) {
    program.tensors.push_back(1000 + 200 * draw(sizes));
  }
  std::shuffle(program.tensors.begin(), program.tensors.end(), random);
  program.slices = 2 + draw(4);
  if (draw(2) == 0) program.stray_every = 2 + draw(4);
  const bool are_alike = draw(2) == 0;
  for (int rank = 0; rank < program.world; ++rank) {
    const auto own = static_cast<Buffers>(draw(4));
    program.buffers.push_back(are_alike && rank > 0 ? program.buffers[0] : own);
  }
  return program;
}

/// The buffers of one rank.
class SliceBuffers {
 public:
  SliceBuffers(Buffers kind, std::size_t tensors) : kind_(kind), tensors_(tensors) {}

  const float* holding(const Floats& values, std::size_t tensor, std::size_t step) {
    constexpr std::size_t kTurns = 3, kLargest = 4000;
    std::size_t number = 0;
    switch (kind_) {
      case Buffers::kOwn:
        number = tensor;
        break;
      case Buffers::kNew:
        number = made_.size();
        break;
      case Buffers::kByTurns:
        number = tensor + step % kTurns * tensors_;
        break;
      case Buffers::kOneForAll:
        break;
    }
    while (made_.size() <= number) made_.emplace_back(kLargest);
    std::copy(values.begin(), values.end(), made_[number].begin());
    return made_[number].data();
  }

 private:
  Buffers kind_;
  std::size_t tensors_;
  std::deque<Floats> made_;  // All of them stay: no address comes again.
};

/// The results of each tensor, the strays' at the end.
std::vector<std::vector<Floats>> results_of(const SliceProgram& program, std::size_t steps) {
  const std::string codec =
      "randk:unbiased=1,density=" + std::to_string(1.0 / static_cast<double>(program.slices));
  const Settings settings = parse_settings(
      {{"RINGPRESS_CODEC", codec}, {"RINGPRESS_MIN_BYTES", "0"}, {"RINGPRESS_WARMUP_STEPS", "0"}},
      nullptr);
  const auto fabric = std::make_shared<testing::ThreadFabric>(program.world, false);
  const std::size_t tensors = program.tensors.size();
  std::vector<std::vector<Floats>> results(tensors + 1);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < program.world; ++rank) {
    threads.emplace_back([&, rank] {
      MeshCommunicator communicator(std::make_unique<testing::ThreadMesh>(fabric, rank), settings);
      SliceBuffers buffers(program.buffers[static_cast<std::size_t>(rank)], tensors + 1);
      const auto call = [&](std::size_t tensor, std::size_t count, std::size_t step) {
        const Floats values = testing::random_gradient(count, 1 + tensor, rank);
        Floats result(count);
        const Status status = communicator.all_reduce(buffers.holding(values, tensor, step),
                                                      result.data(), count, DType::kFloat32, {});
        ASSERT_TRUE(status.is_ok()) << status.message();
        if (rank == 0) results[tensor].push_back(std::move(result));
      };
      for (std::size_t step = 1; step <= steps; ++step) {
        for (std::size_t i = 0; i < tensors; ++i) call(i, program.tensors[i], step);
        const bool has_stray = program.stray_every != 0 && step % program.stray_every == 0;
        if (has_stray) call(tensors, 3000, step);
      }
    });
  }
  threads.clear();
  return results;
}

/// Whether the mean of these calls is the exact sum.
bool is_exact(const std::vector<Floats>& results, std::size_t first, std::size_t calls,
              std::size_t tensor, int world) {
  const std::size_t count = results[0].size();
  std::vector<double> exact(count);
  for (int rank = 0; rank < world; ++rank) {
    const Floats values = testing::random_gradient(count, 1 + tensor, rank);
    for (std::size_t i = 0; i < count; ++i) exact[i] += double{values[i]};
  }
  double lost = 0, whole = 0;
  for (std::size_t i = 0; i < count; ++i) {
    double sum = 0;
    for (std::size_t call = first; call < first + calls; ++call) sum += double{results[call][i]};
    lost += std::pow(sum / static_cast<double>(calls) - exact[i], 2);
    whole += exact[i] * exact[i];
  }
  return std::sqrt(lost / whole) < 1e-5;
}

/// RINGPRESS_TEST_SLICE_PROGRAMS: how many.
long slice_programs_to_try() {
  const char* const wanted = std::getenv("RINGPRESS_TEST_SLICE_PROGRAMS");
  return wanted == nullptr ? 20 : std::atol(wanted);
}

TEST(SlicePrograms, TheMeanOverACycleIsExactWhateverBuffersDo) {
  constexpr std::size_t kCycles = 5;
  long cycles = 0, first_restarts = 0, later_restarts = 0;
  for (long number = 0; number < slice_programs_to_try(); ++number) {
    std::mt19937 random(static_cast<unsigned>(number));
    const SliceProgram program = random_slice_program(random);
    const auto results = results_of(program, kCycles * program.slices);
    for (std::size_t tensor = 0; tensor < results.size(); ++tensor) {
      const std::vector<Floats>& own = results[tensor];
      for (std::size_t first = 0; first + program.slices <= own.size(); first += program.slices) {
        ++cycles;
        if (is_exact(own, first, program.slices, tensor, program.world)) continue;
        ++(first == 0 ? first_restarts : later_restarts);
        EXPECT_TRUE(first == 0 && !program.has_few_of_each_size())
            << "program " << number << ", tensor " << tensor << ", from its call " << first;
      }
    }
  }
  std::printf("%ld programs, %ld cycles, not exact: %ld first ones, %ld later ones\n",
              slice_programs_to_try(), cycles, first_restarts, later_restarts);
}

}  // namespace
}  // namespace ringpress::nccl_plugin::slice_programs_test
