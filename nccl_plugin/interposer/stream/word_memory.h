// Where words are that travel between ranks in a stream.
#ifndef NCCL_PLUGIN_INTERPOSER_STREAM_WORD_MEMORY_H_
#define NCCL_PLUGIN_INTERPOSER_STREAM_WORD_MEMORY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "ringpress/internal/device.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::interposer {

/// Words on a device, while they travel, and of the host: what is sent, and what has come. All are
/// 0 at first.
class WordMemory {
 public:
  /// `device` outlives this.
  static Result<std::unique_ptr<WordMemory>> make(Device& device, std::size_t words) {
    std::unique_ptr<WordMemory> memory(new WordMemory(device));
    const std::size_t bytes = words * sizeof(std::uint64_t);
    RINGPRESS_ASSIGN_OR_RETURN(void* const on_device, device.allocate(bytes));
    memory->on_device_ = static_cast<std::uint64_t*>(on_device);
    RINGPRESS_ASSIGN_OR_RETURN(void* const shared, device.allocate_host(2 * bytes));
    memory->sent_ = static_cast<std::uint64_t*>(shared);
    memory->received_ = memory->sent_ + words;
    std::fill_n(memory->sent_, 2 * words, 0);
    return memory;
  }
  ~WordMemory() {
    if (on_device_ != nullptr) device_.free(on_device_);
    if (sent_ != nullptr) device_.free_host(sent_);
  }
  WordMemory(const WordMemory&) = delete;
  WordMemory& operator=(const WordMemory&) = delete;

  std::uint64_t* on_device() const { return on_device_; }
  /// Host memory that streams read,
  std::uint64_t* sent() const { return sent_; }
  /// and that they write.
  std::uint64_t* received() const { return received_; }

 private:
  explicit WordMemory(Device& device) : device_(device) {}

  Device& device_;
  std::uint64_t* on_device_ = nullptr;
  std::uint64_t* sent_ = nullptr;
  std::uint64_t* received_ = nullptr;  // Behind the other, in one piece.
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_STREAM_WORD_MEMORY_H_
