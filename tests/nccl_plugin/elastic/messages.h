// What the coordinator of an elastic job and its ranks tell each other.
#ifndef TESTS_NCCL_PLUGIN_ELASTIC_MESSAGES_H_
#define TESTS_NCCL_PLUGIN_ELASTIC_MESSAGES_H_

#include <cstdint>

#include "ringpress/nccl.h"

namespace ringpress::testing {

struct Order {
  enum class Kind {
    kMakeId,      // Of the first communicator.
    kJoin,        // `id`, `rank` of `size`.
    kRun,         // Calls until one fails. No report.
    kShrink,      // `rank` has died.
    kMakeGrowId,  // Of the next communicator.
    kGrow,        // To `size`: `rank` is new, and has the id; -1: was there.
    kLeave,
  };
  Kind kind = Kind::kLeave;
  int rank = 0;
  int size = 0;
  bool revokes = false;
  bool keeps_id = false;  // Ranks that were there pass none: the real NCCL lets them.
  ncclUniqueId id{};
};

/// What a process has of the system's.
struct Held {
  int descriptors = 0;
  int threads = 0;
  long kilobytes = 0;  // Of memory that is its own.
};

struct Report {
  bool is_ok = true;
  char text[256] = {};
  double milliseconds = 0;  // From the first error, or from the order.
  std::uint64_t hash = 0;   // Of the last sums.
  ncclUniqueId id{};
  Held held;
};

/// A rank, until it is told to leave. Gives the exit status.
int work(int channel);

}  // namespace ringpress::testing

#endif  // TESTS_NCCL_PLUGIN_ELASTIC_MESSAGES_H_
