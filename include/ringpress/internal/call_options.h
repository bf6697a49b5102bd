// What a program says of one call, beside its arguments.
#ifndef RINGPRESS_INTERNAL_CALL_OPTIONS_H_
#define RINGPRESS_INTERNAL_CALL_OPTIONS_H_

#include <cstdint>

namespace ringpress {

/// The same on all ranks.
struct CallOptions {
  std::uint64_t tag = 0;  // Names the tensor; 0: nothing.

  bool operator==(const CallOptions&) const = default;
};

/// The calls that this thread makes while it lives have these options, which outlive it.
class CallsWithOptions {
 public:
  explicit CallsWithOptions(const CallOptions& options) : before_(current_) { current_ = &options; }
  ~CallsWithOptions() { current_ = before_; }
  CallsWithOptions(const CallsWithOptions&) = delete;
  CallsWithOptions& operator=(const CallsWithOptions&) = delete;

  /// Null: the program said nothing.
  static const CallOptions* current() { return current_; }

 private:
  static inline thread_local const CallOptions* current_ = nullptr;
  const CallOptions* before_;
};

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_CALL_OPTIONS_H_
