// Where the ranks of a new communicator meet.
#ifndef RINGPRESS_INTERNAL_RENDEZVOUS_H_
#define RINGPRESS_INTERNAL_RENDEZVOUS_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <span>

#include "ringpress/internal/status.h"

namespace ringpress {

/// Names a communicator before it exists: the address of the root's bootstrap socket and the job's
/// secret. 128 bytes, as in NCCL.
using UniqueId = std::array<std::byte, 128>;

/// Who is waited for, and for how long.
struct ServeOptions {
  std::chrono::milliseconds timeout{};       // For the others once the first rank has come.
  std::chrono::milliseconds before_first{};  // For the first.
  /// By rank, the id of a rendezvous of its own that it holds open until it has come; empty if they
  /// have none. One that has closed without its rank having come is that of a rank that died or
  /// gave up, and all others hear it at once.
  std::span<const UniqueId> ranks = {};
};

/// A socket that is open and named while nobody is served yet: ranks that come early wait in its
/// queue. Destroyed before serve(), it closes and they are refused.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  virtual const UniqueId& id() const = 0;
  /// Serves the ranks of one communicator, from a thread of its own, until all have come or
  /// have been waited for. Once.
  virtual Status serve(const ServeOptions& options) = 0;
  /// After serve(): there will be no communicator. Unless all have come by now, those who have, and
  /// those who do within some seconds, hear `why`, which is not ok; then the port closes.
  virtual void call_off(const Status& why) = 0;
  /// Before serve(), where nobody is listened to yet: costs no descriptor until then. serve() takes
  /// the same port again and fails with kSystem if somebody else has it.
  virtual void give_back_port() = 0;
};

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_RENDEZVOUS_H_
