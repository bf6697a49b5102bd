// A mesh between threads of one process, without a network: what collectives are tested on. Frames
// are copied when sent, so a collective that reuses memory too early is caught by the sanitizers
// and by wrong results on the real transports, not here; order, labels and lengths are checked
// strictly.
#ifndef TESTS_SUPPORT_THREAD_MESH_H_
#define TESTS_SUPPORT_THREAD_MESH_H_

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ringpress/internal/mesh.h"

namespace ringpress::testing {

/// What the ranks of one ThreadMesh share.
class ThreadFabric {
 public:
  /// `seconds_per_byte`: that each rank is busy with what it sends. `ranks_per_host`: neighbours,
  /// where there are several hosts.
  explicit ThreadFabric(int size, bool is_one_host = true, double seconds_per_byte = 0,
                        int ranks_per_host = 1)
      : size_(size),
        ranks_per_host_(is_one_host ? size : ranks_per_host),
        seconds_per_byte_(seconds_per_byte) {}

  int size() const { return size_; }
  int ranks_per_host() const { return size_ % ranks_per_host_ == 0 ? ranks_per_host_ : 0; }
  bool is_one_host(int a, int b) const { return a / ranks_per_host_ == b / ranks_per_host_; }

  void put(int from, int to, const FrameLabel& label, ConstBuffer payload) {
    if (seconds_per_byte_ > 0) {
      const double seconds = seconds_per_byte_ * static_cast<double>(payload.bytes);
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    }
    const std::lock_guard lock(mutex_);
    links_[{from, to}].push_back(
        {label, std::vector<std::byte>(payload.data, payload.data + payload.bytes)});
    arrived_.notify_all();
  }

  /// The next frame on a link; waits up to 20 s, which only a deadlock uses up.
  Result<std::vector<std::byte>> take(int from, int to, const FrameLabel& label,
                                      FrameLength length) {
    std::unique_lock lock(mutex_);
    auto& link = links_[{from, to}];
    arrived_.wait_for(lock, std::chrono::seconds(100),
                      [&] { return !link.empty() || !failure_.is_ok(); });
    if (!failure_.is_ok()) return failure_;
    if (link.empty()) return fail({Code::kTimeout, "nothing came: " + describe(label.call)});
    Frame frame = std::move(link.front());
    link.pop_front();
    if (!(frame.label == label)) {
      return fail({Code::kMismatch,
                   describe(frame.label.call) + " step " + std::to_string(frame.label.step) +
                       " chunk " + std::to_string(frame.label.chunk) + " came, expected " +
                       describe(label.call) + " step " + std::to_string(label.step) + " chunk " +
                       std::to_string(label.chunk)});
    }
    if (!length.allows(frame.payload.size())) return fail({Code::kMismatch, "wrong length"});
    return std::move(frame.payload);
  }

  bool has(int from, int to) {
    const std::lock_guard lock(mutex_);
    return !links_[{from, to}].empty() || !failure_.is_ok();
  }

  void abort(const Status& reason) {
    const std::lock_guard lock(mutex_);
    static_cast<void>(fail(reason));
  }
  Status failure() {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  /// True if every frame that was sent has been received.
  bool is_drained() {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, link] : links_) {
      if (!link.empty()) return false;
    }
    return true;
  }

 private:
  struct Frame {
    FrameLabel label;
    std::vector<std::byte> payload;
  };

  Status fail(const Status& reason) {
    if (failure_.is_ok()) failure_ = reason;
    arrived_.notify_all();
    return failure_;
  }

  const int size_;
  const int ranks_per_host_;
  const double seconds_per_byte_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::pair<int, int>, std::deque<Frame>> links_;
  Status failure_;
};

class ThreadMesh : public Mesh {
 public:
  ThreadMesh(std::shared_ptr<ThreadFabric> fabric, int rank)
      : fabric_(std::move(fabric)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return fabric_->size(); }
  bool is_local(int peer) const override { return fabric_->is_one_host(rank_, peer); }
  int ranks_per_host() const override { return fabric_->ranks_per_host(); }

  Result<Request*> isend(int peer, ConstBuffer payload, const FrameLabel& label) override {
    RINGPRESS_EXPECTS(peer != rank_ && peer >= 0 && peer < size(), "bad peer");
    fabric_->put(rank_, peer, label, payload);
    counters_.sent_bytes += payload.bytes + sizeof(FrameHeader);
    return add(Transfer());
  }
  Result<Request*> irecv(int peer, Buffer into, const FrameLabel& label) override {
    return add({peer, into, FrameLength::exactly(into.bytes), label});
  }
  Result<Request*> irecv_view(int peer, FrameLength length, const FrameLabel& label) override {
    return add({peer, {}, length, label});
  }
  /// Frames of a peer are taken in the order of the receives, whichever is waited for.
  Result<ConstBuffer> wait(Request* request) override {
    auto* wanted = static_cast<Transfer*>(request);
    if (!wanted->is_receive) return ConstBuffer{};
    for (const auto& owned : requests_) {
      Transfer* transfer = owned.get();
      if (!transfer->is_receive || transfer->is_done || transfer->peer != wanted->peer) continue;
      auto payload = fabric_->take(transfer->peer, rank_, transfer->label, transfer->length);
      if (!payload.is_ok()) return payload.status();
      transfer->payload = std::move(payload).value();
      transfer->is_done = true;
      if (transfer->into.data != nullptr) {
        std::memcpy(transfer->into.data, transfer->payload.data(), transfer->payload.size());
      }
      if (transfer == wanted) break;
    }
    return ConstBuffer{wanted->payload.data(), wanted->payload.size()};
  }
  Result<bool> poll(Request* request) override {
    auto* wanted = static_cast<Transfer*>(request);
    return !wanted->is_receive || wanted->is_done || fabric_->has(wanted->peer, rank_);
  }
  void release(Request* request) override {
    std::erase_if(requests_, [request](const auto& owned) { return owned.get() == request; });
  }
  /// Of some, so that collectives are tested both ways.
  bool reads_staging(int peer, std::size_t) const override { return peer % 2 == 0; }
  Result<Buffer> staging(std::size_t slot, std::size_t bytes) override {
    auto& memory = staging_[slot];
    if (memory.size() < bytes) memory = std::vector<std::byte>(bytes);
    return Buffer{memory.data(), memory.size()};
  }
  void set_timeout(std::chrono::milliseconds) override {}  // Threads wait as long as it takes.
  void abort(const Status& reason) override { fabric_->abort(reason); }
  Status check() override { return fabric_->failure(); }
  Status failure() const override { return fabric_->failure(); }
  MeshCounters counters() const override { return counters_; }

  /// Requests that a collective has not released.
  std::size_t open_requests() const { return requests_.size(); }

 private:
  struct Transfer : Request {
    Transfer() = default;
    Transfer(int from, Buffer to, FrameLength expected_length, FrameLabel expected)
        : is_receive(true), peer(from), into(to), length(expected_length), label(expected) {}
    bool is_receive = false;
    int peer = 0;
    Buffer into;
    FrameLength length;
    FrameLabel label;
    std::vector<std::byte> payload;
    bool is_done = false;
  };

  Request* add(Transfer transfer) {
    requests_.push_back(std::make_unique<Transfer>(std::move(transfer)));
    return requests_.back().get();
  }

  std::shared_ptr<ThreadFabric> fabric_;
  int rank_;
  std::vector<std::unique_ptr<Transfer>> requests_;
  std::map<std::size_t, std::vector<std::byte>> staging_;
  MeshCounters counters_;
};

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_THREAD_MESH_H_
