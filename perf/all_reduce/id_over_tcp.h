// How ranks that a launcher started learn the unique id: rank 0 listens at an address that all of
// them know, and hands it out.
#ifndef PERF_ALL_REDUCE_ID_OVER_TCP_H_
#define PERF_ALL_REDUCE_ID_OVER_TCP_H_

#include <chrono>
#include <functional>

#include "perf/all_reduce/launch.h"
#include "ringpress/nccl.h"

namespace ringpress::perf {

struct ExchangePatience {
  std::chrono::steady_clock::time_point deadline;  // Of the whole exchange.
  std::chrono::milliseconds answer;                // Of who is spoken to.
};

/// Who connects and is no rank of this job is left alone, and so is who listens at one of its ports
/// and is not its rank 0. Rank 0 returns once every rank has said that it has the id. Throws
/// terminal::Error.
ncclUniqueId exchange_id_by_tcp(const RankIdentity& identity, const ExchangePatience& patience,
                                const std::function<ncclUniqueId()>& make_id);

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_ID_OVER_TCP_H_
