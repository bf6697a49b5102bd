// Ranks that are threads of this process, for tests of tuning.
#ifndef TESTS_SUPPORT_THREAD_PEERS_H_
#define TESTS_SUPPORT_THREAD_PEERS_H_

#include <algorithm>
#include <barrier>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "nccl_plugin/session/tuning/peers.h"

namespace ringpress::testing {

/// What rank 0 says to the others, in its order. It does not wait for them, as a tree's root does
/// not.
class Announcements {
 public:
  void say(std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    said_.emplace_back(bytes.begin(), bytes.end());
    is_said_.notify_all();
  }
  /// Waits until it has been said.
  const std::vector<std::byte>& await(std::size_t number) {
    std::unique_lock lock(mutex_);
    is_said_.wait(lock, [&] { return number < said_.size(); });
    return said_[number];
  }

 private:
  std::mutex mutex_;
  std::condition_variable is_said_;
  std::deque<std::vector<std::byte>> said_;  // Never moves what it has.
};

class PeerRoom {
 public:
  /// `host_numbers`: by rank; empty: each has a host of its own.
  explicit PeerRoom(int ranks, const std::vector<int>& host_numbers = {})
      : size(ranks), hosts(host_numbers), slots(static_cast<std::size_t>(ranks)), meet(ranks) {}
  const int size;
  const std::vector<int> hosts;
  std::vector<std::span<std::byte>> slots;  // By rank.
  std::barrier<> meet;
  Announcements announcements;
};

class ThreadPeers final : public nccl_plugin::tuning::Peers {
 public:
  ThreadPeers(PeerRoom& room, int rank) : room_(room), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return room_.size; }
  Status sum(std::span<float> values) override {
    std::vector<float> total(values.size());
    const Status status = exchange(std::as_writable_bytes(values), [&] {
      for (const std::span<std::byte> slot : room_.slots) {
        const auto* const of_rank = reinterpret_cast<const float*>(slot.data());
        for (std::size_t i = 0; i < total.size(); ++i) total[i] += of_rank[i];
      }
    });
    std::copy(total.begin(), total.end(), values.begin());
    return status;
  }
  bool is_local(int peer) const override {
    const auto host_of = [this](int rank) {
      return room_.hosts.empty() ? rank : room_.hosts[static_cast<std::size_t>(rank)];
    };
    return host_of(peer) == host_of(rank_);
  }
  Status swap(int peer, std::span<const float> sent, std::span<float> received) override {
    std::vector<float> own(sent.begin(), sent.end());
    return exchange(std::as_writable_bytes(std::span(own)), [&] {
      if (peer < 0) return;
      const auto* const theirs =
          reinterpret_cast<const float*>(room_.slots[static_cast<std::size_t>(peer)].data());
      std::copy_n(theirs, received.size(), received.begin());
    });
  }
  Status max(std::span<double> values) override {
    std::vector<double> largest(values.begin(), values.end());
    const Status status = exchange(std::as_writable_bytes(values), [&] {
      for (const std::span<std::byte> slot : room_.slots) {
        const auto* const others = reinterpret_cast<const double*>(slot.data());
        for (std::size_t i = 0; i < largest.size(); ++i) {
          largest[i] = std::max(largest[i], others[i]);
        }
      }
    });
    std::copy(largest.begin(), largest.end(), values.begin());
    return status;
  }
  Status broadcast(std::span<std::byte> bytes) override {
    const std::size_t number = announcements_++;
    if (rank_ == 0) {
      room_.announcements.say(bytes);
      return Status::ok();
    }
    const std::vector<std::byte>& said = room_.announcements.await(number);
    if (said.size() != bytes.size()) return differing();
    std::copy(said.begin(), said.end(), bytes.begin());
    return Status::ok();
  }

  std::uint64_t sent_bytes() const override { return 0; }

 private:
  static Status differing() { return {Code::kMismatch, "the ranks do not do the same"}; }

  Status exchange(std::span<std::byte> own, const std::function<void()>& look) {
    room_.slots[static_cast<std::size_t>(rank_)] = own;
    room_.meet.arrive_and_wait();
    for (const std::span<std::byte> slot : room_.slots) {
      if (slot.size() != own.size()) {
        room_.meet.arrive_and_wait();
        return differing();
      }
    }
    look();
    room_.meet.arrive_and_wait();
    return Status::ok();
  }

  PeerRoom& room_;
  const int rank_;
  std::size_t announcements_ = 0;  // That this rank has taken part in.
};

/// Calls it as so many ranks, on such hosts.
inline void run_peers(int size, const std::function<void(ThreadPeers&)>& rank_function,
                      const std::vector<int>& hosts = {}) {
  PeerRoom room(size, hosts);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&room, &rank_function, rank] {
      ThreadPeers peers(room, rank);
      rank_function(peers);
    });
  }
}

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_THREAD_PEERS_H_
