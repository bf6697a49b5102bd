// Errors inside ringpress: a Status says what went wrong in a sentence that names the thing.
//
// Three kinds of error, three tools: what can happen in a healthy program (bad input, a lost peer)
// is returned as a Status; a broken precondition of our own code throws std::logic_error through
// RINGPRESS_EXPECTS; a destructor only logs. The C doors translate both at one place.
#ifndef RINGPRESS_INTERNAL_STATUS_H_
#define RINGPRESS_INTERNAL_STATUS_H_

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace ringpress {

enum class Code {
  kOk,
  kInvalidArgument,  // The caller passed something that cannot work; nothing was done.
  kInvalidUsage,     // The call is valid alone but not now (order of calls, mixed settings).
  kUnsupported,      // Understood, but this build or codec cannot do it.
  kMismatch,         // Ranks disagree: count, type, codec, settings or version.
  kTimeout,          // The deadline passed.
  kPeerLost,         // A peer died or closed its connection in the middle.
  kCorrupt,          // Bytes from outside failed a check (CRC32C, magic, length).
  kAborted,          // The communicator was aborted, here or by a peer.
  kInProgress,       // A nonblocking operation is still under way.
  kSystem,           // The operating system refused something.
  kInternal,         // A bug in ringpress.
  kDevice,           // A device's runtime refused something, or what ran there failed.
  kRefused,          // A rank makes no communicator with its settings, so no rank does.
  kRevoked,          // The communicator was revoked, here or by a peer.
};
/// Codes travel as numbers: new ones come at the end.
inline constexpr Code kLastCode = Code::kRevoked;

/// The name of a code as printed in messages, e.g. "timeout". Never null.
inline const char* code_name(Code code) {
  switch (code) {
    case Code::kOk:
      return "ok";
    case Code::kInvalidArgument:
      return "invalid argument";
    case Code::kInvalidUsage:
      return "invalid usage";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kMismatch:
      return "mismatch between ranks";
    case Code::kTimeout:
      return "timeout";
    case Code::kPeerLost:
      return "peer lost";
    case Code::kCorrupt:
      return "corrupt data";
    case Code::kAborted:
      return "aborted";
    case Code::kInProgress:
      return "in progress";
    case Code::kSystem:
      return "system error";
    case Code::kInternal:
      return "internal error";
    case Code::kDevice:
      return "device error";
    case Code::kRefused:
      return "refused by a rank";
    case Code::kRevoked:
      return "revoked";
  }
  return "unknown code";
}

/// Success, or a code with a message for a person.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status ok() { return Status(); }

  bool is_ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

/// A value, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit on purpose, as in `return x;`
  Result(Status status) : status_(std::move(status)) {  // NOLINT: implicit on purpose
    if (status_.is_ok()) throw std::logic_error("Result built from an ok Status without a value");
  }

  bool is_ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & { return value_.value(); }
  const T& value() const& { return value_.value(); }
  T&& value() && { return std::move(value_).value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace ringpress

#define RINGPRESS_CONCAT_INNER(a, b) a##b
#define RINGPRESS_CONCAT(a, b) RINGPRESS_CONCAT_INNER(a, b)

/// Returns from the enclosing function with the status if it is not ok.
#define RINGPRESS_RETURN_IF_ERROR(expression)               \
  do {                                                      \
    ::ringpress::Status ringpress_status = (expression);    \
    if (!ringpress_status.is_ok()) return ringpress_status; \
  } while (false)

/// Declares `declaration` from the value of a Result, or returns its status.
#define RINGPRESS_ASSIGN_OR_RETURN(declaration, expression)                                    \
  RINGPRESS_ASSIGN_OR_RETURN_INNER(RINGPRESS_CONCAT(ringpress_result_, __LINE__), declaration, \
                                   expression)
#define RINGPRESS_ASSIGN_OR_RETURN_INNER(result, declaration, expression) \
  auto result = (expression);                                             \
  if (!result.is_ok()) return result.status();                            \
  declaration = std::move(result).value()

/// Throws std::logic_error when a precondition of our own code does not hold.
#define RINGPRESS_EXPECTS(condition, message)          \
  do {                                                 \
    if (!(condition)) throw std::logic_error(message); \
  } while (false)

#endif  // RINGPRESS_INTERNAL_STATUS_H_
