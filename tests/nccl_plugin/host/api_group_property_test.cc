// Random programs of groups: whatever is put together, every rank gets what it would get from the
// calls one by one.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/support/nccl_ranks.h"

namespace ringpress::testing {
namespace {

enum class StepKind { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kAllToAll, kShift };

/// One call that every rank makes. kShift: a send to rank + argument and a receive from
/// rank - argument.
struct Step {
  StepKind kind = StepKind::kAllReduce;
  std::size_t count = 0;
  int argument = 0;  // The root of a broadcast, the distance of a shift.
};
using Program = std::vector<std::vector<Step>>;  // Groups of steps.

/// The i-th input element of a rank for one step.
std::int64_t input(std::size_t step, int rank, std::size_t i) {
  return static_cast<std::int64_t>(step * 1000003 + i * 7) + rank * 131;
}

/// One rank's buffers for one step: room for a block per rank on both sides.
struct Buffers {
  std::vector<std::int64_t> send;
  std::vector<std::int64_t> receive;
};

Buffers make_buffers(const Step& step, std::size_t index, int rank, int size) {
  const std::size_t elements = step.count * static_cast<std::size_t>(size);
  Buffers buffers{std::vector<std::int64_t>(elements), std::vector<std::int64_t>(elements, -1)};
  for (std::size_t i = 0; i < elements; ++i) buffers.send[i] = input(index, rank, i);
  return buffers;
}

void issue(const Step& step, Buffers& b, int rank, int size, ncclComm_t comm) {
  const auto* send = b.send.data();
  auto* receive = b.receive.data();
  const std::size_t n = step.count;
  const int next = (rank + step.argument) % size;
  const int previous = (rank + size - step.argument) % size;
  switch (step.kind) {
    case StepKind::kAllReduce:
      EXPECT_NCCL_OK(ncclAllReduce(send, receive, n, ncclInt64, ncclSum, comm, nullptr));
      break;
    case StepKind::kReduceScatter:
      EXPECT_NCCL_OK(ncclReduceScatter(send, receive, n, ncclInt64, ncclSum, comm, nullptr));
      break;
    case StepKind::kAllGather:
      EXPECT_NCCL_OK(ncclAllGather(send, receive, n, ncclInt64, comm, nullptr));
      break;
    case StepKind::kBroadcast:
      EXPECT_NCCL_OK(ncclBroadcast(send, receive, n, ncclInt64, step.argument, comm, nullptr));
      break;
    case StepKind::kAllToAll:
      EXPECT_NCCL_OK(ncclAlltoAll(send, receive, n, ncclInt64, comm, nullptr));
      break;
    case StepKind::kShift:
      EXPECT_NCCL_OK(ncclSend(send, n, ncclInt64, next, comm, nullptr));
      EXPECT_NCCL_OK(ncclRecv(receive, n, ncclInt64, previous, comm, nullptr));
      break;
  }
}

std::int64_t sum_of_inputs(std::size_t index, int size, std::size_t i) {
  std::int64_t sum = 0;
  for (int rank = 0; rank < size; ++rank) sum += input(index, rank, i);
  return sum;
}

/// What a rank's receive buffer must hold after the step.
std::vector<std::int64_t> expected(const Step& step, std::size_t index, int rank, int size) {
  const std::size_t n = step.count;
  const std::size_t own = n * static_cast<std::size_t>(rank);
  std::vector<std::int64_t> wanted(n * static_cast<std::size_t>(size), -1);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const int block = static_cast<int>(i / n);
    switch (step.kind) {
      case StepKind::kAllReduce:
        if (block == 0) wanted[i] = sum_of_inputs(index, size, i);
        break;
      case StepKind::kReduceScatter:
        if (block == 0) wanted[i] = sum_of_inputs(index, size, own + i);
        break;
      case StepKind::kAllGather:
        wanted[i] = input(index, block, i % n);
        break;
      case StepKind::kBroadcast:
        if (block == 0) wanted[i] = input(index, step.argument, i);
        break;
      case StepKind::kAllToAll:
        wanted[i] = input(index, block, own + i % n);
        break;
      case StepKind::kShift:
        if (block == 0) wanted[i] = input(index, (rank + size - step.argument) % size, i);
        break;
    }
  }
  return wanted;
}

Program random_program(int size) {
  Program program(*rc::gen::inRange<std::size_t>(1, 4));
  for (auto& group : program) {
    group.resize(*rc::gen::inRange<std::size_t>(0, 6));
    for (Step& step : group) {
      step.kind =
          *rc::gen::element(StepKind::kAllReduce, StepKind::kReduceScatter, StepKind::kAllGather,
                            StepKind::kBroadcast, StepKind::kAllToAll, StepKind::kShift);
      step.count = *rc::gen::oneOf(rc::gen::inRange<std::size_t>(0, 5),
                                   rc::gen::inRange<std::size_t>(0, 3000));
      step.argument = *rc::gen::inRange(0, size);
    }
  }
  return program;
}

/// Runs the program on the ranks whose communicators are given, from this thread alone.
void run_program(const Program& program, const std::vector<int>& ranks, int size,
                 const std::vector<ncclComm_t>& comms) {
  std::size_t first_step = 0;
  for (const auto& group : program) {
    std::vector<std::vector<Buffers>> buffers(group.size());
    EXPECT_NCCL_OK(ncclGroupStart());
    for (std::size_t s = 0; s < group.size(); ++s) {
      for (const int rank : ranks) {
        buffers[s].push_back(make_buffers(group[s], first_step + s, rank, size));
      }
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        issue(group[s], buffers[s][r], ranks[r], size, comms[r]);
      }
    }
    EXPECT_NCCL_OK(ncclGroupEnd());
    for (std::size_t s = 0; s < group.size(); ++s) {
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        EXPECT_EQ(buffers[s][r].receive, expected(group[s], first_step + s, ranks[r], size))
            << "step " << first_step + s << " of kind " << static_cast<int>(group[s].kind)
            << " on rank " << ranks[r];
      }
    }
    first_step += group.size();
  }
}

TEST(GroupProperty, RandomProgramsWithAThreadPerRank) {
  for (const int size : {2, 3}) {
    std::vector<ncclComm_t> comms(static_cast<std::size_t>(size));
    ASSERT_NCCL_OK(ncclCommInitAll(comms.data(), size, nullptr));
    EXPECT_TRUE(rc::check("a thread per rank", [&] {
      const Program program = random_program(size);
      run_threads(size, [&](int rank) {
        run_program(program, {rank}, size, {comms[static_cast<std::size_t>(rank)]});
      });
      RC_ASSERT(!::testing::Test::HasFailure());
    }));
    for (const ncclComm_t comm : comms) EXPECT_NCCL_OK(ncclCommDestroy(comm));
  }
}

TEST(GroupProperty, RandomProgramsWithAllRanksInOneThread) {
  std::vector<ncclComm_t> comms(4);
  ASSERT_NCCL_OK(ncclCommInitAll(comms.data(), 4, nullptr));
  EXPECT_TRUE(rc::check("one thread", [&] {
    run_program(random_program(4), {0, 1, 2, 3}, 4, comms);
    RC_ASSERT(!::testing::Test::HasFailure());
  }));
  for (const ncclComm_t comm : comms) EXPECT_NCCL_OK(ncclCommDestroy(comm));
}

}  // namespace
}  // namespace ringpress::testing
