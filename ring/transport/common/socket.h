// Sockets without surprises: every descriptor is closed once, is not inherited by exec, never
// blocks and never raises SIGPIPE. Addresses are text, "192.0.2.7:4711" or "[fd00::7]:4711".
#ifndef RING_TRANSPORT_COMMON_SOCKET_H_
#define RING_TRANSPORT_COMMON_SOCKET_H_

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "ringpress/internal/status.h"

namespace ringpress::ring::transport {

/// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int descriptor) : descriptor_(descriptor) {}
  Fd(Fd&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { reset(); }

  int get() const { return descriptor_; }
  bool valid() const { return descriptor_ >= 0; }
  void reset();

 private:
  int descriptor_ = -1;
};

/// kSystem with the operation and what errno means; of open files, how many there may be.
Status system_error(const std::string& operation);

/// A socket address of any family.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

/// Parses what to_text() writes. Never asks a name server.
Result<SocketAddress> parse_address(const std::string& text);
std::string to_text(const SocketAddress& address);

/// The name of an address in the abstract Unix namespace, which belongs to a network namespace and
/// leaves nothing behind in a file system.
Result<SocketAddress> abstract_address(const std::string& name);

/// A socket that has the address but refuses connections until start_listening(). Port 0 picks a
/// free one; local_address() tells which.
Result<Fd> bind_to(const SocketAddress& address);
Status start_listening(int descriptor);
/// Both.
Result<Fd> listen_on(const SocketAddress& address);
/// As listen_on(), though connections of a socket that this opened at the same port before are
/// still there, or remembered.
Result<Fd> listen_again_on(const SocketAddress& address);
/// As listen_again_on(). A shutdown() ends the listening, and the port stays this socket's: nobody
/// but listen_again_on() gets it. (Linux takes back a port that it chose itself, so the socket asks
/// for the chosen one by its number.)
Result<Fd> listen_and_keep_port(const SocketAddress& address);
Result<SocketAddress> local_address(int descriptor);

/// For begin_connect(). kSystem: this process, or its system, can have no more.
Result<Fd> open_socket(const SocketAddress& address);
/// Starts connecting; the socket becomes writable when that has ended either way.
Status begin_connect(int descriptor, const SocketAddress& address);
/// Both.
Result<Fd> start_connect(const SocketAddress& address);
/// How it ended.
Status connect_result(int descriptor);
/// Whether it has ended well already, as it does at once for local sockets.
bool is_connected(int descriptor);

/// "192.0.2.7:4711", the other side of a connection; "an unknown address" if the system has none.
std::string remote_address(int descriptor);

/// A new connection, or none when none is waiting, or there can be no more open files: that is
/// logged, once a process, and whoever waits goes on waiting.
struct AcceptedSocket {
  Fd socket;
  bool is_short_of_files = false;
};
AcceptedSocket accept_from(int listener);

/// Small frames leave at once. Ignored where it makes no sense.
void set_no_delay(int descriptor);

/// What this end sends is paced and slowed down as this one of the system's algorithms says
/// ("reno", "cubic"); empty: as the system's own default does. kSystem for one that this process
/// may not have.
Status try_congestion_control(int descriptor, const std::string& name);
/// The same; what goes wrong is logged, once, and then it is the default.
void set_congestion_control(int descriptor, const std::string& name);

/// The system asks after a silent peer, so that a host that vanished is noticed in some minutes.
void keep_alive(int descriptor);

/// What one attempt to move bytes did.
struct Transferred {
  std::size_t bytes = 0;
  bool closed = false;  // Receiving: the other side has closed its end.
  int error = 0;        // errno, or 0; "try again" is no error and moves 0 bytes.
};
Transferred transferred(ssize_t result);

/// Makes a system call that moves bytes; again, where a signal has interrupted it.
template <typename Call>
Transferred move_bytes(Call&& call) {
  ssize_t result = 0;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return transferred(result);
}

inline constexpr int kSendFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
inline constexpr int kReceiveFlags = MSG_DONTWAIT | MSG_CMSG_CLOEXEC;

inline msghdr message_of(iovec* pieces, std::size_t count) {
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = count;
  return message;
}

Transferred send_bytes(int descriptor, const void* data, std::size_t bytes);
Transferred receive_bytes(int descriptor, void* data, std::size_t bytes);

}  // namespace ringpress::ring::transport

#endif  // RING_TRANSPORT_COMMON_SOCKET_H_
