// Messages from one rank to another, in order and with tags, on a communicator of these two ranks.
//
// A message is a header (tag and bytes, 8 bytes each, in the machine's order) and its bytes. A
// receiver that waits for another tag keeps what comes before.
#ifndef NCCL_PLUGIN_PYTHON_RINGPRESS_TORCH_CHANNEL_H_
#define NCCL_PLUGIN_PYTHON_RINGPRESS_TORCH_CHANNEL_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <list>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "nccl_functions.h"
#include "worker.h"

namespace ringpress_torch {

/// One direction between two ranks. The sender is rank 0 of its communicator, the receiver rank 1.
class Channel {
 public:
  using Header = std::array<std::int64_t, 2>;

  /// `find_id` blocks until the other side is known; it is called in the channel's thread.
  Channel(std::shared_ptr<NcclFunctions> functions, int rank, std::function<ncclUniqueId()> find_id)
      : functions_(std::move(functions)), rank_(rank), find_id_(std::move(find_id)) {}

  /// What was sent arrives; what is still waited for fails.
  ~Channel() {
    if (!worker_.is_idle()) functions_->abort(comm_);
    worker_.add([this] {
      if (comm_ != nullptr) functions_->destroy(comm_);
    });
  }

  Worker& worker() { return worker_; }

  // These two are called in the worker.
  void send(std::int64_t tag, const void* data, std::size_t bytes) {
    join();
    const Header header{tag, static_cast<std::int64_t>(bytes)};
    functions_->check(functions_->send(header.data(), sizeof header, ncclUint8, 1, comm_, nullptr));
    if (bytes > 0) functions_->check(functions_->send(data, bytes, ncclUint8, 1, comm_, nullptr));
  }

  void receive(std::int64_t tag, void* data, std::size_t bytes) {
    join();
    for (auto kept = kept_.begin(); kept != kept_.end(); ++kept) {
      if (kept->first != tag) continue;
      const std::vector<char> found = std::move(kept->second);
      kept_.erase(kept);
      check_size(tag, found.size(), bytes);
      std::memcpy(data, found.data(), bytes);
      return;
    }
    for (;;) {
      Header header;
      receive_bytes(header.data(), sizeof header);
      if (header[0] == tag && header[1] == static_cast<std::int64_t>(bytes))
        return receive_bytes(data, bytes);
      std::vector<char> other(static_cast<std::size_t>(header[1]));
      receive_bytes(other.data(), other.size());
      if (header[0] == tag) check_size(tag, other.size(), bytes);
      kept_.emplace_back(header[0], std::move(other));
    }
  }

 private:
  static void check_size(std::int64_t tag, std::size_t sent, std::size_t wanted) {
    if (sent == wanted) return;
    throw std::runtime_error(
        "ringpress: a message with tag " + std::to_string(tag) + " has " + std::to_string(sent) +
        " bytes, but the tensor that is to receive it has " + std::to_string(wanted));
  }

  void join() {
    if (comm_ != nullptr) return;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    functions_->check(functions_->init_rank(&comm_, 2, find_id_(), rank_, &config));
  }

  void receive_bytes(void* data, std::size_t bytes) {
    if (bytes > 0)
      functions_->check(functions_->receive(data, bytes, ncclUint8, 0, comm_, nullptr));
  }

  std::shared_ptr<NcclFunctions> functions_;
  int rank_;
  std::function<ncclUniqueId()> find_id_;
  ncclComm_t comm_ = nullptr;
  std::list<std::pair<std::int64_t, std::vector<char>>> kept_;  // Of other tags.
  Worker worker_;                                               // Last: it uses the others.
};

}  // namespace ringpress_torch

#endif  // NCCL_PLUGIN_PYTHON_RINGPRESS_TORCH_CHANNEL_H_
