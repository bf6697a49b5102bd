// Tensors of one dimension, of odd sizes and of none, on numbers of ranks that divide nothing:
// equal to the reference, with codecs the same on all ranks and as near to it as the codec
// promises.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "ringpress/internal/types.h"
#include "ringpress/ringpress.h"
#include "tests/support/nccl_processes.h"
#include "tests/support/nccl_ranks.h"
#include "tests/support/numbers.h"
#include "tests/support/random_tensor.h"

namespace ringpress::testing {
namespace {

using OddTensor = std::vector<std::byte>;

const std::size_t kOddCounts[] = {0, 1, 7, 23, 1021};

/// Few ranks have a one at a place, so that all sums are exact in eight bits.
double odd_value(int rank, std::size_t i) {
  return (5 * i + static_cast<std::size_t>(rank)) % 8 == 0 ? 1 : 0;
}

template <typename Value>
OddTensor odd_tensor(DType dtype, std::size_t count, Value&& value) {
  OddTensor tensor(count * dtype_size(dtype));
  for (std::size_t i = 0; i < count; ++i) {
    write_number(&tensor[i * dtype_size(dtype)], dtype, value(i));
  }
  return tensor;
}

OddTensor odd_input(DType dtype, int rank, std::size_t count) {
  return odd_tensor(dtype, count, [rank](std::size_t i) { return odd_value(rank, i); });
}

/// The sum of elements [first, first + count).
OddTensor odd_sum(DType dtype, int size, std::size_t first, std::size_t count) {
  return odd_tensor(dtype, count, [size, first](std::size_t i) {
    double sum = 0;
    for (int rank = 0; rank < size; ++rank) sum += odd_value(rank, first + i);
    return sum;
  });
}

/// One member of a communicator, and what it calls.
struct OddMember {
  ncclComm_t comm;
  int rank;
  int size;

  void expect_reductions(DType dtype, std::size_t count) const {
    const auto type = static_cast<ncclDataType_t>(dtype);
    const OddTensor send = odd_input(dtype, rank, count);
    OddTensor got(send.size());
    ASSERT_NCCL_OK(ncclAllReduce(send.data(), got.data(), count, type, ncclSum, comm, nullptr));
    EXPECT_EQ(got, odd_sum(dtype, size, 0, count));
    const int root = size / 2;
    ASSERT_NCCL_OK(ncclReduce(send.data(), got.data(), count, type, ncclSum, root, comm, nullptr));
    if (rank == root) {
      EXPECT_EQ(got, odd_sum(dtype, size, 0, count));
    }
    const auto first = count * static_cast<std::size_t>(rank);
    const OddTensor all = odd_input(dtype, rank, count * static_cast<std::size_t>(size));
    ASSERT_NCCL_OK(ncclReduceScatter(all.data(), got.data(), count, type, ncclSum, comm, nullptr));
    EXPECT_EQ(got, odd_sum(dtype, size, first, count));
  }

  void expect_movements(DType dtype, std::size_t count) const {
    const auto type = static_cast<ncclDataType_t>(dtype);
    const OddTensor send = odd_input(dtype, rank, count);
    OddTensor all, gathered(send.size() * static_cast<std::size_t>(size));
    for (int from = 0; from < size; ++from) {
      const OddTensor part = odd_input(dtype, from, count);
      all.insert(all.end(), part.begin(), part.end());
    }
    ASSERT_NCCL_OK(ncclAllGather(send.data(), gathered.data(), count, type, comm, nullptr));
    EXPECT_EQ(gathered, all);
    OddTensor got = send;
    ASSERT_NCCL_OK(ncclBroadcast(got.data(), got.data(), count, type, size - 1, comm, nullptr));
    EXPECT_EQ(got, odd_input(dtype, size - 1, count));
    const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    EXPECT_NCCL_OK(ncclGroupStart());
    EXPECT_NCCL_OK(ncclSend(send.data(), count, type, next, comm, nullptr));
    EXPECT_NCCL_OK(ncclRecv(got.data(), count, type, previous, comm, nullptr));
    ASSERT_NCCL_OK(ncclGroupEnd());
    EXPECT_EQ(got, odd_input(dtype, previous, count));
  }

  /// The error of a sum that is the same on all ranks, over what the ranks put in: as sums may
  /// cancel, their own size says little.
  double error_of_sum(std::size_t count, std::uint64_t seed) const {
    std::vector<double> wanted(count);
    double put_in = 0;
    for (int from = 0; from < size; ++from) {
      const std::vector<float> part = random_gradient(count, seed, from);
      double norm = 0;
      for (std::size_t i = 0; i < count; ++i) {
        wanted[i] += part[i];
        norm += part[i] * part[i];
      }
      put_in += std::sqrt(norm);
    }
    std::vector<float> got = random_gradient(count, seed, rank);
    EXPECT_NCCL_OK(ncclAllReduce(got.data(), got.data(), count, ncclFloat, ncclSum, comm, nullptr));
    std::vector<float> of_first = got;
    EXPECT_NCCL_OK(
        ncclBroadcast(of_first.data(), of_first.data(), count, ncclFloat, 0, comm, nullptr));
    EXPECT_EQ(std::memcmp(got.data(), of_first.data(), count * sizeof(float)), 0);
    double error = 0;
    for (std::size_t i = 0; i < count; ++i) error += std::pow(got[i] - wanted[i], 2);
    return count == 0 ? 0 : std::sqrt(error) / put_in;
  }
};

/// The most of error_of_sum() whatever the size. 1 is everything.
struct OddCodec {
  const char* name;
  double most_error;
};
constexpr OddCodec kOddCodecs[] = {
    {"lossless", 1e-6}, {"bf16", 0.004}, {"fp16", 0.001}, {"fp8", 0.0625}, {"q8", 0.02},
    {"q4", 0.3},        {"q2", 0.8},     {"qsgd", 0.5},   {"tern", 2},     {"sign", 0.8},
    {"topk", 1},        {"randk", 1},    {"powersgd", 1}};

void expect_exact(const ncclUniqueId& id, int rank, int size) {
  const ScopedEnvironment mode("RINGPRESS", "off");
  OddMember member{nullptr, rank, size};
  ASSERT_NCCL_OK(ncclCommInitRank(&member.comm, size, id, rank));
  for (int type = 0; type < kDTypeCount; ++type) {
    for (const std::size_t count : kOddCounts) {
      member.expect_reductions(static_cast<DType>(type), count);
      member.expect_movements(static_cast<DType>(type), count);
    }
  }
  EXPECT_NCCL_OK(ncclCommDestroy(member.comm));
}

void expect_compressed(const ncclUniqueId& id, int rank, int size, const OddCodec& codec) {
  OddMember member{nullptr, rank, size};
  ASSERT_NCCL_OK(ncclCommInitRank(&member.comm, size, id, rank));
  for (const std::size_t count : kOddCounts) {
    const double error = member.error_of_sum(count, count);
    EXPECT_LE(error, codec.most_error) << codec.name << ", " << count << " values";
    member.expect_movements(DType::kFloat32, count);
  }
  ringpressStatistics_t statistics{};
  statistics.size = sizeof statistics;
  EXPECT_EQ(ringpressGetStatistics(member.comm, &statistics), ncclSuccess);
  EXPECT_GT(statistics.compressed_calls, 0u) << codec.name;
  EXPECT_NCCL_OK(ncclCommDestroy(member.comm));
}

class OddSizes : public ::testing::TestWithParam<int> {
 protected:
  const ScopedEnvironment minimum_{"RINGPRESS_MIN_BYTES", "0"};
  const ScopedEnvironment feedback_{"RINGPRESS_EF", "0"};
};

TEST_P(OddSizes, AreExactWithoutACodec) {
  const int size = GetParam();
  run_processes(size, [size](const ncclUniqueId& id, int rank) { expect_exact(id, rank, size); });
}

TEST_P(OddSizes, AreTheSameOnAllRanksWithEveryCodec) {
  const int size = GetParam();
  for (const OddCodec& codec : kOddCodecs) {
    const ScopedEnvironment name("RINGPRESS_CODEC", codec.name);
    run_processes(size, [size, &codec](const ncclUniqueId& id, int rank) {
      expect_compressed(id, rank, size, codec);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Processes, OddSizes, ::testing::Values(3, 5));

/// So many processes would be too much for a small machine.
TEST(OddSizesOfThreads, On24Ranks) {
  constexpr int kThreads = 24;
  const ScopedEnvironment minimum("RINGPRESS_MIN_BYTES", "0");
  const ScopedEnvironment feedback("RINGPRESS_EF", "0");
  {
    const ScopedEnvironment mode("RINGPRESS", "off");
    run_nccl_ranks(kThreads, [](ncclComm_t comm, int rank) {
      const OddMember member{comm, rank, kThreads};
      for (int type = 0; type < kDTypeCount; ++type) {
        for (const std::size_t count : {0, 1, 23, 1021}) {
          member.expect_reductions(static_cast<DType>(type), count);
          member.expect_movements(static_cast<DType>(type), count);
        }
      }
    });
  }
  for (const OddCodec& codec : kOddCodecs) {
    const ScopedEnvironment name("RINGPRESS_CODEC", codec.name);
    const ncclUniqueId id = make_nccl_id();
    run_threads(kThreads, [&](int rank) { expect_compressed(id, rank, kThreads, codec); });
  }
}

}  // namespace
}  // namespace ringpress::testing
