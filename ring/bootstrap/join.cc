#include "ring/bootstrap/join.h"

#include <poll.h>

#include <algorithm>
#include <thread>

#include "ring/transport/common/hello.h"
#include "ring/transport/common/socket.h"

namespace ringpress::ring::bootstrap {
namespace {

using transport::Fd;
using transport::Transferred;

constexpr std::chrono::milliseconds kRetryPause{50};
constexpr std::chrono::milliseconds kAnswerGrace{2000};
constexpr std::chrono::milliseconds kFailureGrace{1000};

/// A connection to the rendezvous whose every step ends by the deadline.
class Caller {
 public:
  Caller(Fd socket, std::string address, Deadline deadline)
      : socket_(std::move(socket)), address_(std::move(address)), deadline_(deadline) {}

  Status await(short events) const {
    while (true) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now());
      if (left.count() <= 0) {
        return Status(Code::kTimeout, "no answer from the rendezvous at " + address_ +
                                          " (was the unique id used before?)");
      }
      pollfd waited{socket_.get(), events, 0};
      const int limit = static_cast<int>(std::min<long long>(left.count(), 3600 * 1000));
      if (::poll(&waited, 1, limit) > 0) return Status::ok();
    }
  }
  Status send_all(const void* data, std::size_t bytes) {
    const auto* position = static_cast<const char*>(data);
    while (bytes > 0) {
      const Transferred sent = transport::send_bytes(socket_.get(), position, bytes);
      if (sent.error != 0) return lost(sent.error);
      position += sent.bytes;
      bytes -= sent.bytes;
      if (sent.bytes == 0) RINGPRESS_RETURN_IF_ERROR(await(POLLOUT));
    }
    return Status::ok();
  }
  Status receive_all(void* data, std::size_t bytes) {
    auto* position = static_cast<char*>(data);
    while (bytes > 0) {
      const Transferred got = transport::receive_bytes(socket_.get(), position, bytes);
      if (got.closed || got.error != 0) return lost(got.error);
      position += got.bytes;
      bytes -= got.bytes;
      if (got.bytes == 0) RINGPRESS_RETURN_IF_ERROR(await(POLLIN));
    }
    return Status::ok();
  }
  /// Waits until the other side closes, but not beyond `limit`.
  void await_close(std::chrono::milliseconds limit) {
    deadline_ = std::min(deadline_, Clock::now() + limit);
    char byte = 0;
    static_cast<void>(receive_all(&byte, 1));
  }
  /// After kPeerLost: it was not closed in good order.
  bool was_reset() const { return was_reset_; }
  /// In good order or not.
  bool was_closed() const { return was_closed_; }
  const std::string& address() const { return address_; }
  Deadline deadline() const { return deadline_; }
  void set_deadline(Deadline deadline) { deadline_ = deadline; }
  Status connected() const {
    RINGPRESS_RETURN_IF_ERROR(await(POLLOUT));
    return transport::connect_result(socket_.get());
  }

 private:
  Status lost(int error) {
    was_closed_ = true;
    was_reset_ = error != 0;
    return Status(Code::kPeerLost, "the rendezvous at " + address_ + " closed the connection");
  }

  Fd socket_;
  std::string address_;
  Deadline deadline_;
  bool was_closed_ = false;
  bool was_reset_ = false;
};

Result<Caller> call(const std::string& address, Deadline deadline,
                    std::chrono::milliseconds refusal_patience) {
  RINGPRESS_ASSIGN_OR_RETURN(const auto target, transport::parse_address(address));
  const Deadline give_up = std::min(deadline, Clock::now() + refusal_patience);
  while (true) {
    Result<Fd> socket = transport::start_connect(target);
    Status status = socket.status();
    if (socket.is_ok()) {
      transport::set_no_delay(socket.value().get());
      Caller caller(std::move(socket).value(), address, deadline);
      status = caller.connected();
      if (status.is_ok()) return caller;
    }
    if (Clock::now() >= give_up) {
      return Status(status.code(),
                    "cannot reach the rendezvous at " + address + ": " + status.message());
    }
    std::this_thread::sleep_for(kRetryPause);
  }
}

/// A rendezvous that refuses a hello has read it, and closes in good order; the system resets the
/// connections of a process that ends. Neither is certain.
Status closed_during_handshake(const Caller& caller) {
  const std::string where =
      "the rendezvous at " + caller.address() + " closed the connection during the handshake: ";
  const std::string ended = "its process has ended or given up";
  const std::string stranger =
      "RINGPRESS_SECRET, or the key of ncclSetEncryption, is not the same on all ranks, or the "
      "unique id is of another job";
  if (caller.was_reset()) return Status(Code::kPeerLost, where + ended + ", or " + stranger);
  return Status(Code::kMismatch, where + stranger + ", or " + ended);
}

/// Who is a rendezvous and serves does not stay silent for so long.
Status is_silent(const Caller& caller, std::chrono::milliseconds patience) {
  return Status(Code::kTimeout, "whoever listens at " + caller.address() +
                                    " has said nothing for " + std::to_string(patience.count()) +
                                    " ms: does another program have that port?");
}

Status shake_hands(Caller& caller, const Secret& secret, const Join& join,
                   const JoinPatience& patience) {
  Identity identity;
  identity.rank = join.rank;
  identity.world = join.size;
  transport::ConnectorHandshake handshake(
      transport::make_hello(identity, HelloPurpose::kRendezvous), secret);
  const transport::HelloBytes first = handshake.first();
  transport::HelloBytes second;
  const Deadline deadline = caller.deadline();
  const auto hello = patience.hello.count() > 0 ? patience.hello : patience.answer;
  caller.set_deadline(std::min(deadline, Clock::now() + hello));
  Status talked = caller.send_all(first.data(), first.size());
  if (talked.is_ok()) talked = caller.receive_all(second.data(), second.size());
  caller.set_deadline(deadline);
  if (talked.code() == Code::kPeerLost) return closed_during_handshake(caller);
  if (talked.code() == Code::kTimeout && hello < patience.answer) return is_silent(caller, hello);
  RINGPRESS_RETURN_IF_ERROR(talked);
  const auto third = handshake.answer(second);
  if (!third) {
    return Status(Code::kMismatch, "the rendezvous at " + caller.address() +
                                       " knows another secret: is RINGPRESS_SECRET the same on "
                                       "all ranks, and the unique id from this job?");
  }
  return caller.send_all(third->data(), third->size());
}

/// A connection to a rendezvous that knows the secret.
Result<Caller> reach(const std::string& address, const Secret& secret, const Join& join,
                     const JoinPatience& patience) {
  const Deadline deadline = Clock::now() + patience.answer + kAnswerGrace;
  const Deadline closing = Clock::now() + patience.closing;
  RINGPRESS_ASSIGN_OR_RETURN(Caller caller, call(address, deadline, patience.refusal));
  const Status first = shake_hands(caller, secret, join, patience);
  Status shaken = first;
  while (!shaken.is_ok() && caller.was_closed() && Clock::now() < closing) {
    std::this_thread::sleep_for(kRetryPause);
    const Deadline soon = std::max(closing, Clock::now() + patience.refusal_again);
    Result<Caller> again = call(address, std::min(deadline, soon), patience.refusal_again);
    if (!again.is_ok()) break;
    caller = std::move(again).value();
    shaken = shake_hands(caller, secret, join, patience);
  }
  if (!shaken.is_ok()) return first;  // Which knows the cause best.
  caller.set_deadline(deadline);
  return caller;
}

}  // namespace

Result<Answer> join_ranks(const std::string& address, const Secret& secret, const Join& join,
                          const JoinPatience& patience) {
  RINGPRESS_ASSIGN_OR_RETURN(const std::string message, pack_join(join));
  RINGPRESS_ASSIGN_OR_RETURN(Caller caller, reach(address, secret, join, patience));
  RINGPRESS_RETURN_IF_ERROR(caller.send_all(message.data(), message.size()));
  std::string head(kPrefixBytes, '\0');
  RINGPRESS_RETURN_IF_ERROR(caller.receive_all(head.data(), head.size()));
  const Prefix prefix = unpack_prefix(head);
  if (prefix.length > max_answer_bytes(join.size)) {
    return Status(Code::kCorrupt, "the rendezvous answered with too many bytes");
  }
  std::string body(prefix.length, '\0');
  RINGPRESS_RETURN_IF_ERROR(caller.receive_all(body.data(), body.size()));
  RINGPRESS_ASSIGN_OR_RETURN(Answer answer, unpack_answer(prefix, body, join.size));
  // The rendezvous closes when every rank has its answer. It may live in this process: a rank that
  // went on and exited sooner would take it away from the others.
  caller.await_close(answer.status.is_ok() ? patience.answer : kFailureGrace);
  RINGPRESS_RETURN_IF_ERROR(answer.status);
  return answer;
}

}  // namespace ringpress::ring::bootstrap
