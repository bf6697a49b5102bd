// Where the ranks of a communicator exchange a number each.
#ifndef NCCL_PLUGIN_INTERPOSER_CALLS_EXCHANGE_MEMORY_H_
#define NCCL_PLUGIN_INTERPOSER_CALLS_EXCHANGE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ringpress/internal/device.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::interposer {

/// Memory on a device, and a stream to use it in.
class ExchangeMemory {
 public:
  /// `ranks`: whose numbers there is room for. `device` outlives this.
  static Result<std::unique_ptr<ExchangeMemory>> make(Device& device, std::size_t ranks) {
    std::unique_ptr<ExchangeMemory> made(new ExchangeMemory(device));
    RINGPRESS_ASSIGN_OR_RETURN(made->stream_, device.create_stream());
    RINGPRESS_ASSIGN_OR_RETURN(made->numbers_, device.allocate((ranks + 1) * sizeof(std::int32_t)));
    return made;
  }
  ~ExchangeMemory() {
    if (numbers_ != nullptr) device_.free(numbers_);
    if (stream_ != nullptr) device_.destroy_stream(stream_);
  }
  ExchangeMemory(const ExchangeMemory&) = delete;
  ExchangeMemory& operator=(const ExchangeMemory&) = delete;

  Device& device() { return device_; }
  Stream stream() { return stream_; }
  /// Room for one more than there are ranks.
  std::int32_t* numbers() { return static_cast<std::int32_t*>(numbers_); }

 private:
  explicit ExchangeMemory(Device& device) : device_(device) {}

  Device& device_;
  Stream stream_ = nullptr;
  void* numbers_ = nullptr;
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_CALLS_EXCHANGE_MEMORY_H_
