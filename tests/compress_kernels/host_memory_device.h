// A device whose memory is the host's and where everything is done at once, without kernels:
// projections are the scalar reference's.
#ifndef TESTS_COMPRESS_KERNELS_HOST_MEMORY_DEVICE_H_
#define TESTS_COMPRESS_KERNELS_HOST_MEMORY_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "compress_kernels/factory.h"
#include "ringpress/internal/device.h"

namespace ringpress::compress_kernels::testing {

/// Memory lives as long as the device.
class HostMemoryDevice : public Device {
 public:
  const char* name() const override { return "host"; }
  Result<void*> allocate(std::size_t bytes) override {
    constexpr std::size_t kAlignment = 256;
    memory_.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes + kAlignment));
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.back().get());
    return static_cast<void*>(memory_.back().get() + (kAlignment - address % kAlignment));
  }
  void free(void*) override {}
  Result<void*> allocate_host(std::size_t bytes) override { return allocate(bytes); }
  void free_host(void*) override {}
  Result<Stream> create_stream() override { return Stream(nullptr); }
  void destroy_stream(Stream) override {}
  Result<Event> create_event() override { return Event(nullptr); }
  Result<Event> create_timing_event() override { return Event(nullptr); }
  void destroy_event(Event) override {}
  Result<double> seconds_between(Event, Event) override { return -1.0; }
  Status record(Event, Stream) override { return Status::ok(); }
  Status wait(Stream, Event) override { return Status::ok(); }
  Result<std::uint64_t> capture(Stream) override { return std::uint64_t{0}; }
  Status keep_with_graph(Stream, std::shared_ptr<void>) override {
    return Status(Code::kInvalidUsage, "no graph is being made");
  }
  Status zero(Stream, void* memory, std::size_t bytes) override {
    std::memset(memory, 0, bytes);
    return Status::ok();
  }
  Status copy(Stream, void* to, const void* from, std::size_t bytes) override {
    std::memmove(to, from, bytes);
    return Status::ok();
  }
  Status synchronize(Stream) override { return Status::ok(); }
  Result<std::unique_ptr<DeviceCodec>> make_codec(const std::string&, DType, ReduceOp) override {
    return Status(Code::kUnsupported, "no kernels");
  }
  Result<std::unique_ptr<DeviceProjection>> make_projection(const std::string& specification,
                                                            DType dtype, ReduceOp op) override {
    static_cast<void>(force_isa("scalar"));
    auto projection = make_host_projection(specification, dtype, op);
    static_cast<void>(force_isa(""));
    return projection;
  }

  Status check_reachable(const void*) override { return Status::ok(); }
  Result<std::unique_ptr<DeviceModels>> make_models() override {
    return Status(Code::kUnsupported, "no kernels");
  }
  Result<std::unique_ptr<DeviceScales>> make_scales() override { return make_host_scales(); }

 private:
  std::vector<std::unique_ptr<std::byte[]>> memory_;
};

}  // namespace ringpress::compress_kernels::testing

#endif  // TESTS_COMPRESS_KERNELS_HOST_MEMORY_DEVICE_H_
