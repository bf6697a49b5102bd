#include "ring/bootstrap/known_address.h"

#include <netdb.h>

#include <cstring>
#include <memory>
#include <thread>

#include "ring/bootstrap/rendezvous.h"
#include "ring/transport/common/hello.h"
#include "ring/transport/common/socket.h"
#include "ringpress/internal/wire.h"

namespace ringpress::ring::bootstrap {
namespace {

using transport::Fd;
using transport::SocketAddress;

// Longer than a rendezvous that failed stays to tell so.
constexpr std::chrono::milliseconds kPortPatience{7000};
constexpr std::chrono::milliseconds kPortRetryPause{20};

/// In place of a secret; no random one is like it.
Secret mark() {
  Secret secret{};
  std::memcpy(secret.data(), "at a known place", secret.size());
  return secret;
}

/// What a name server, or the system's list of hosts, says first.
Result<SocketAddress> look_up(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &list);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(error == 0 ? list : nullptr,
                                                             freeaddrinfo);
  if (error != 0 || list == nullptr) {
    return Status(Code::kInvalidArgument, "\"" + host + "\" is no host: " + gai_strerror(error));
  }
  SocketAddress address;
  std::memcpy(&address.storage, list->ai_addr, list->ai_addrlen);
  address.length = list->ai_addrlen;
  return address;
}

/// Of what comes after the last colon.
Status check_port(const std::string& port) {
  const bool is_port = transport::parse_address("0.0.0.0:" + port).is_ok();
  if (is_port && port.find_first_not_of('0') != std::string::npos) return Status::ok();
  return Status(Code::kInvalidArgument, "\"" + port + "\" is no port: expected 1 to 65535");
}

Result<SocketAddress> parse(const std::string& text) {
  Result<SocketAddress> numeric = transport::parse_address(text);
  const std::size_t colon = text.rfind(':');
  const bool has_port = colon != std::string::npos && colon != 0 && colon + 1 != text.size();
  if (!has_port) return numeric;
  const bool is_ipv6 = text.find(':') != colon;
  if (numeric.is_ok() || !is_ipv6) RINGPRESS_RETURN_IF_ERROR(check_port(text.substr(colon + 1)));
  if (numeric.is_ok() || is_ipv6) return numeric;
  return look_up(text.substr(0, colon), text.substr(colon + 1));
}

Result<Fd> wait_for_port(const SocketAddress& address) {
  const auto give_up = std::chrono::steady_clock::now() + kPortPatience;
  Result<Fd> socket = transport::listen_again_on(address);
  while (!socket.is_ok() && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(kPortRetryPause);
    socket = transport::listen_again_on(address);
  }
  return socket;
}

}  // namespace

Result<UniqueId> known_address(const std::string& address) {
  RINGPRESS_ASSIGN_OR_RETURN(const SocketAddress found, parse(address));
  return UniqueId{mark(), transport::to_text(found), true};
}

bool is_known_address(const UniqueId& id) {
  return id.secret == mark();
}

Status serve_known_address(const UniqueId& id, const std::string& extra_secret,
                           std::chrono::milliseconds timeout) {
  RINGPRESS_ASSIGN_OR_RETURN(const SocketAddress address, transport::parse_address(id.address));
  Result<Fd> listener = wait_for_port(address);
  if (!listener.is_ok()) {
    return Status(listener.status().code(),
                  "rank 0 cannot serve at " + id.address + ": " + listener.status().message());
  }
  return serve_at(id, std::move(listener).value(), extra_secret, {timeout, timeout});
}

}  // namespace ringpress::ring::bootstrap
