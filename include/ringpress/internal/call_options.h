// What a program says of one call, beside its arguments.
#ifndef RINGPRESS_INTERNAL_CALL_OPTIONS_H_
#define RINGPRESS_INTERNAL_CALL_OPTIONS_H_

#include <cstdint>
#include <string_view>

namespace ringpress {

/// The codec is the same on all ranks, or the call ends in an error: frames carry what it comes to.
/// What names the tensor is a rank's own: it changes what the rank adds to its own values, but no
/// codec and no size.
struct CallOptions {
  std::string_view codec = {};    // kNoCodec: exact; empty: not said. It lives for ever.
  bool all_reduces_only = false;  // The codec cannot compress anything else.
  std::uint64_t key = 0;          // Of the tensor's name; 0: not said.
  std::uint64_t tag = 0;          // userProfilerTag, which may name it, too; 0: not said.

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
