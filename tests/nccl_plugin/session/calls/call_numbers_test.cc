// What is counted from call to call: no two calls of a tensor share their random bits or their
// slice of coordinates, and no memory is kept for error feedback that a codec makes no use of.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "compress_kernels/factory.h"
#include "nccl_plugin/session/mesh_communicator.h"
#include "tests/support/random_tensor.h"
#include "tests/support/thread_mesh.h"

namespace ringpress::nccl_plugin::call_numbers_test {
namespace {

using Floats = std::vector<float>;

/// Where the tensors of a job are.
enum class Buffers {
  kOwn,           // Each in a buffer of its own.
  kOne,           // All in one, in turn.
  kNew,           // In a new one each time.
  kNewOnOneRank,  // And on the other ranks each in its own.
};

struct CountedJob {
  int world = 2;
  std::size_t calls = 0;  // Of all tensors together.
  std::vector<std::pair<std::string, std::string>> environment;
  std::size_t tensors = 1;  // They come by turns.
  Buffers buffers = Buffers::kOwn;
};

struct CountedCalls {
  std::vector<Floats> results;
  std::size_t residual_bytes = 0;
};

constexpr std::size_t kCount = 20000;

/// The buffers of one rank.
class TensorBuffers {
 public:
  TensorBuffers(const CountedJob& job, int rank)
      : tensors_(job.tensors), rank_(rank), buffers_(job.buffers) {
    if (buffers_ == Buffers::kNewOnOneRank) buffers_ = rank == 0 ? Buffers::kNew : Buffers::kOwn;
  }
  const float* of_call(std::size_t call) {
    const std::size_t tensor = call % tensors_;
    Floats values = testing::random_gradient(kCount, 1 + tensor, rank_);
    const std::size_t number = buffers_ == Buffers::kOne   ? 0
                               : buffers_ == Buffers::kNew ? call
                                                           : tensor;
    while (made_.size() <= number) made_.emplace_back(kCount);
    std::copy(values.begin(), values.end(), made_[number].begin());
    return made_[number].data();
  }

 private:
  std::size_t tensors_;
  int rank_;
  Buffers buffers_;
  std::deque<Floats> made_;  // All of them stay: no address comes again.
};

/// The same tensors again and again; all ranks get the same.
CountedCalls make_calls(const CountedJob& job) {
  const Settings settings = parse_settings(job.environment, nullptr);
  const auto fabric = std::make_shared<testing::ThreadFabric>(job.world, false);
  std::vector<CountedCalls> ranks(static_cast<std::size_t>(job.world));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < job.world; ++rank) {
    threads.emplace_back([&, rank] {
      MeshCommunicator communicator(std::make_unique<testing::ThreadMesh>(fabric, rank), settings);
      TensorBuffers buffers(job, rank);
      CountedCalls& own = ranks[static_cast<std::size_t>(rank)];
      for (std::size_t call = 0; call < job.calls; ++call) {
        Floats result(kCount);
        const Status status = communicator.all_reduce(buffers.of_call(call), result.data(), kCount,
                                                      DType::kFloat32, {});
        ASSERT_TRUE(status.is_ok()) << status.message();
        own.results.push_back(std::move(result));
      }
      own.residual_bytes = communicator.statistics().residual_bytes;
    });
  }
  threads.clear();
  for (const CountedCalls& rank : ranks) EXPECT_TRUE(rank.results == ranks[0].results);
  return ranks[0];
}

/// Of the mean of some calls of a tensor; l2, over the norm of the exact sum.
double error_of_mean(const std::vector<Floats>& results, std::size_t first, std::size_t calls,
                     int world, std::size_t tensor = 0) {
  double lost = 0, whole = 0;
  std::vector<double> exact(kCount);
  for (int rank = 0; rank < world; ++rank) {
    const Floats values = testing::random_gradient(kCount, 1 + tensor, rank);
    for (std::size_t i = 0; i < kCount; ++i) exact[i] += double{values[i]};
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    double mean = 0;
    for (std::size_t call = first; call < first + calls; ++call) mean += double{results[call][i]};
    lost += std::pow(mean / static_cast<double>(calls) - exact[i], 2);
    whole += exact[i] * exact[i];
  }
  return std::sqrt(lost / whole);
}

TEST(CallNumbers, SlicesOfRandomCoordinatesComeInTurnFromTheFirstCallOn) {
  constexpr std::size_t kSlices = 4;
  for (const char* const unbiased : {"", ",unbiased=1"}) {
    for (const char* const feedback : {"0", "1"}) {
      for (const int world : {2, 3}) {
        const std::string codec = std::string("randk:density=0.25") + unbiased;
        const CountedCalls made = make_calls(
            {world, 2 * kSlices, {{"RINGPRESS_CODEC", codec}, {"RINGPRESS_EF", feedback}}});
        for (std::size_t first = 0; first < made.results.size(); first += kSlices) {
          std::vector<int> visits(kCount);
          for (std::size_t call = first; call < first + kSlices; ++call) {
            for (std::size_t i = 0; i < kCount; ++i) visits[i] += made.results[call][i] != 0;
          }
          EXPECT_EQ(visits, std::vector<int>(kCount, 1)) << codec << " from call " << first;
        }
        if (unbiased[0] == '\0') continue;
        EXPECT_LT(error_of_mean(made.results, 0, kSlices, world), 1e-6) << codec;
      }
    }
  }
}

std::vector<Floats> results_of(const CountedCalls& made, std::size_t tensor, std::size_t tensors) {
  std::vector<Floats> own;
  for (std::size_t call = tensor; call < made.results.size(); call += tensors) {
    own.push_back(made.results[call]);
  }
  return own;
}

// Also of tensors that look alike, and in buffers that do not tell them apart.
TEST(CallNumbers, EachTensorTakesAllSlicesInEachCycle) {
  struct Tried {
    std::size_t tensors;
    Buffers buffers;
  };
  for (const auto& [density, slices] : {std::pair("0.25", 4), {"0.3333", 4}, {"0.34", 3}}) {
    for (const auto& [tensors, buffers] :
         {Tried{2, Buffers::kOwn}, Tried{3, Buffers::kOwn}, Tried{5, Buffers::kOwn},
          Tried{2, Buffers::kOne}, Tried{1, Buffers::kNew}, Tried{2, Buffers::kNew},
          Tried{2, Buffers::kNewOnOneRank}, Tried{1, Buffers::kNewOnOneRank}}) {
      const auto each = static_cast<std::size_t>(slices);
      const std::string codec = std::string("randk:unbiased=1,density=") + density;
      const CountedCalls made =
          make_calls({2, 2 * each * tensors, {{"RINGPRESS_CODEC", codec}}, tensors, buffers});
      for (std::size_t tensor = 0; tensor < tensors; ++tensor) {
        const std::vector<Floats> results = results_of(made, tensor, tensors);
        for (const std::size_t first : {std::size_t{0}, each}) {
          EXPECT_LT(error_of_mean(results, first, each, 2, tensor), 1e-6)
              << codec << ", tensor " << tensor << " of " << tensors << ", buffers "
              << static_cast<int>(buffers) << ", from its call " << first;
        }
      }
    }
  }
}

TEST(CallNumbers, NoTwoCallsShareTheirRandomBits) {
  constexpr std::size_t kCalls = 16;
  for (const char* const codec :
       {"q4:round=stochastic", "q2:round=stochastic", "q3:grid=minmax,round=stochastic",
        "q2:grid=lloyd,round=stochastic", "tern", "qsgd", "qsgd-ms", "qsgd:bits=2,norm=global",
        "randk:density=0.0625,unbiased=1,code=qsgd"}) {
    for (const char* const algorithm : {"sra", "ring"}) {
      const CountedCalls made = make_calls(
          {2,
           kCalls,
           {{"RINGPRESS_CODEC", codec}, {"RINGPRESS_ALGO", algorithm}, {"RINGPRESS_EF", "0"}}});
      EXPECT_EQ(std::set<Floats>(made.results.begin(), made.results.end()).size(), kCalls) << codec;
      double of_one = 0;  // The mean of the squares.
      for (std::size_t call = 0; call < kCalls; ++call) {
        of_one += std::pow(error_of_mean(made.results, call, 1, 2), 2) / kCalls;
      }
      const double of_mean = std::pow(error_of_mean(made.results, 0, kCalls, 2), 2);
      EXPECT_LT(of_mean, 1.3 * of_one / kCalls) << codec << " by " << algorithm;
    }
  }
}

TEST(CallNumbers, ResidualsThatAreKeptAreUsed) {
  std::vector<std::string> codecs{
      "randk:unbiased=1",    "randk:code=q4,unbiased=1", "randk:code=qsgd",  "q2:grid=lloyd",
      "q3:round=stochastic", "q2:round=stochastic",      "topk:select=chunk"};
  for (const std::string_view name : compress_kernels::codec_names()) codecs.emplace_back(name);
  for (const std::string& codec : codecs) {
    const auto calls_with = [&codec](const char* feedback) {
      return make_calls({2, 6, {{"RINGPRESS_CODEC", codec}, {"RINGPRESS_EF", feedback}}});
    };
    const CountedCalls with = calls_with("1"), without = calls_with("0");
    // Else nothing but what a projection keeps.
    const bool keeps = with.residual_bytes >= kCount * sizeof(float);
    if (!keeps) {
      EXPECT_EQ(with.residual_bytes, without.residual_bytes) << codec;
    }
    EXPECT_EQ(keeps, with.results != without.results) << codec;
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin::call_numbers_test
