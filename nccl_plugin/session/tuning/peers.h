// What tuning needs of the other ranks.
#ifndef NCCL_PLUGIN_SESSION_TUNING_PEERS_H_
#define NCCL_PLUGIN_SESSION_TUNING_PEERS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::tuning {

/// The ranks of a communicator. All of them call the same functions in the same order, with spans
/// of equal lengths. One thread at a time.
class Peers {
 public:
  virtual ~Peers() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// True if `peer`, another rank, runs on this rank's host.
  virtual bool is_local(int peer) const = 0;
  /// Adds up, exactly: an all-reduce like the program's own.
  virtual Status sum(std::span<float> values) = 0;
  /// To `peer` and from it, where this is called with this rank; -1: to nobody. Equal lengths.
  virtual Status swap(int peer, std::span<const float> sent, std::span<float> received) = 0;
  /// The largest of all ranks' values, one by one.
  virtual Status max(std::span<double> values) = 0;
  /// Rank 0's bytes to all.
  virtual Status broadcast(std::span<std::byte> bytes) = 0;
  /// What this rank has sent so far, whatever for, headers included.
  virtual std::uint64_t sent_bytes() const = 0;
};

}  // namespace ringpress::nccl_plugin::tuning

#endif  // NCCL_PLUGIN_SESSION_TUNING_PEERS_H_
