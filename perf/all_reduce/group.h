// An NCCL communicator with errors as exceptions, and what a program needs besides all-reduce to
// speak with its other ranks. Uses the NCCL API alone.
#ifndef PERF_ALL_REDUCE_GROUP_H_
#define PERF_ALL_REDUCE_GROUP_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "perf/all_reduce/device_memory.h"
#include "perf/all_reduce/options.h"
#include "ringpress/nccl.h"
#include "ringpress/ringpress.h"

namespace ringpress::perf {

/// Throws terminal::Error with NCCL's words, unless `result` is success.
void require(ncclResult_t result, const char* what, ncclComm_t comm = nullptr);

/// Sets an environment variable for its own lifetime; with an empty value it does nothing.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value);
  ~ScopedVariable();
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
  bool changed_ = false;
};

/// A communicator; ended with its object: destroyed in good order, or aborted while an exception
/// passes.
class Group {
 public:
  /// Collective. The codec and algorithm of `setting` are put into the environment for the time of
  /// the initialisation; empty ones leave the environment as it is.
  Group(const Setting& setting, const ncclUniqueId& id, int rank, int ranks);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  ncclComm_t handle() const { return comm_; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  /// Returns when every rank has called it.
  void barrier();
  /// Rank 0's bytes, on every rank.
  void broadcast(void* data, std::size_t bytes);
  /// The bytes of all ranks, in rank order. Every rank passes as many.
  std::vector<std::byte> gather(const void* data, std::size_t bytes);
  /// The numbers of all ranks: result[rank * values.size() + i].
  std::vector<double> gather(const std::vector<double>& values);
  /// The sum over ranks, in double precision, in place.
  void sum(std::vector<double>& values);

  /// What the communicator did so far; nothing if the library is not ringpress.
  std::optional<ringpressStatistics_t> statistics() const;

 private:
  ncclComm_t comm_ = nullptr;
  int rank_;
  int ranks_;
  DeviceStream stream_;
  DeviceBuffer barrier_buffer_;
};

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_GROUP_H_
