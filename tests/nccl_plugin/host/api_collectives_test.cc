// Every collective of the NCCL API, exact for every type: against an oracle in doubles.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <vector>

#include "tests/support/nccl_ranks.h"
#include "tests/support/numbers.h"

namespace ringpress::testing {
namespace {

using Bytes = std::vector<std::byte>;

/// Counts around and beyond what fits into a vector register, and none of them round.
const std::size_t kCounts[] = {1, 7, 33, 1021};

ncclDataType_t nccl_type(DType dtype) {
  return static_cast<ncclDataType_t>(dtype);
}

bool is_signed(DType dtype) {
  return dtype != DType::kUint8 && dtype != DType::kUint32 && dtype != DType::kUint64;
}

/// An input whose reduction over up to four ranks is exact in every type.
double input_value(ReduceOp op, DType dtype, int rank, std::size_t i) {
  const double sign = is_signed(dtype) && i % 5 == 3 ? -1 : 1;
  switch (op) {
    case ReduceOp::kSum:
      return sign * static_cast<double>((i + static_cast<std::size_t>(rank)) % 2);
    case ReduceOp::kProd:
      return (i + static_cast<std::size_t>(rank)) % 3 == 0 ? 2 : sign;
    case ReduceOp::kMax:
    case ReduceOp::kMin:
      return sign * static_cast<double>((i * 7 + static_cast<std::size_t>(rank) * 3) % 8);
    case ReduceOp::kAvg:
      return static_cast<double>(i % 3);
  }
  return 0;
}

double reduced_value(ReduceOp op, DType dtype, int size, std::size_t i) {
  double value = input_value(op, dtype, 0, i);
  for (int rank = 1; rank < size; ++rank) {
    const double next = input_value(op, dtype, rank, i);
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAvg:
        value += next;
        break;
      case ReduceOp::kProd:
        value *= next;
        break;
      case ReduceOp::kMax:
        value = std::max(value, next);
        break;
      case ReduceOp::kMin:
        value = std::min(value, next);
        break;
    }
  }
  return op == ReduceOp::kAvg ? value / size : value;
}

Bytes make_input(ReduceOp op, DType dtype, int rank, std::size_t count) {
  const std::size_t width = dtype_size(dtype);
  Bytes bytes(count * width);
  for (std::size_t i = 0; i < count; ++i) {
    write_number(&bytes[i * width], dtype, input_value(op, dtype, rank, i));
  }
  return bytes;
}

/// The reduction of elements [first, first + count).
Bytes make_reduced(ReduceOp op, DType dtype, int size, std::size_t first, std::size_t count) {
  const std::size_t width = dtype_size(dtype);
  Bytes bytes(count * width);
  for (std::size_t i = 0; i < count; ++i) {
    write_number(&bytes[i * width], dtype, reduced_value(op, dtype, size, first + i));
  }
  return bytes;
}

std::vector<std::tuple<DType, ReduceOp>> types_and_ops() {
  std::vector<std::tuple<DType, ReduceOp>> all;
  for (int type = 0; type < kDTypeCount; ++type) {
    for (int op = 0; op < kReduceOpCount; ++op) {
      all.emplace_back(static_cast<DType>(type), static_cast<ReduceOp>(op));
    }
  }
  return all;
}

/// Equal as numbers: a zero may have either sign.
void expect_equal(const Bytes& got, const Bytes& wanted, DType dtype, ReduceOp op) {
  ASSERT_EQ(got.size(), wanted.size());
  const std::size_t width = dtype_size(dtype);
  for (std::size_t i = 0; i < got.size() / width; ++i) {
    ASSERT_EQ(read_number(&got[i * width], dtype), read_number(&wanted[i * width], dtype))
        << dtype_name(dtype) << " " << reduce_op_name(op) << ", element " << i << " of "
        << got.size() / width;
  }
}

class Reductions : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Reductions, ::testing::Values(1, 2, 3, 4));

TEST_P(Reductions, AllReduceIsExact) {
  const int size = GetParam();
  run_nccl_ranks(size, [&](ncclComm_t comm, int rank) {
    for (const auto& [dtype, op] : types_and_ops()) {
      for (const std::size_t count : kCounts) {
        const Bytes send = make_input(op, dtype, rank, count);
        Bytes receive(send.size());
        ASSERT_NCCL_OK(ncclAllReduce(send.data(), receive.data(), count, nccl_type(dtype),
                                     static_cast<ncclRedOp_t>(op), comm, nullptr));
        Bytes in_place = send;
        ASSERT_NCCL_OK(ncclAllReduce(in_place.data(), in_place.data(), count, nccl_type(dtype),
                                     static_cast<ncclRedOp_t>(op), comm, nullptr));
        const Bytes wanted = make_reduced(op, dtype, size, 0, count);
        expect_equal(receive, wanted, dtype, op);
        EXPECT_EQ(in_place, receive);
        EXPECT_EQ(send, make_input(op, dtype, rank, count)) << "sendbuff was written";
      }
    }
  });
}

TEST_P(Reductions, ReduceScatterIsExact) {
  const int size = GetParam();
  const auto ranks = static_cast<std::size_t>(size);
  run_nccl_ranks(size, [&](ncclComm_t comm, int rank) {
    for (const auto& [dtype, op] : types_and_ops()) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{37}}) {
        Bytes send = make_input(op, dtype, rank, count * ranks);
        Bytes receive(count * dtype_size(dtype));
        const std::size_t first = count * static_cast<std::size_t>(rank);
        ASSERT_NCCL_OK(ncclReduceScatter(send.data(), receive.data(), count, nccl_type(dtype),
                                         static_cast<ncclRedOp_t>(op), comm, nullptr));
        expect_equal(receive, make_reduced(op, dtype, size, first, count), dtype, op);
        std::byte* const own = send.data() + first * dtype_size(dtype);
        ASSERT_NCCL_OK(ncclReduceScatter(send.data(), own, count, nccl_type(dtype),
                                         static_cast<ncclRedOp_t>(op), comm, nullptr));
        EXPECT_EQ(Bytes(own, own + receive.size()), receive);
      }
    }
  });
}

TEST_P(Reductions, ReduceIsExactOnTheRootAndWritesNowhereElse) {
  const int size = GetParam();
  run_nccl_ranks(size, [&](ncclComm_t comm, int rank) {
    for (const auto& [dtype, op] : types_and_ops()) {
      const std::size_t count = 129;
      const int root = static_cast<int>(op) % size;
      const Bytes send = make_input(op, dtype, rank, count);
      Bytes receive(send.size());
      ASSERT_NCCL_OK(ncclReduce(send.data(), rank == root ? receive.data() : nullptr, count,
                                nccl_type(dtype), static_cast<ncclRedOp_t>(op), root, comm,
                                nullptr));
      if (rank == root) {
        expect_equal(receive, make_reduced(op, dtype, size, 0, count), dtype, op);
      }
      EXPECT_EQ(send, make_input(op, dtype, rank, count)) << "sendbuff was written";
    }
  });
}

class Movements : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Movements, ::testing::Values(1, 2, 3, 4));

/// A block that names its origin.
std::vector<int> block_of(int from, int to, std::size_t count) {
  std::vector<int> block(count);
  for (std::size_t i = 0; i < count; ++i)
    block[i] = from * 1000000 + to * 10000 + static_cast<int>(i);
  return block;
}

std::vector<int> join(const std::vector<std::vector<int>>& blocks) {
  std::vector<int> all;
  for (const std::vector<int>& block : blocks) all.insert(all.end(), block.begin(), block.end());
  return all;
}

TEST_P(Movements, AllGather) {
  const int size = GetParam();
  run_nccl_ranks(size, [&](ncclComm_t comm, int rank) {
    for (const std::size_t count : kCounts) {
      std::vector<std::vector<int>> blocks;
      for (int from = 0; from < size; ++from) blocks.push_back(block_of(from, 0, count));
      const std::vector<int> send = blocks[static_cast<std::size_t>(rank)];
      std::vector<int> receive(count * static_cast<std::size_t>(size));
      ASSERT_NCCL_OK(ncclAllGather(send.data(), receive.data(), count, ncclInt32, comm, nullptr));
      EXPECT_EQ(receive, join(blocks));
      std::fill(receive.begin(), receive.end(), 0);
      int* const own = receive.data() + count * static_cast<std::size_t>(rank);
      std::copy(send.begin(), send.end(), own);
      ASSERT_NCCL_OK(ncclAllGather(own, receive.data(), count, ncclInt32, comm, nullptr));
      EXPECT_EQ(receive, join(blocks));
    }
  });
}

TEST_P(Movements, BroadcastFromEveryRoot) {
  const int size = GetParam();
  run_nccl_ranks(size, [&](ncclComm_t comm, int rank) {
    for (int root = 0; root < size; ++root) {
      const std::size_t count = 517;
      const std::vector<int> wanted = block_of(root, 3, count);
      const std::vector<int> send = rank == root ? wanted : std::vector<int>();
      std::vector<int> receive(count);
      ASSERT_NCCL_OK(ncclBroadcast(rank == root ? send.data() : nullptr, receive.data(), count,
                                   ncclInt32, root, comm, nullptr));
      EXPECT_EQ(receive, wanted);
      std::vector<int> buffer = rank == root ? wanted : std::vector<int>(count);
      ASSERT_NCCL_OK(ncclBcast(buffer.data(), count, ncclInt32, root, comm, nullptr));
      EXPECT_EQ(buffer, wanted);
    }
  });
}

TEST_P(Movements, AllToAll) {
  const int size = GetParam();
  run_nccl_ranks(size, [&](ncclComm_t comm, int rank) {
    for (const std::size_t count : kCounts) {
      std::vector<std::vector<int>> sent;
      std::vector<std::vector<int>> wanted;
      for (int peer = 0; peer < size; ++peer) {
        sent.push_back(block_of(rank, peer, count));
        wanted.push_back(block_of(peer, rank, count));
      }
      const std::vector<int> send = join(sent);
      std::vector<int> receive(send.size());
      ASSERT_NCCL_OK(ncclAlltoAll(send.data(), receive.data(), count, ncclInt32, comm, nullptr));
      EXPECT_EQ(receive, join(wanted));
    }
  });
}

TEST_P(Movements, GatherAndScatterInAndOutOfPlace) {
  const int size = GetParam();
  const std::size_t count = 65;
  run_nccl_ranks(size, [&](ncclComm_t comm, int rank) {
    for (int root = 0; root < size; ++root) {
      std::vector<std::vector<int>> blocks;
      for (int peer = 0; peer < size; ++peer) blocks.push_back(block_of(peer, root, count));
      const std::vector<int> all = join(blocks);
      const std::vector<int> own = blocks[static_cast<std::size_t>(rank)];
      const bool is_root = rank == root;

      std::vector<int> gathered(all.size());
      ASSERT_NCCL_OK(ncclGather(own.data(), is_root ? gathered.data() : nullptr, count, ncclInt32,
                                root, comm, nullptr));
      if (is_root) {
        EXPECT_EQ(gathered, all);
      }
      std::vector<int> in_place(all.size());
      int* const slot = in_place.data() + count * static_cast<std::size_t>(rank);
      std::copy(own.begin(), own.end(), slot);
      ASSERT_NCCL_OK(ncclGather(slot, is_root ? in_place.data() : nullptr, count, ncclInt32, root,
                                comm, nullptr));
      if (is_root) {
        EXPECT_EQ(in_place, all);
      }

      std::vector<int> received(count);
      ASSERT_NCCL_OK(ncclScatter(is_root ? all.data() : nullptr, received.data(), count, ncclInt32,
                                 root, comm, nullptr));
      EXPECT_EQ(received, own);
      if (is_root) in_place = all;
      ASSERT_NCCL_OK(ncclScatter(is_root ? in_place.data() : nullptr,
                                 is_root ? slot : received.data(), count, ncclInt32, root, comm,
                                 nullptr));
      if (is_root) {
        EXPECT_EQ(in_place, all);
      }
      EXPECT_EQ(is_root ? own : received, own);
    }
  });
}

TEST(Movement, SendAndReceiveOfEveryType) {
  run_nccl_ranks(2, [&](ncclComm_t comm, int rank) {
    for (int type = 0; type < kDTypeCount; ++type) {
      const auto dtype = static_cast<DType>(type);
      const Bytes wanted = make_input(ReduceOp::kSum, dtype, 0, 100);
      if (rank == 0) {
        ASSERT_NCCL_OK(ncclSend(wanted.data(), 100, nccl_type(dtype), 1, comm, nullptr));
      } else {
        Bytes receive(wanted.size());
        ASSERT_NCCL_OK(ncclRecv(receive.data(), 100, nccl_type(dtype), 0, comm, nullptr));
        EXPECT_EQ(receive, wanted);
      }
    }
  });
}

TEST(Movement, CountZeroSucceedsWithoutBuffers) {
  run_nccl_ranks(2, [&](ncclComm_t comm, int rank) {
    const int peer = 1 - rank;
    EXPECT_NCCL_OK(ncclAllReduce(nullptr, nullptr, 0, ncclFloat, ncclSum, comm, nullptr));
    EXPECT_NCCL_OK(ncclReduceScatter(nullptr, nullptr, 0, ncclFloat, ncclSum, comm, nullptr));
    EXPECT_NCCL_OK(ncclAllGather(nullptr, nullptr, 0, ncclFloat, comm, nullptr));
    EXPECT_NCCL_OK(ncclBroadcast(nullptr, nullptr, 0, ncclFloat, 0, comm, nullptr));
    EXPECT_NCCL_OK(ncclBcast(nullptr, 0, ncclFloat, 0, comm, nullptr));
    EXPECT_NCCL_OK(ncclReduce(nullptr, nullptr, 0, ncclFloat, ncclSum, 0, comm, nullptr));
    EXPECT_NCCL_OK(ncclAlltoAll(nullptr, nullptr, 0, ncclFloat, comm, nullptr));
    EXPECT_NCCL_OK(ncclGather(nullptr, nullptr, 0, ncclFloat, 0, comm, nullptr));
    EXPECT_NCCL_OK(ncclScatter(nullptr, nullptr, 0, ncclFloat, 0, comm, nullptr));
    // Nobody waits for the other half.
    if (rank == 0) {
      EXPECT_NCCL_OK(ncclSend(nullptr, 0, ncclFloat, peer, comm, nullptr));
    }
    if (rank == 1) {
      EXPECT_NCCL_OK(ncclRecv(nullptr, 0, ncclFloat, peer, comm, nullptr));
    }
    // And the communicator is still in step.
    float one = 1;
    EXPECT_NCCL_OK(ncclAllReduce(&one, &one, 1, ncclFloat, ncclSum, comm, nullptr));
    EXPECT_EQ(one, 2);
  });
}

TEST(Movement, ADifferentCountIsAnErrorOnBothRanks) {
  run_nccl_ranks(2, [&](ncclComm_t comm, int rank) {
    std::vector<float> values(10);
    const std::size_t count = rank == 0 ? 10 : 9;
    EXPECT_NE(ncclAllReduce(values.data(), values.data(), count, ncclFloat, ncclSum, comm, nullptr),
              ncclSuccess);
    EXPECT_STRNE(ncclGetLastError(comm), "");
    ncclResult_t state = ncclSuccess;
    EXPECT_NCCL_OK(ncclCommGetAsyncError(comm, &state));
    EXPECT_NE(state, ncclSuccess);
    // A failed communicator stays failed.
    EXPECT_NE(ncclAllReduce(values.data(), values.data(), 9, ncclFloat, ncclSum, comm, nullptr),
              ncclSuccess);
  });
}

}  // namespace
}  // namespace ringpress::testing
