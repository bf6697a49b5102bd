// A TCP proxy in a thread that forwards both ways and does one wrong thing to what goes from the
// client to the server, after a number of bytes of each connection.
#ifndef TESTS_SUPPORT_FAULT_PROXY_H_
#define TESTS_SUPPORT_FAULT_PROXY_H_

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ring/transport/common/socket.h"

namespace ringpress::testing {

enum class Fault {
  kNone,
  kSplit,    // Forwards one byte at a time.
  kCorrupt,  // Flips one bit.
  kStall,    // Forwards nothing more, but stays connected.
  kDrop,     // Closes both sides.
};

class FaultProxy {
 public:
  FaultProxy(const std::string& target, Fault fault, std::size_t after_bytes)
      : target_(target), fault_(fault), after_bytes_(after_bytes) {
    using namespace ring::transport;
    listener_ = listen_on(parse_address("127.0.0.1:0").value()).value();
    address_ = ring::transport::to_text(local_address(listener_.get()).value());
    thread_ = std::thread([this] { run(); });
  }
  ~FaultProxy() { static_cast<void>(take_recorded()); }
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  /// Where clients connect to.
  const std::string& address() const { return address_; }
  /// What clients have sent, of all connections. Once they are closed.
  std::string take_recorded() {
    stop_.store(true);
    if (thread_.joinable()) thread_.join();
    return std::move(recorded_);
  }

 private:
  struct Pair {
    ring::transport::Fd client;
    ring::transport::Fd server;
    std::size_t forwarded = 0;  // From the client.
    bool stalled = false;
    bool closed = false;
  };

  void run() {
    while (!stop_.load()) {
      std::vector<pollfd> waited{{listener_.get(), POLLIN, 0}};
      for (const auto& pair : pairs_) {
        waited.push_back({pair->closed || pair->stalled ? -1 : pair->client.get(), POLLIN, 0});
        waited.push_back({pair->closed ? -1 : pair->server.get(), POLLIN, 0});
      }
      if (::poll(waited.data(), waited.size(), 20) <= 0) continue;
      for (std::size_t i = 0; i < pairs_.size(); ++i) {
        if (waited[2 * i + 1].revents != 0) forward(*pairs_[i], true);
        if (!pairs_[i]->closed && waited[2 * i + 2].revents != 0) forward(*pairs_[i], false);
      }
      if (waited[0].revents != 0) add_pair();
    }
  }

  void add_pair() {
    using namespace ring::transport;
    auto pair = std::make_unique<Pair>();
    pair->client = accept_from(listener_.get()).socket;
    if (!pair->client.valid()) return;
    pair->server = start_connect(parse_address(target_).value()).value();
    set_no_delay(pair->server.get());
    pairs_.push_back(std::move(pair));
  }

  void forward(Pair& pair, bool from_client) {
    const int from = from_client ? pair.client.get() : pair.server.get();
    const int to = from_client ? pair.server.get() : pair.client.get();
    char buffer[65536];
    const ssize_t got = recv(from, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return close_pair(pair);
    const auto bytes = static_cast<std::size_t>(got);
    if (from_client) recorded_.append(buffer, bytes);
    if (from_client && fault_ != Fault::kNone && pair.forwarded + bytes > after_bytes_) {
      return forward_wrongly(pair, buffer, bytes);
    }
    if (from_client) pair.forwarded += bytes;
    write_all(to, buffer, bytes);
  }

  void forward_wrongly(Pair& pair, char* buffer, std::size_t bytes) {
    const std::size_t good = after_bytes_ > pair.forwarded ? after_bytes_ - pair.forwarded : 0;
    if (fault_ == Fault::kCorrupt && pair.forwarded <= after_bytes_) buffer[good] ^= 0x10;
    if (fault_ == Fault::kStall || fault_ == Fault::kDrop) bytes = good;
    pair.forwarded += bytes;
    const std::size_t step = fault_ == Fault::kSplit ? 1 : bytes;
    for (std::size_t done = 0; done < bytes; done += step) {
      write_all(pair.server.get(), buffer + done, step);
    }
    if (fault_ == Fault::kStall) pair.stalled = true;
    if (fault_ == Fault::kDrop) close_pair(pair);
  }

  void close_pair(Pair& pair) {
    pair.closed = true;
    pair.client.reset();
    pair.server.reset();
  }

  void write_all(int to, const char* buffer, std::size_t bytes) {
    std::size_t done = 0;
    while (done < bytes && !stop_.load()) {
      const ssize_t sent = ::send(to, buffer + done, bytes - done, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) {
        done += static_cast<std::size_t>(sent);
        continue;
      }
      if (sent < 0 && errno != EAGAIN) return;
      pollfd waited{to, POLLOUT, 0};
      ::poll(&waited, 1, 20);
    }
  }

  const std::string target_;
  const Fault fault_;
  const std::size_t after_bytes_;
  ring::transport::Fd listener_;
  std::string address_;
  std::string recorded_;
  std::vector<std::unique_ptr<Pair>> pairs_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_FAULT_PROXY_H_
