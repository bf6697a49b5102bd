// One-sided calls of one communicator's ranks: what they put into each other's memory, and signals,
// need no call on the rank that they are for.
//
// Puts and signals of one rank for another arrive in the order of the calls, and the signal of a
// put after its data. What goes wrong is final: every later call returns it, here and on the ranks
// that this one has exchanged something with.
//
// Thread-safe; every wait ends, with an error where nothing has moved for the timeout.
#ifndef RINGPRESS_INTERNAL_ONE_SIDED_H_
#define RINGPRESS_INTERNAL_ONE_SIDED_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "ringpress/internal/buffer.h"
#include "ringpress/internal/rendezvous.h"
#include "ringpress/internal/settings.h"
#include "ringpress/internal/status.h"

namespace ringpress {

/// What signals may be named.
struct OneSidedLimits {
  int contexts = 1;  // 0: there are no such calls.
  int signals = 1;   // Of each context.
};

/// A count that a rank has for each other one.
struct SignalName {
  int context = 0;
  int index = 0;

  auto operator<=>(const SignalName&) const = default;
};

struct Put {
  int peer = 0;              // May be this rank.
  std::uint32_t window = 0;  // The number that the peer has given it.
  std::uint64_t offset = 0;  // Where in the window, in bytes.
  ConstBuffer source;        // Of no bytes: the signal alone.
  SignalName signal;
};

/// So many signals of a rank.
struct AwaitedSignals {
  int peer = 0;
  SignalName signal;
  std::uint64_t count = 1;
};

class OneSided {
 public:
  /// As Communicator::create(). Starts a thread, which serves what the others ask for.
  static Result<std::unique_ptr<OneSided>> create(const UniqueId& id, int rank, int size,
                                                  const Settings& settings,
                                                  const OneSidedLimits& limits);
  /// Says goodbye. What was put has left this rank, but may not have arrived.
  virtual ~OneSided() = default;

  /// From now on peers may write to `memory`, under a number that no window has had.
  virtual void open_window(std::uint32_t window, Buffer memory) = 0;
  /// Returns when nobody writes to it any more. To write to it later is a failure.
  virtual void close_window(std::uint32_t window) = 0;

  /// Returns when the source may change.
  virtual Status put(const Put& put) = 0;
  /// Waits until all of these have come, and takes them off the counts.
  virtual Status wait(std::span<const AwaitedSignals> signals) = 0;

  /// Ends the calls that are under way, here and on other ranks.
  virtual void abort(const Status& reason) = 0;
};

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_ONE_SIDED_H_
