// Ranks that are threads of this process, for tests of tuning.
#ifndef TESTS_SUPPORT_THREAD_PEERS_H_
#define TESTS_SUPPORT_THREAD_PEERS_H_

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "nccl_plugin/tuning/peers.h"

namespace ringpress::testing {

class PeerRoom {
 public:
  explicit PeerRoom(int ranks) : size(ranks), slots(static_cast<std::size_t>(ranks)), meet(ranks) {}
  const int size;
  std::vector<std::span<std::byte>> slots;  // By rank.
  std::barrier<> meet;
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
    return exchange(bytes, [&] {
      if (rank_ != 0) std::copy(room_.slots[0].begin(), room_.slots[0].end(), bytes.begin());
    });
  }

 private:
  Status exchange(std::span<std::byte> own, const std::function<void()>& look) {
    room_.slots[static_cast<std::size_t>(rank_)] = own;
    room_.meet.arrive_and_wait();
    for (const std::span<std::byte> slot : room_.slots) {
      if (slot.size() != own.size()) {
        room_.meet.arrive_and_wait();
        return {Code::kMismatch, "the ranks do not do the same"};
      }
    }
    look();
    room_.meet.arrive_and_wait();
    return Status::ok();
  }

  PeerRoom& room_;
  const int rank_;
};

/// Calls it as so many ranks.
inline void run_peers(int size, const std::function<void(ThreadPeers&)>& rank_function) {
  PeerRoom room(size);
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
