// Host memory as a device without queues: what is asked for is done at once, so every event has
// happened when it is recorded.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "compress_kernels/factory.h"
#include "nccl_plugin/interposer/devices.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

constexpr std::size_t kAlignment = 256;

class HostCodec final : public DeviceCodec {
 public:
  explicit HostCodec(std::unique_ptr<Codec> codec) : codec_(std::move(codec)) {
    if (codec_->agreement() == nullptr) return;
    agreement_ = compress_kernels::make_host_agreement(*codec_->agreement());
  }

  const Codec& codec() const override { return *codec_; }
  DeviceAgreement* agreement() override { return agreement_.get(); }
  Status supports(Contributions, std::size_t) const override { return Status::ok(); }
  Status encode(Stream, std::span<const EncodeArgs> shards, std::byte*) override {
    for (const EncodeArgs& shard : shards) codec_->encode(shard);
    return Status::ok();
  }
  Status decode_add_encode(Stream, const DecodeAddEncodeArgs& args, std::byte*) override {
    codec_->decode_add_encode(args);
    return Status::ok();
  }
  Status decode(Stream, std::span<const DecodeArgs> shards, std::byte*) override {
    for (const DecodeArgs& shard : shards) codec_->decode(shard);
    return Status::ok();
  }

 private:
  const std::unique_ptr<Codec> codec_;
  std::unique_ptr<DeviceAgreement> agreement_;
};

class HostModels final : public DeviceModels {
 public:
  Status measure_change(Stream, const ModelSpan& model, const void* reference,
                        ChangePart* parts) override {
    const compress_kernels::Change change =
        compress_kernels::measure_change(model.values, reference, model.count, model.dtype);
    std::fill_n(parts, kChangeParts, ChangePart());
    parts[0] = {change.difference_squares, change.reference_squares};
    return Status::ok();
  }
  Status average(Stream, const ModelSpan& model, const void* theirs) override {
    compress_kernels::average_models(model.values, theirs, model.count, model.dtype);
    return Status::ok();
  }
  Status take_difference(Stream, const ModelSpan& model, const float* base,
                         float* difference) override {
    compress_kernels::take_difference(model.values, base, model.count, model.dtype, difference);
    return Status::ok();
  }
  Status add_half_difference(Stream, const ModelSpan& model, const float* own, const float* theirs,
                             LostMark lost) override {
    if (!compress_kernels::add_half_difference(model.values, own, theirs, model.count,
                                               model.dtype)) {
      *lost.word = std::max(*lost.word, lost.mark);
    }
    return Status::ok();
  }
  Status widen(Stream, const ModelSpan& model, double* wide) override {
    compress_kernels::widen_values(model.values, model.count, model.dtype, wide);
    return Status::ok();
  }
  Status take_mean(Stream, const double* sums, double divisor, const ModelSpan& model) override {
    compress_kernels::take_mean(sums, divisor, model.count, model.dtype, model.values);
    return Status::ok();
  }

  Status measure_lengths(Stream, const GradientSpan& gradient, const float* sum,
                         LengthPart* parts) override {
    std::fill_n(parts, kChangeParts, LengthPart());
    parts[0] =
        compress_kernels::measure_lengths(gradient.values, sum, gradient.count, gradient.dtype);
    return Status::ok();
  }
  Status add_values(Stream, const GradientSpan& gradient, float* sum) override {
    compress_kernels::add_values(gradient.values, gradient.count, gradient.dtype, sum);
    return Status::ok();
  }
  Status write_total(Stream, const GradientSpan& gradient, const float* sum, void* to) override {
    compress_kernels::write_total(gradient.values, sum, gradient.count, gradient.dtype, to);
    return Status::ok();
  }
};

/// Whether all ranks can agree on everything in a stream.
bool is_shared(const Agreement* agreement) {
  return agreement == nullptr || agreement->tensor_bytes() == 0 || agreement->tensor_is_shared();
}

class HostDevice final : public Device {
 public:
  const char* name() const override { return "host"; }

  Result<void*> allocate(std::size_t bytes) override {
    const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    void* memory = std::aligned_alloc(kAlignment, rounded == 0 ? kAlignment : rounded);
    if (memory == nullptr) return Status(Code::kSystem, "out of memory");
    return memory;
  }
  void free(void* memory) override { std::free(memory); }

  Result<void*> allocate_host(std::size_t bytes) override { return allocate(bytes); }
  void free_host(void* memory) override { free(memory); }

  Result<Stream> create_stream() override { return Stream(this); }
  void destroy_stream(Stream) override {}
  Result<Event> create_event() override { return Event(this); }
  Result<Event> create_timing_event() override { return Event(new Clock::time_point()); }
  void destroy_event(Event event) override {
    if (is_timing(event)) delete static_cast<Clock::time_point*>(event);
  }
  Result<double> seconds_between(Event begin, Event end) override {
    const std::chrono::duration<double> taken =
        *static_cast<Clock::time_point*>(end) - *static_cast<Clock::time_point*>(begin);
    return taken.count();
  }
  Status record(Event event, Stream) override {
    if (is_timing(event)) *static_cast<Clock::time_point*>(event) = Clock::now();
    return Status::ok();
  }
  Status wait(Stream, Event) override { return Status::ok(); }
  Result<std::uint64_t> capture(Stream) override { return std::uint64_t{0}; }
  Status keep_with_graph(Stream, std::shared_ptr<void>) override {
    return {Code::kUnsupported, "host memory has no graphs"};
  }

  Status zero(Stream, void* memory, std::size_t bytes) override {
    std::memset(memory, 0, bytes);
    return Status::ok();
  }
  Status copy(Stream, void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
    return Status::ok();
  }
  Status synchronize(Stream) override { return Status::ok(); }

  Result<std::unique_ptr<DeviceCodec>> make_codec(const std::string& specification, DType dtype,
                                                  ReduceOp op) override {
    RINGPRESS_ASSIGN_OR_RETURN(auto codec, compress_kernels::make_codec(specification, dtype, op));
    if (!codec->traits().fixed_size || !is_shared(codec->agreement()) ||
        codec->projection() != nullptr) {
      return Status(Code::kUnsupported, specification + " cannot be used in a stream");
    }
    return std::unique_ptr<DeviceCodec>(std::make_unique<HostCodec>(std::move(codec)));
  }
  Result<std::unique_ptr<DeviceProjection>> make_projection(const std::string& specification,
                                                            DType dtype, ReduceOp op) override {
    return compress_kernels::make_host_projection(specification, dtype, op);
  }

  Result<std::unique_ptr<DeviceModels>> make_models() override {
    return std::unique_ptr<DeviceModels>(std::make_unique<HostModels>());
  }
  Result<std::unique_ptr<DeviceScales>> make_scales() override {
    return compress_kernels::make_host_scales();
  }
  Status check_reachable(const void*) override { return Status::ok(); }

 private:
  using Clock = std::chrono::steady_clock;
  bool is_timing(Event event) const { return event != this; }
};

}  // namespace

std::unique_ptr<Device> make_host_device() {
  return std::make_unique<HostDevice>();
}

}  // namespace ringpress::nccl_plugin::interposer
