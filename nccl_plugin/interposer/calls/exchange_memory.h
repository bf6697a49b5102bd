// Where the ranks of a communicator exchange a number each.
#ifndef NCCL_PLUGIN_INTERPOSER_CALLS_EXCHANGE_MEMORY_H_
#define NCCL_PLUGIN_INTERPOSER_CALLS_EXCHANGE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "ringpress/internal/device.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::interposer {

/// Memory on a device and of the host, and a stream to use it in.
class ExchangeMemory {
 public:
  /// What the stream reads and writes: host memory.
  struct Words {
    std::uint64_t is_pending = 0;  // Set to 0 once all numbers have come.
    std::int32_t own = 0;
    std::int32_t* numbers = nullptr;  // One of each rank.
  };

  /// `ranks`: whose numbers there is room for. `device` outlives this.
  static Result<std::unique_ptr<ExchangeMemory>> make(Device& device, std::size_t ranks) {
    std::unique_ptr<ExchangeMemory> made(new ExchangeMemory(device));
    RINGPRESS_ASSIGN_OR_RETURN(made->stream_, device.create_stream());
    RINGPRESS_ASSIGN_OR_RETURN(
        made->zero_, device.allocate(sizeof(std::uint64_t) + (ranks + 1) * sizeof(std::int32_t)));
    RINGPRESS_ASSIGN_OR_RETURN(void* const words,
                               device.allocate_host(sizeof(Words) + ranks * sizeof(std::int32_t)));
    made->words_ = new (words) Words();
    made->words_->numbers = reinterpret_cast<std::int32_t*>(made->words_ + 1);
    return made;
  }
  ~ExchangeMemory() {
    if (words_ != nullptr) device_.free_host(words_);
    if (zero_ != nullptr) device_.free(zero_);
    if (stream_ != nullptr) device_.destroy_stream(stream_);
  }
  ExchangeMemory(const ExchangeMemory&) = delete;
  ExchangeMemory& operator=(const ExchangeMemory&) = delete;

  Device& device() { return device_; }
  Stream stream() { return stream_; }
  Words& words() { return *words_; }
  /// On the device: room for one more than there are ranks, and a word.
  std::int32_t* numbers() { return reinterpret_cast<std::int32_t*>(zero() + 1); }
  std::uint64_t* zero() { return static_cast<std::uint64_t*>(zero_); }

 private:
  explicit ExchangeMemory(Device& device) : device_(device) {}

  Device& device_;
  Stream stream_ = nullptr;
  void* zero_ = nullptr;  // The word, and the numbers behind it.
  Words* words_ = nullptr;
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_CALLS_EXCHANGE_MEMORY_H_
