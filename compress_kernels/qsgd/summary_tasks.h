// The arguments of kernels that make and merge what ranks agree on.
#ifndef COMPRESS_KERNELS_QSGD_SUMMARY_TASKS_H_
#define COMPRESS_KERNELS_QSGD_SUMMARY_TASKS_H_

#include <cstddef>

#include "compress_kernels/core/device_tasks.h"
#include "compress_kernels/qsgd/device_parameters.h"
#include "compress_kernels/qsgd/qsgd.h"
#include "ringpress/internal/agreement.h"

namespace ringpress::compress_kernels::qsgd {

struct SummaryTask {
  QsgdDeviceParameters parameters;
  Summary summary = Summary::kBlockNorms;
  SummariseArgs shards[core::kMostShards];  // Of the norm of a tensor: one, whose summary is zero.
};

struct MergeTask {
  QsgdDeviceParameters parameters;
  Summary summary = Summary::kBlockNorms;
  std::size_t bytes = 0;  // Of each summary.
  std::byte* into = nullptr;
  std::size_t from_count = 0;
  const std::byte* from[core::kMostWires];
};

}  // namespace ringpress::compress_kernels::qsgd

#endif  // COMPRESS_KERNELS_QSGD_SUMMARY_TASKS_H_
