// ringpressSetLayers: what it takes, what it refuses, and that a codec makes use of it.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ringpress/nccl.h"
#include "ringpress/ringpress.h"
#include "tests/support/nccl_ranks.h"

namespace ringpress::testing {
namespace {

ringpressCall_t call_of(std::size_t count) {
  return {sizeof(ringpressCall_t), count, ncclFloat, nullptr};
}

TEST(ApiLayers, RefusesWhatIsNoPartitionOfTheTensor) {
  run_nccl_ranks(1, [](ncclComm_t comm, int) {
    const ringpressCall_t call = call_of(100);
    const auto refused = [&](const ringpressLayer_t& layer, const char* reason) {
      EXPECT_EQ(ringpressSetLayers(comm, &call, &layer, 1), ncclInvalidArgument) << reason;
      expect_last_error(reason);
    };
    refused({0, 20, 4, 5, 2}, "layers[0].flags is 2");
    EXPECT_EQ(ringpressSetLayers(comm, nullptr, nullptr, 0), ncclInvalidArgument);
    expect_last_error("call is null");
    EXPECT_EQ(ringpressSetLayers(comm, &call, nullptr, 1), ncclInvalidArgument);
    expect_last_error("layers is null");
    ringpressCall_t wrong = call;
    wrong.size = 8;
    EXPECT_EQ(ringpressSetLayers(comm, &wrong, nullptr, 0), ncclInvalidArgument);
    expect_last_error("sizeof(ringpressCall_t)");
    wrong = call;
    wrong.datatype = 99;
    EXPECT_EQ(ringpressSetLayers(comm, &wrong, nullptr, 0), ncclInvalidArgument);
    expect_last_error("99");
    const ringpressLayer_t layers[] = {{50, 50, 5, 10, 0}, {0, 50, 0, 0, RINGPRESS_LAYER_EXACT}};
    EXPECT_NCCL_OK(static_cast<ncclResult_t>(ringpressSetLayers(comm, &call, layers, 2)));
    EXPECT_NCCL_OK(static_cast<ncclResult_t>(ringpressSetLayers(comm, &call, nullptr, 0)));
  });
  EXPECT_EQ(ringpressSetLayers(nullptr, nullptr, nullptr, 0), ncclInvalidArgument);
}

/// The error of an average in which a matrix of rank 2 follows a vector; -1 after a failed call.
double error_of_average(ncclComm_t comm, int rank, std::vector<float>* values) {
  constexpr std::size_t kRows = 256;
  constexpr std::size_t kColumns = 128;
  values->resize(kColumns + kRows * kColumns);
  std::vector<double> exact(values->size());
  for (std::size_t i = 0; i < values->size(); ++i) {
    const auto row = static_cast<double>(i / kColumns);
    const auto column = static_cast<double>(i % kColumns);
    const double first = i < kColumns ? column : std::sin(row) * column + std::cos(row);
    (*values)[i] = static_cast<float>(first * (rank + 1));
    exact[i] = first * 1.5;
  }
  if (ncclAllReduce(values->data(), values->data(), values->size(), ncclFloat, ncclAvg, comm,
                    nullptr) != ncclSuccess) {
    return -1;
  }
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error += std::pow((*values)[i] - exact[i], 2);
    norm += exact[i] * exact[i];
  }
  return std::sqrt(error / norm);
}

// Through the library as programs load it this is compressed; the stand-in of the door is exact.
TEST(ApiLayers, AMatrixThatIsKnownOnAllRanksIsProjectedAsOne) {
  const ScopedEnvironment codec("RINGPRESS_CODEC", "powersgd:rank=2");
  const ScopedEnvironment feedback("RINGPRESS_EF", "0");
  run_nccl_ranks(2, [](ncclComm_t comm, int rank) {
    std::vector<float> values;
    error_of_average(comm, rank, &values);
    const ringpressCall_t any = call_of(values.size());
    const ringpressLayer_t layer = {128, values.size() - 128, 256, 128, 0};
    const auto set = [&](const ringpressCall_t& call) {
      EXPECT_NCCL_OK(static_cast<ncclResult_t>(ringpressSetLayers(comm, &call, &layer, 1)));
      const double error = error_of_average(comm, rank, &values);
      EXPECT_GE(error, 0);
      return error;
    };
    EXPECT_LT(set(any), 1e-5);
    // The other rank knows it of this very buffer: that is the same.
    ringpressCall_t own = any;
    own.sendbuff = rank == 0 ? nullptr : values.data();
    EXPECT_LT(set(own), 1e-5);
    if (rank == 0) {
      EXPECT_EQ(ringpressSetLayers(comm, &any, nullptr, 0), ncclSuccess);
    }
    EXPECT_GE(error_of_average(comm, rank, &values), 0);  // They differ: no error, no wait.
  });
}

}  // namespace
}  // namespace ringpress::testing
