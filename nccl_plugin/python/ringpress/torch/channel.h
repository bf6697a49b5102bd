// Messages from one rank to another, in order and with tags, on a communicator of these two ranks.
//
// A message is a header (tag and bytes, 8 bytes each, in the machine's order) and its bytes. A
// receiver that waits for another tag keeps what comes before.
#ifndef NCCL_PLUGIN_PYTHON_RINGPRESS_TORCH_CHANNEL_H_
#define NCCL_PLUGIN_PYTHON_RINGPRESS_TORCH_CHANNEL_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "meeting.h"
#include "nccl_functions.h"

namespace ringpress_torch {

/// One direction between two ranks. The sender is rank 0 of its communicator, the receiver rank 1.
/// One thread sends or receives; stop() is for any other one.
class Channel {
 public:
  using Header = std::array<std::int64_t, 2>;

  Channel(std::shared_ptr<NcclFunctions> functions, Meeting meeting)
      : functions_(std::move(functions)), meeting_(std::move(meeting)) {}
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  ~Channel() {
    if (comm_ != nullptr) functions_->destroy(comm_);
  }

  /// What is waited for fails, and so do later calls. Sends whose other side is there are finished
  /// first, unless `now`.
  void stop(bool now) {
    meeting_.stop();
    if (meeting_.sends() && !now) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    if (comm_ != nullptr) functions_->abort(std::exchange(comm_, nullptr));
  }

  void send(std::int64_t tag, const void* data, std::size_t bytes) {
    const Header header{tag, static_cast<std::int64_t>(bytes)};
    send_bytes(header.data(), sizeof header);
    send_bytes(data, bytes);
  }

  void receive(std::int64_t tag, void* data, std::size_t bytes) {
    for (auto kept = kept_.begin(); kept != kept_.end(); ++kept) {
      if (kept->first != tag) continue;
      const std::vector<char> found = std::move(kept->second);
      kept_.erase(kept);
      check_size(tag, found.size(), bytes);
      if (bytes > 0) std::memcpy(data, found.data(), bytes);
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

  void send_bytes(const void* data, std::size_t bytes) {
    if (bytes > 0)
      functions_->check(functions_->send(data, bytes, ncclUint8, 1, joined(), nullptr));
  }

  void receive_bytes(void* data, std::size_t bytes) {
    if (bytes > 0)
      functions_->check(functions_->receive(data, bytes, ncclUint8, 0, joined(), nullptr));
  }

  /// Joins first if that has not been done. The library refuses a handle that stop() has aborted.
  ncclComm_t joined() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      check_live();
      if (comm_ != nullptr) return comm_;
    }
    const ncclUniqueId id = meeting_.agree(*functions_);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t made = nullptr;
    functions_->check(functions_->init_rank(&made, 2, id, meeting_.sends() ? 0 : 1, &config));
    const std::lock_guard<std::mutex> lock(mutex_);
    comm_ = made;
    check_live();
    return made;
  }

  void check_live() const {
    if (stopped_) throw std::runtime_error("ringpress: the process group was aborted or has ended");
  }

  std::shared_ptr<NcclFunctions> functions_;
  Meeting meeting_;
  std::mutex mutex_;           // Of comm_ and stopped_.
  ncclComm_t comm_ = nullptr;  // Null before the first message, and once aborted.
  bool stopped_ = false;
  std::list<std::pair<std::int64_t, std::vector<char>>> kept_;  // Of other tags.
};

}  // namespace ringpress_torch

#endif  // NCCL_PLUGIN_PYTHON_RINGPRESS_TORCH_CHANNEL_H_
