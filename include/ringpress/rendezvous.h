// Where the ranks of a new communicator meet.
#ifndef RINGPRESS_RENDEZVOUS_H_
#define RINGPRESS_RENDEZVOUS_H_

#include <array>
#include <chrono>
#include <cstddef>

#include "ringpress/status.h"

namespace ringpress {

/// Names a communicator before it exists: the address of the root's bootstrap socket and the job's
/// secret. 128 bytes, as in NCCL.
using UniqueId = std::array<std::byte, 128>;

/// A socket that is open and named while nobody is served yet: ranks that come early wait in its
/// queue. Destroyed before serve(), it closes and they are refused.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  virtual const UniqueId& id() const = 0;
  /// Serves the ranks of one communicator, from a thread of its own, until all have come or
  /// `timeout` has passed since the first one came; if none comes, until `before_first` has. Once.
  virtual Status serve(std::chrono::milliseconds timeout,
                       std::chrono::milliseconds before_first) = 0;
};

}  // namespace ringpress

#endif  // RINGPRESS_RENDEZVOUS_H_
