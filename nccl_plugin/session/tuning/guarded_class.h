// Whether calls of one kind, type and size gain from being compressed, where a call ends long after
// the program has gone on (door A: work in a stream).
//
// Both ways get turns, in an order that every rank knows by counting its calls. Rank 0 judges by
// the times that it has by then, and one call carries its verdict to all ranks. A rank that made
// calls ahead of its device has no verdict yet, so it counts from some calls later on: by then it
// has nearly always come.
//
//   call   0..3 compressed, 4..6 exact, 7..10 compressed, 11..13 exact: the first of each does not
//               count
//         14    compressed; carries the verdict
//         15..18 compressed
//         19    the first that is made as the verdict says
//
// A verdict holds for kFirstPeriod calls, the next one for twice as many, and so on to kLastPeriod.
// Pure: no clocks, no I/O.
#ifndef NCCL_PLUGIN_SESSION_TUNING_GUARDED_CLASS_H_
#define NCCL_PLUGIN_SESSION_TUNING_GUARDED_CLASS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "nccl_plugin/session/state/state_bytes.h"
#include "ringpress/internal/tuning.h"

namespace ringpress::nccl_plugin::tuning {

enum class Verdict : std::uint32_t {
  kCompress = 1,
  kExact = 2,
  kAgain = 3,  // It is not clear yet: all turns once more.
};

/// How a call is made.
struct GuardedStep {
  bool is_exact = false;
  bool is_trial = false;            // By us in any case, so that it can be timed.
  std::optional<std::size_t> slot;  // Its time is wanted: below GuardedClass::kSlots.
  bool announces = false;           // It carries the verdict.
};

/// The same on every rank, call by call.
class GuardedClass {
 public:
  static constexpr std::size_t kSlots = 10;
  static constexpr std::uint32_t kFirstPeriod = 1000;
  static constexpr std::uint32_t kLastPeriod = 64000;

  /// True if the next call is made as some verdict says, which need not be waited for.
  bool is_settled() const { return verdict_.has_value() && made_ < period_; }
  /// Of is_settled().
  Verdict settled_verdict() const { return *verdict_; }
  /// True if apply() comes before the next next().
  bool awaits_verdict() const;
  void apply(Verdict verdict);
  GuardedStep next();
  /// Of one that is settled, to go on elsewhere.
  void save(StateWriter& to) const;
  void load(StateReader& from);

 private:
  std::optional<Verdict> verdict_;  // kCompress or kExact; none while there are turns.
  std::uint32_t period_ = kFirstPeriod / 2;
  std::uint32_t made_ = 0;  // Calls of the turns, or since the verdict.
};

/// True if the time in that slot is of an exact call.
bool is_exact_slot(std::size_t slot);

/// On rank 0.
class GuardJudge {
 public:
  explicit GuardJudge(double worth_switching) : worth_switching_(worth_switching) {}

  /// A call of a slot took so long, by byte of values.
  void note(bool is_exact, double seconds_per_byte);
  /// After all turns. Once it is not kAgain, the times that led to it are forgotten.
  Verdict judge();
  /// What judge() went by, in seconds by byte; 0: it has seen none.
  double compressed() const { return compressed_; }
  double exact() const { return exact_; }

 private:
  const double worth_switching_;
  std::vector<double> times_[2];  // Compressed, exact.
  double compressed_ = 0;
  double exact_ = 0;
  std::uint32_t rounds_ = 0;
};

}  // namespace ringpress::nccl_plugin::tuning

#endif  // NCCL_PLUGIN_SESSION_TUNING_GUARDED_CLASS_H_
