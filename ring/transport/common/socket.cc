#include "ring/transport/common/socket.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "ringpress/internal/log.h"

namespace ringpress::ring::transport {
namespace {

// Who waits here has its place though this process is busy; the system may allow fewer.
constexpr int kBacklog = 4096;

bool parse_port(const std::string& text, std::uint16_t& port) {
  if (text.empty() || text.size() > 5) return false;
  unsigned value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    value = value * 10 + static_cast<unsigned>(c - '0');
  }
  port = static_cast<std::uint16_t>(value);
  return value <= 65535;
}

bool parse_ipv6(const std::string& host, std::uint16_t port, SocketAddress& address) {
  const std::size_t percent = host.find('%');
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET6, host.substr(0, percent).c_str(), &v6->sin6_addr) != 1) return false;
  if (percent != std::string::npos) {
    v6->sin6_scope_id = if_nametoindex(host.substr(percent + 1).c_str());
  }
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(port);
  address.length = sizeof *v6;
  return true;
}

/// Which limit an error is about, in brackets; empty: about none.
std::string limit_behind(int error) {
  if (error == ENFILE) return " (the limit of this machine: fs.file-max)";
  rlimit limit{};
  if (error != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) != 0) return "";
  return " (this process may have " + std::to_string(limit.rlim_cur) + ": ulimit -n)";
}

void tell_of_shortage() {
  static std::atomic<bool> is_told{false};
  const Status shortage = system_error("a connection cannot be taken: accept");
  if (!is_told.exchange(true)) log_line(LogLevel::kWarn, "%s", shortage.message().c_str());
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

void Fd::reset() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

Status system_error(const std::string& operation) {
  const int error = errno;
  char buffer[128] = "";
  return Status(Code::kSystem,
                operation + ": " + strerror_r(error, buffer, sizeof buffer) + limit_behind(error));
}

Result<SocketAddress> parse_address(const std::string& text) {
  const Status bad(Code::kInvalidArgument, "\"" + text + "\" is not an address with a port");
  const std::size_t colon = text.rfind(':');
  SocketAddress address;
  std::uint16_t port = 0;
  if (colon == std::string::npos || !parse_port(text.substr(colon + 1), port)) return bad;
  const std::string host = text.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    if (!parse_ipv6(host.substr(1, host.size() - 2), port, address)) return bad;
    return address;
  }
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  if (inet_pton(AF_INET, host.c_str(), &v4->sin_addr) != 1) return bad;
  v4->sin_family = AF_INET;
  v4->sin_port = htons(port);
  address.length = sizeof *v4;
  return address;
}

std::string to_text(const SocketAddress& address) {
  char host[INET6_ADDRSTRLEN] = "";
  if (address.storage.ss_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
    std::string text = std::string("[") + host;
    char name[IF_NAMESIZE] = "";
    if (v6->sin6_scope_id != 0 && if_indextoname(v6->sin6_scope_id, name) != nullptr) {
      text += std::string("%") + name;
    }
    return text + "]:" + std::to_string(ntohs(v6->sin6_port));
  }
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
  inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
  return std::string(host) + ":" + std::to_string(ntohs(v4->sin_port));
}

Result<SocketAddress> abstract_address(const std::string& name) {
  SocketAddress address;
  auto* local = reinterpret_cast<sockaddr_un*>(&address.storage);
  local->sun_family = AF_UNIX;
  if (name.empty() || name.size() > sizeof local->sun_path - 1) {
    return Status(Code::kInvalidArgument, "bad name of a local socket");
  }
  // The leading zero byte of sun_path selects the abstract namespace.
  std::memcpy(local->sun_path + 1, name.data(), name.size());
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

Result<Fd> bind_to(const SocketAddress& address) {
  RINGPRESS_ASSIGN_OR_RETURN(Fd socket, open_socket(address));
  if (::bind(socket.get(), address.get(), address.length) != 0) return system_error("bind");
  return socket;
}

Status start_listening(int descriptor) {
  return ::listen(descriptor, kBacklog) == 0 ? Status::ok() : system_error("listen");
}

Result<Fd> listen_on(const SocketAddress& address) {
  RINGPRESS_ASSIGN_OR_RETURN(Fd socket, bind_to(address));
  RINGPRESS_RETURN_IF_ERROR(start_listening(socket.get()));
  return socket;
}

Result<Fd> bind_again_to(const SocketAddress& address) {
  RINGPRESS_ASSIGN_OR_RETURN(Fd socket, open_socket(address));
  const int yes = 1;
  if (setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0) {
    return system_error("setsockopt");
  }
  if (::bind(socket.get(), address.get(), address.length) != 0) return system_error("bind");
  return socket;
}

Result<Fd> listen_again_on(const SocketAddress& address) {
  RINGPRESS_ASSIGN_OR_RETURN(Fd socket, bind_again_to(address));
  RINGPRESS_RETURN_IF_ERROR(start_listening(socket.get()));
  return socket;
}

Result<Fd> listen_and_keep_port(const SocketAddress& address) {
  RINGPRESS_ASSIGN_OR_RETURN(const Fd found, bind_again_to(address));
  RINGPRESS_ASSIGN_OR_RETURN(const SocketAddress chosen, local_address(found.get()));
  return listen_again_on(chosen);
}

Result<SocketAddress> local_address(int descriptor) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (getsockname(descriptor, address.get(), &address.length) != 0) {
    return system_error("getsockname");
  }
  return address;
}

Result<Fd> open_socket(const SocketAddress& address) {
  Fd socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return system_error("socket");
  return socket;
}

Status begin_connect(int descriptor, const SocketAddress& address) {
  int result = 0;
  do {
    result = ::connect(descriptor, address.get(), address.length);
  } while (result != 0 && errno == EINTR);
  return result != 0 && errno != EINPROGRESS ? system_error("connect") : Status::ok();
}

Result<Fd> start_connect(const SocketAddress& address) {
  RINGPRESS_ASSIGN_OR_RETURN(Fd socket, open_socket(address));
  RINGPRESS_RETURN_IF_ERROR(begin_connect(socket.get(), address));
  return socket;
}

Status connect_result(int descriptor) {
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length) != 0) {
    return system_error("getsockopt");
  }
  errno = error;
  return error == 0 ? Status::ok() : system_error("connect");
}

bool is_connected(int descriptor) {
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  return getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &length) == 0;
}

std::string remote_address(int descriptor) {
  SocketAddress address;
  address.length = sizeof address.storage;
  const bool is_known = getpeername(descriptor, address.get(), &address.length) == 0;
  const int family = address.storage.ss_family;
  if (!is_known || (family != AF_INET && family != AF_INET6)) return "an unknown address";
  return to_text(address);
}

AcceptedSocket accept_from(int listener) {
  int descriptor = -1;
  do {
    descriptor = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  } while (descriptor < 0 && (errno == EINTR || errno == ECONNABORTED));
  const bool is_short = descriptor < 0 && (errno == EMFILE || errno == ENFILE);
  if (is_short) tell_of_shortage();
  return {Fd(descriptor), is_short};
}

void set_no_delay(int descriptor) {
  const int on = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Status try_congestion_control(int descriptor, const std::string& name) {
  if (name.empty()) return Status::ok();
  const auto length = static_cast<socklen_t>(name.size());
  if (setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name.data(), length) == 0) {
    return Status::ok();
  }
  return system_error("RINGPRESS_TCP_CONGESTION=" + name +
                      " is not among net.ipv4.tcp_allowed_congestion_control; the system's default "
                      "is used");
}

void set_congestion_control(int descriptor, const std::string& name) {
  const Status set = try_congestion_control(descriptor, name);
  if (set.is_ok()) return;
  static std::atomic<bool> is_told{false};
  if (!is_told.exchange(true)) log_line(LogLevel::kWarn, "%s", set.message().c_str());
}

void keep_alive(int descriptor) {
  const int on = 1;
  const int idle_seconds = 60;
  const int interval_seconds = 10;
  const int probes = 6;
  setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, &idle_seconds, sizeof idle_seconds);
  setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, &interval_seconds, sizeof interval_seconds);
  setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

Transferred transferred(ssize_t result) {
  Transferred moved;
  if (result > 0) {
    moved.bytes = static_cast<std::size_t>(result);
  } else if (result == 0) {
    moved.closed = true;
  } else if (errno != EAGAIN && errno != EWOULDBLOCK) {
    moved.error = errno;
  }
  return moved;
}

Transferred send_bytes(int descriptor, const void* data, std::size_t bytes) {
  iovec piece{const_cast<void*>(data), bytes};
  const msghdr message = message_of(&piece, 1);
  return move_bytes([&] { return ::sendmsg(descriptor, &message, kSendFlags); });
}

Transferred receive_bytes(int descriptor, void* data, std::size_t bytes) {
  iovec piece{data, bytes};
  msghdr message = message_of(&piece, 1);
  return move_bytes([&] { return ::recvmsg(descriptor, &message, kReceiveFlags); });
}

}  // namespace ringpress::ring::transport
