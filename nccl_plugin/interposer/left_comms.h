// Communicators that are left to the real NCCL: nothing is done for them but to count, for
// RINGPRESS_STATS, what was left uncompressed and why.
#ifndef NCCL_PLUGIN_INTERPOSER_LEFT_COMMS_H_
#define NCCL_PLUGIN_INTERPOSER_LEFT_COMMS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "nccl_plugin/preload/engine.h"
#include "nccl_plugin/session/end_report.h"
#include "ringpress/internal/decision.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::interposer {

/// Why a communicator is left.
struct WhyLeft {
  ExactReason reason = ExactReason::kNone;  // It is not.
  std::string error;                        // Of kCannotBegin, in words of its own.

  bool is_left() const { return reason != ExactReason::kNone; }
};
inline std::string to_text(const WhyLeft& why) {
  return ringpress::to_text({why.reason, 0, why.error});
}

/// Any thread. Its lock is never held across a call of the real library.
class LeftComms {
 public:
  /// Without RINGPRESS_STATS nothing is kept here.
  LeftComms(const ringpressRealNccl& real, const Settings& settings)
      : real_(real), settings_(settings) {}

  /// What the real library may still be making is asked for its rank later: at its first call.
  enum class State { kReady, kInTheMaking };
  void add(ncclComm_t handle, WhyLeft why, State state = State::kReady);
  WhyLeft why(ncclComm_t handle) const;
  /// Counts a call, if its communicator is in here.
  void count(ncclComm_t handle);
  /// Writes its line, if it is in here, and forgets it: the handle is still the real library's.
  void end(ncclComm_t handle);

 private:
  struct Left {
    WhyLeft why;
    std::atomic<std::uint64_t> calls{0};
    // 0 of 0 where the real library does not say: one that failed, or whose making was never waited
    // for.
    std::atomic<int> rank{0}, size{0};
    std::atomic<bool> has_asked{false};
    EndReport report;
  };
  void ask(ncclComm_t handle, Left& left) const;
  void write(const Left& left) const;
  std::shared_ptr<Left> find(ncclComm_t handle) const;

  const ringpressRealNccl& real_;
  const Settings& settings_;
  std::atomic<std::size_t> size_{0};
  mutable std::shared_mutex mutex_;
  std::unordered_map<ncclComm_t, std::shared_ptr<Left>> comms_;
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_LEFT_COMMS_H_
