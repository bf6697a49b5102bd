// Pre-multiplied sums: every type, both residences, and the life of an operator.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/support/nccl_ranks.h"
#include "tests/support/numbers.h"

namespace ringpress::testing {
namespace {

/// A number as an element of `dtype`.
std::vector<std::byte> element(DType dtype, double value) {
  std::vector<std::byte> bytes(dtype_size(dtype));
  write_number(bytes.data(), dtype, value);
  return bytes;
}

ncclDataType_t nccl_type(DType dtype) {
  return static_cast<ncclDataType_t>(dtype);
}

TEST(PreMulSum, IsExactForEveryTypeAndResidence) {
  for (const int size : {1, 2}) {
    run_nccl_ranks(size, [size](ncclComm_t comm, int rank) {
      for (int type = 0; type < kDTypeCount; ++type) {
        const auto dtype = static_cast<DType>(type);
        for (const auto residence : {ncclScalarHostImmediate, ncclScalarDevice}) {
          std::vector<std::byte> scalar = element(dtype, 2 + rank);  // Each rank has its own.
          ncclRedOp_t op;
          ASSERT_NCCL_OK(
              ncclRedOpCreatePreMulSum(&op, scalar.data(), nccl_type(dtype), residence, comm));
          EXPECT_GE(static_cast<int>(op), static_cast<int>(ncclNumOps));
          std::vector<std::byte> value = element(dtype, 2);
          EXPECT_NCCL_OK(
              ncclAllReduce(value.data(), value.data(), 1, nccl_type(dtype), op, comm, nullptr));
          EXPECT_EQ(read_number(value.data(), dtype), size == 1 ? 4 : 10) << dtype_name(dtype);
          EXPECT_NCCL_OK(ncclRedOpDestroy(op, comm));
        }
      }
    });
  }
}

TEST(PreMulSum, TheImmediateScalarIsReadOnceTheOtherByEachCall) {
  run_nccl_ranks(2, [](ncclComm_t comm, int) {
    float scalar = 3;
    ncclRedOp_t once;
    ncclRedOp_t each;
    EXPECT_NCCL_OK(
        ncclRedOpCreatePreMulSum(&once, &scalar, ncclFloat, ncclScalarHostImmediate, comm));
    EXPECT_NCCL_OK(ncclRedOpCreatePreMulSum(&each, &scalar, ncclFloat, ncclScalarDevice, comm));
    scalar = 5;
    float a = 1;
    float b = 1;
    EXPECT_NCCL_OK(ncclAllReduce(&a, &a, 1, ncclFloat, once, comm, nullptr));
    EXPECT_NCCL_OK(ncclAllReduce(&b, &b, 1, ncclFloat, each, comm, nullptr));
    EXPECT_EQ(a, 6);
    EXPECT_EQ(b, 10);
    EXPECT_NCCL_OK(ncclRedOpDestroy(once, comm));
    EXPECT_NCCL_OK(ncclRedOpDestroy(each, comm));
  });
}

TEST(PreMulSum, MayBeDestroyedBeforeTheEndOfTheGroup) {
  run_nccl_ranks(2, [](ncclComm_t comm, int) {
    float value = 1;
    EXPECT_NCCL_OK(ncclGroupStart());
    {
      float scalar = 4;
      ncclRedOp_t op;
      EXPECT_NCCL_OK(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat, ncclScalarDevice, comm));
      EXPECT_NCCL_OK(ncclAllReduce(&value, &value, 1, ncclFloat, op, comm, nullptr));
      EXPECT_NCCL_OK(ncclRedOpDestroy(op, comm));
    }
    EXPECT_NCCL_OK(ncclGroupEnd());
    EXPECT_EQ(value, 8);
  });
}

TEST(PreMulSum, ServesReduceScatterAndReduce) {
  run_nccl_ranks(2, [](ncclComm_t comm, int rank) {
    float scalar = 0.5;
    ncclRedOp_t op;
    EXPECT_NCCL_OK(
        ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat, ncclScalarHostImmediate, comm));
    const float send[2] = {4, 6};
    float receive = 0;
    EXPECT_NCCL_OK(ncclReduceScatter(send, &receive, 1, ncclFloat, op, comm, nullptr));
    EXPECT_EQ(receive, rank == 0 ? 4 : 6);
    float reduced[2] = {0, 0};
    EXPECT_NCCL_OK(ncclReduce(send, reduced, 2, ncclFloat, op, 0, comm, nullptr));
    if (rank == 0) {
      EXPECT_EQ(reduced[1], 6);
    }
    EXPECT_NCCL_OK(ncclRedOpDestroy(op, comm));
  });
}

TEST(PreMulSum, BelongsToItsCommunicatorAndType) {
  ncclComm_t comms[2];
  ASSERT_NCCL_OK(ncclCommInitRank(&comms[0], 1, make_nccl_id(), 0));
  ASSERT_NCCL_OK(ncclCommInitRank(&comms[1], 1, make_nccl_id(), 0));
  float scalar = 2;
  ncclRedOp_t op;
  ASSERT_NCCL_OK(
      ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat, ncclScalarHostImmediate, comms[0]));
  double value = 1;
  EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, op, comms[1], nullptr),
            ncclInvalidArgument);
  expect_last_error("made for this communicator");
  EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclDouble, op, comms[0], nullptr),
            ncclInvalidArgument);
  expect_last_error("op was made for float32, but datatype is float64");
  EXPECT_EQ(ncclRedOpDestroy(op, comms[1]), ncclInvalidArgument);
  EXPECT_NCCL_OK(ncclRedOpDestroy(op, comms[0]));
  EXPECT_EQ(ncclRedOpDestroy(op, comms[0]), ncclInvalidArgument);
  for (const ncclComm_t comm : comms) EXPECT_NCCL_OK(ncclCommDestroy(comm));
}

TEST(PreMulSum, AnIntegerBeyondADoubleIsRefusedRatherThanRounded) {
  run_nccl_ranks(1, [](ncclComm_t comm, int) {
    std::int64_t scalar = (std::int64_t{1} << 53) + 1;
    ncclRedOp_t op;
    EXPECT_EQ(ncclRedOpCreatePreMulSum(&op, &scalar, ncclInt64, ncclScalarHostImmediate, comm),
              ncclInvalidUsage);
    expect_last_error("9007199254740993");
    scalar = -(std::int64_t{1} << 53);
    EXPECT_NCCL_OK(
        ncclRedOpCreatePreMulSum(&op, &scalar, ncclInt64, ncclScalarHostImmediate, comm));
    EXPECT_NCCL_OK(ncclRedOpDestroy(op, comm));
  });
}

}  // namespace
}  // namespace ringpress::testing
