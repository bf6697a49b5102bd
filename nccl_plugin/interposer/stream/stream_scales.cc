#include "nccl_plugin/interposer/stream/stream_scales.h"

#include <utility>

#include "nccl_plugin/session/calls/scale_schedule.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

// What is kept of a tensor is one allocation: two words, squares, codes.
constexpr std::size_t kAlignment = 256;
std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

HostWords::~HostWords() {
  for (void* block : blocks_) device_.free_host(block);
}

std::uint64_t* HostWords::take() {
  if (free_.empty()) {
    blocks_.reserve(blocks_.size() + 1);
    free_.reserve((blocks_.size() + 1) * kWordsAtOnce);  // give_back() never fails.
    Result<void*> memory = device_.allocate_host(kWordsAtOnce * sizeof(std::uint64_t));
    if (!memory.is_ok()) return nullptr;
    blocks_.push_back(memory.value());
    auto* const words = static_cast<std::uint64_t*>(memory.value());
    for (std::size_t i = 0; i < kWordsAtOnce; ++i) free_.push_back(words + i);
  }
  std::uint64_t* const word = free_.back();
  free_.pop_back();
  *word = 0;
  return word;
}

/// A call, and what comes behind it in the caller's stream.
class StreamScales::LearningCall final : public StreamCall {
 public:
  LearningCall(StreamScales& scales, Tensor& tensor, const StreamCallParts& parts,
               const void* result, StreamCallPointer call)
      : scales_(scales),
        tensor_(tensor),
        parts_(parts),
        result_(result),
        call_(std::move(call)),
        agrees_(tensor.calls + 1 == kFirstMeasuredCall) {}

  // What the ranks tell each other of their memory has a step of its own.
  std::size_t steps() const override { return call_->steps() + (agrees_ ? 1 : 0); }
  bool exchanges(std::size_t step) const override {
    return is_agreement(step) || call_->exchanges(step);
  }
  Status prepare(std::size_t step) override {
    Status status;
    if (is_agreement(step)) {
      word_ = scales_.offer(tensor_, parts_.stream, &status);
      return status;
    }
    RINGPRESS_RETURN_IF_ERROR(call_->prepare(step));
    return step + 1 == steps() && !exchanges(step) ? learn() : Status::ok();
  }
  ncclResult_t exchange(std::size_t step) override {
    if (!is_agreement(step)) return call_->exchange(step);
    return parts_.real->AllReduce(word_, word_, 1, ncclUint64, ncclMin, parts_.comm,
                                  static_cast<cudaStream_t>(parts_.stream));
  }
  Status conclude(std::size_t step) override {
    if (!is_agreement(step)) RINGPRESS_RETURN_IF_ERROR(call_->conclude(step));
    return step + 1 == steps() ? learn() : Status::ok();
  }
  std::uint64_t sent_bytes() const override { return call_->sent_bytes(); }
  std::uint64_t raw_bytes() const override { return call_->raw_bytes(); }

 private:
  bool is_agreement(std::size_t step) const { return agrees_ && step == call_->steps(); }
  /// The end of the call is that of what is learnt from it.
  Status learn() {
    Lane& lane = *parts_.lane;
    RINGPRESS_RETURN_IF_ERROR(scales_.learn(&tensor_, parts_.stream, result_, lane.scratch()));
    return parts_.device->record(lane.events().done, parts_.stream);
  }

  StreamScales& scales_;
  Tensor& tensor_;
  const StreamCallParts parts_;
  const void* const result_;
  const StreamCallPointer call_;
  const bool agrees_;
  std::uint64_t* word_ = nullptr;
};

StreamScales::StreamScales(Device& device, std::size_t limit_bytes,
                           std::shared_ptr<CallSequence> sequence)
    : device_(device), sequence_(std::move(sequence)), words_(device), tensors_(limit_bytes) {}

StreamScales::~StreamScales() {
  if (spare_ != nullptr) device_.free(spare_);
}

Result<std::unique_ptr<StreamScales>> StreamScales::make(Device& device, std::size_t limit_bytes,
                                                         std::shared_ptr<CallSequence> sequence) {
  std::unique_ptr<StreamScales> made(new StreamScales(device, limit_bytes, std::move(sequence)));
  RINGPRESS_ASSIGN_OR_RETURN(made->kernels_, device.make_scales());
  RINGPRESS_ASSIGN_OR_RETURN(void* const spare, device.allocate(sizeof(std::uint64_t)));
  made->spare_ = static_cast<std::uint64_t*>(spare);
  made->one_ = made->words_.take();
  if (made->one_ == nullptr) return Status(Code::kSystem, "no memory that streams can read");
  *made->one_ = 1;
  return made;
}

namespace {

/// Memory and events for a measurement.
struct CostTrial {
  // As many as slices have at most (comm/codecs.cc).
  static constexpr std::size_t kCount = 2 * 1024 * 1024;

  explicit CostTrial(Device& to_measure) : device(to_measure) {}
  ~CostTrial() {
    if (memory != nullptr) device.free(memory);
    if (begin != nullptr) device.destroy_event(begin);
    if (end != nullptr) device.destroy_event(end);
  }
  CostTrial(const CostTrial&) = delete;
  CostTrial& operator=(const CostTrial&) = delete;

  Status prepare(Stream stream) {
    const std::size_t bytes = 4 * kCount * sizeof(float) + kCount;
    RINGPRESS_ASSIGN_OR_RETURN(memory, device.allocate(bytes));
    RINGPRESS_ASSIGN_OR_RETURN(begin, device.create_timing_event());
    RINGPRESS_ASSIGN_OR_RETURN(end, device.create_timing_event());
    return device.zero(stream, memory, bytes);
  }
  /// The second time counts.
  Result<double> seconds(Stream stream, DeviceScales& kernels) {
    auto* const floats = static_cast<float*>(memory);
    const auto* const codes = reinterpret_cast<const std::uint8_t*>(floats + 4 * kCount);
    const DividedPart in{floats, floats + kCount,     codes,
                         kCount, floats + 2 * kCount, floats + 3 * kCount};
    const MultipliedPart out{in.scaled, in.scaled_residual, codes, kCount, floats, floats + kCount};
    for (int i = 0; i < 2; ++i) {
      RINGPRESS_RETURN_IF_ERROR(device.record(begin, stream));
      RINGPRESS_RETURN_IF_ERROR(kernels.divide(stream, DType::kFloat32, {&in, 1}));
      RINGPRESS_RETURN_IF_ERROR(kernels.multiply(stream, DType::kFloat32, {&out, 1}));
      RINGPRESS_RETURN_IF_ERROR(device.record(end, stream));
    }
    RINGPRESS_RETURN_IF_ERROR(device.synchronize(stream));
    return device.seconds_between(begin, end);
  }

  Device& device;
  void* memory = nullptr;
  Event begin = nullptr, end = nullptr;
};

}  // namespace

std::optional<double> StreamScales::measure_cost(Stream stream) {
  CostTrial trial(device_);
  if (!trial.prepare(stream).is_ok()) return std::nullopt;
  const Result<double> seconds = trial.seconds(stream, *kernels_);
  if (!seconds.is_ok() || seconds.value() < 0) return std::nullopt;
  return seconds.value() / static_cast<double>(CostTrial::kCount);
}

Result<StreamScales::Chosen> StreamScales::choose(const TensorCall& call, std::size_t count,
                                                  std::size_t block, Stream stream) {
  const CallPlaces places = sequence_->ask(CallUser::kScales, call);
  tensors_.forget(places);
  if (!places.by_shape || block == 0 || count == 0) return Chosen{};
  Tensor* const tensor =
      tensors_.at(places, bytes_of(count), [&] { return make_tensor(call.dtype, count, stream); });
  // Another count: calls of this place were made in another way before.
  if (tensor == nullptr || tensor->kept.count != count) return Chosen{};
  const bool has_memory = tensor->kept.squares != nullptr;
  if (std::exchange(tensor->kept.block, block) != block && tensor->calls > 0 && has_memory) {
    RINGPRESS_RETURN_IF_ERROR(kernels_->find(stream, tensor->kept));
  }
  return Chosen{look_at(tensor) ? tensor->kept.codes : nullptr, tensor};
}

/// Without memory where there is none.
StreamScales::Tensor StreamScales::make_tensor(DType dtype, std::size_t count, Stream stream) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.kept.count = count;
  const std::size_t squares = aligned(count * sizeof(float));
  Result<void*> memory = device_.allocate(kAlignment + squares + count);
  tensor.seen = {words_.take(), GiveBack{&words_}};
  if (!memory.is_ok()) return tensor;
  tensor.memory = {static_cast<std::byte*>(memory.value()), FreeOnDevice{&device_}};
  if (tensor.seen == nullptr) return tensor;
  std::byte* const begin = tensor.memory.get();
  tensor.kept.use = reinterpret_cast<std::uint64_t*>(begin);
  tensor.agreed = tensor.kept.use + 1;
  tensor.kept.agreed = tensor.agreed;
  tensor.kept.squares = reinterpret_cast<float*>(begin + kAlignment);
  tensor.kept.codes = reinterpret_cast<std::uint8_t*>(begin + kAlignment + squares);
  if (!clear(&tensor, stream).is_ok()) tensor.kept.squares = nullptr;
  return tensor;
}

Status StreamScales::clear(Tensor* tensor, Stream stream) {
  const std::size_t bytes =
      kAlignment + aligned(tensor->kept.count * sizeof(float)) + tensor->kept.count;
  RINGPRESS_RETURN_IF_ERROR(device_.zero(stream, tensor->memory.get(), bytes));
  return device_.copy(stream, tensor->agreed, one_, sizeof *one_);
}

/// Counts the call that comes by what the device has told. False: all its codes are known to be 0.
bool StreamScales::look_at(Tensor* tensor) {
  if (tensor->kept.squares == nullptr) return false;
  const ScaleUse use = ScaleUse::of(*static_cast<volatile std::uint64_t*>(tensor->seen.get()));
  const std::uint64_t since = use.is_helped ? tensor->calls + 1 - use.calls : 0;
  const std::uint64_t scaled_calls = use.scaled_calls + since;
  scaled_calls_ += scaled_calls - tensor->scaled_calls;  // (Modulo 2^64.)
  tensor->scaled_calls = scaled_calls;
  return use.is_helped || use.calls != tensor->measured_call;
}

StreamCallPointer StreamScales::learn_from(const StreamCallParts& parts, const Chosen& chosen,
                                           const void* result, StreamCallPointer call) {
  if (chosen.tensor == nullptr) return call;
  return make_stream_call<LearningCall>(*this, *chosen.tensor, parts, result, std::move(call));
}

/// The word of which the ranks take the least: 1 if there is memory.
std::uint64_t* StreamScales::offer(const Tensor& tensor, Stream stream, Status* status) {
  if (tensor.kept.squares != nullptr) return tensor.agreed;
  *status = device_.zero(stream, spare_, sizeof *spare_);
  return spare_;
}

Status StreamScales::learn(Tensor* tensor, Stream stream, const void* result, std::byte* scratch) {
  const std::uint32_t calls = ++tensor->calls;
  const GradientSpan values{result, tensor->kept.count, tensor->dtype};
  const bool is_measured = is_measured_for_scales(calls);
  if (is_measured) tensor->measured_call = calls;
  if (tensor->kept.squares == nullptr) return Status::ok();
  if (is_measured) {
    auto* const parts = reinterpret_cast<ScaleErrorPart*>(scratch);
    RINGPRESS_RETURN_IF_ERROR(kernels_->measure(stream, tensor->kept, values, calls, parts));
    RINGPRESS_RETURN_IF_ERROR(
        device_.copy(stream, tensor->seen.get(), tensor->kept.use, sizeof(std::uint64_t)));
  }
  if (!is_learnt_for_scales(calls)) return Status::ok();
  return kernels_->learn(stream, tensor->kept, values, weight_for_scales(calls));
}

}  // namespace ringpress::nccl_plugin::interposer
