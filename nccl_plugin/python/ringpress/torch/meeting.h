// How the two ranks of a channel find each other: by two keys in the group's store.
//
// The sender writes a unique id, the receiver writes that it has it. Both only look whether a key
// is there: a store's own wait would hold up the store's other users in this process, and could not
// be stopped.
#ifndef NCCL_PLUGIN_PYTHON_RINGPRESS_TORCH_MEETING_H_
#define NCCL_PLUGIN_PYTHON_RINGPRESS_TORCH_MEETING_H_

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "nccl_functions.h"

namespace ringpress_torch {

class Meeting {
 public:
  /// `from` sends and `to` receives; `sends`: this rank is `from`.
  Meeting(c10::intrusive_ptr<c10d::Store> store, int from, int to, bool sends,
          std::chrono::milliseconds timeout)
      : store_(std::move(store)),
        key_("ringpress_channel/" + std::to_string(from) + "/" + std::to_string(to)),
        peer_(sends ? to : from),
        sends_(sends),
        timeout_(timeout),
        stop_(std::make_shared<Stop>()) {}

  bool sends() const { return sends_; }

  /// From any thread: agree() throws, now and later, if the other side is not there yet.
  void stop() {
    const std::lock_guard<std::mutex> lock(stop_->mutex);
    stop_->asked = true;
    stop_->changed.notify_all();
  }

  /// The id that both sides have. Throws std::runtime_error after the timeout, or if stopped.
  ncclUniqueId agree(const NcclFunctions& functions) {
    ncclUniqueId id;
    const std::string taken = key_ + "/taken";
    if (sends_) {
      functions.check(functions.get_unique_id(&id));
      store_->set(key_, std::vector<uint8_t>(id.internal, id.internal + sizeof id.internal));
      wait_for(taken);
      return id;
    }
    wait_for(key_);
    const std::vector<uint8_t> found = store_->get(key_);
    if (found.size() != sizeof id.internal)
      throw std::runtime_error("ringpress: " + key_ + " in the store is no id");
    std::memcpy(id.internal, found.data(), sizeof id.internal);
    store_->set(taken, std::vector<uint8_t>{1});
    return id;
  }

 private:
  struct Stop {
    std::mutex mutex;
    std::condition_variable changed;
    bool asked = false;
  };

  /// Looks often at first, then every 50 ms.
  void wait_for(const std::string& key) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point end = Clock::now() + timeout_;
    std::chrono::milliseconds pause{1};
    while (!store_->check({key})) {
      std::unique_lock<std::mutex> lock(stop_->mutex);
      if (stop_->changed.wait_for(lock, pause, [this] { return stop_->asked; }))
        throw std::runtime_error(describe("had not come when the process group ended"));
      if (Clock::now() > end) {
        throw std::runtime_error(
            describe("has not come in " + std::to_string(timeout_.count()) + " ms"));
      }
      pause = std::min(2 * pause, std::chrono::milliseconds(50));
    }
  }

  std::string describe(const std::string& what) const {
    return "ringpress: a message " + std::string(sends_ ? "to" : "from") + " rank " +
           std::to_string(peer_) + " is waited for, but that rank " + what;
  }

  c10::intrusive_ptr<c10d::Store> store_;
  std::string key_;
  int peer_;
  bool sends_;
  std::chrono::milliseconds timeout_;
  std::shared_ptr<Stop> stop_;  // So that a Meeting can be moved.
};

}  // namespace ringpress_torch

#endif  // NCCL_PLUGIN_PYTHON_RINGPRESS_TORCH_MEETING_H_
