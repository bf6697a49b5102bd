// When the program asked for the calls that a thread makes, where it is not when they begin: calls
// of a group, and those that another thread makes for it.
#ifndef NCCL_PLUGIN_SESSION_CALLS_CALL_ISSUE_H_
#define NCCL_PLUGIN_SESSION_CALLS_CALL_ISSUE_H_

#include <chrono>
#include <optional>

namespace ringpress::nccl_plugin {

/// Seconds of the clock that calls are recorded by.
inline double issue_clock_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

struct CallIssue {
  double issued_seconds = 0;
  /// When it first asked whether the calls before had ended; none: it did not.
  std::optional<double> awaited_seconds;
};

/// The calls that this thread makes while it lives were issued so.
class IssuedCalls {
 public:
  explicit IssuedCalls(const CallIssue& issue) : before_(current_) { current_ = &issue; }
  ~IssuedCalls() { current_ = before_; }
  IssuedCalls(const IssuedCalls&) = delete;
  IssuedCalls& operator=(const IssuedCalls&) = delete;

  /// Null: calls are issued as they begin.
  static const CallIssue* current() { return current_; }

 private:
  static inline thread_local const CallIssue* current_ = nullptr;
  const CallIssue* before_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_CALL_ISSUE_H_
