// Brings the unique id from rank 0 to every rank, before there is a communicator.
#ifndef PERF_ALL_REDUCE_ID_EXCHANGE_H_
#define PERF_ALL_REDUCE_ID_EXCHANGE_H_

#include <chrono>
#include <functional>

#include "perf/all_reduce/launch.h"
#include "perf/all_reduce/options.h"
#include "ringpress/nccl.h"

namespace ringpress::perf {

/// Calls `make_id` on rank 0 and returns its result on every rank: through the pipe of --ranks, the
/// file --id-file, or a TCP connection to the root address. Throws terminal::Error after `timeout`.
ncclUniqueId exchange_id(const Options& options, const RankIdentity& identity,
                         std::chrono::milliseconds timeout,
                         const std::function<ncclUniqueId()>& make_id);

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_ID_EXCHANGE_H_
