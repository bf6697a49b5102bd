// A device that only takes notes, and an NCCL that does: who reads and writes what in which stream,
// and what streams and events put in order. Every two accesses to the same memory, one of them a
// write, that nothing puts in order are a race: what a device without queues, on which everything
// happens at once, would never show.
#ifndef TESTS_SUPPORT_NOTING_DEVICE_H_
#define TESTS_SUPPORT_NOTING_DEVICE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nccl_plugin/interposer/devices.h"
#include "nccl_plugin/preload/engine.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/projection.h"

namespace ringpress::nccl_plugin::interposer {

/// How far one has seen each stream.
using Clock = std::map<Stream, std::size_t>;

struct Access {
  const std::byte* begin;
  const std::byte* end;
  bool is_write;
  Stream stream;
  Clock seen;  // With this operation itself.
  std::string what;
};

struct Notes {
  std::map<Stream, Clock> streams;
  std::map<Event, Clock> events;
  std::vector<Access> accesses;

  void operation(Stream stream) { ++streams[stream][stream]; }
  void access(Stream stream, const void* memory, std::size_t bytes, bool is_write,
              const char* what) {
    const auto* begin = static_cast<const std::byte*>(memory);
    if (begin == nullptr || bytes == 0) return;
    accesses.push_back({begin, begin + bytes, is_write, stream, streams[stream], what});
  }
  static bool is_before(const Access& a, const Access& b) {
    const auto seen = b.seen.find(a.stream);
    return seen != b.seen.end() && seen->second >= a.seen.at(a.stream);
  }
  /// The first pair that may happen in either order, or empty.
  std::string race() const {
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      for (std::size_t j = i + 1; j < accesses.size(); ++j) {
        const Access &a = accesses[i], &b = accesses[j];
        if (!a.is_write && !b.is_write) continue;
        if (a.begin >= b.end || b.begin >= a.end) continue;
        if (!is_before(a, b)) return a.what + " and, later asked for, " + b.what;
      }
    }
    return "";
  }
};

/// Those that everything below adds to.
inline Notes* notes = nullptr;
inline constexpr std::size_t kLocalSize = 2;  // Ranks of a host.
inline constexpr std::size_t kScratchBytes = 512;

inline void note_agreed(Stream stream, const Codec& codec, const Agreed& agreed,
                        std::size_t count) {
  const Agreement* const agreement = codec.agreement();
  if (agreement == nullptr) return;
  notes->access(stream, agreed.tensor, agreement->tensor_bytes(), false, "the agreed is read");
  notes->access(stream, agreed.chunk, agreement->chunk_bytes(count), false, "the agreed is read");
}

class NotingAgreement final : public DeviceAgreement {
 public:
  explicit NotingAgreement(const Agreement& agreement) : agreement_(agreement) {}

  Status summarise_tensor(Stream stream, const SummariseArgs& args) override {
    notes->operation(stream);
    return note_summary(stream, args, 0, agreement_.tensor_bytes());
  }
  Status merge_tensor(Stream stream, std::span<const std::byte* const> from,
                      std::byte* into) override {
    return note_merge(stream, from, into, agreement_.tensor_bytes());
  }
  Status summarise(Stream stream, int round, std::span<const SummariseArgs> shards) override {
    notes->operation(stream);
    for (const SummariseArgs& args : shards) {
      static_cast<void>(note_summary(stream, args, agreement_.round_offset(round, args.count),
                                     agreement_.round_bytes(round, args.count)));
    }
    return Status::ok();
  }
  Status merge(Stream stream, int round, std::size_t count, std::span<const std::byte* const> from,
               std::byte* into) override {
    return note_merge(stream, from, into, agreement_.round_bytes(round, count));
  }

 private:
  /// `known`: bytes of the rounds before, which are read.
  static Status note_summary(Stream stream, const SummariseArgs& args, std::size_t known,
                             std::size_t bytes) {
    notes->access(stream, args.values, args.count * 4, false, "summarise reads values");
    notes->access(stream, args.residual, args.count * 4, false, "summarise reads the residual");
    notes->access(stream, args.agreed.chunk, known, false, "summarise reads the agreed");
    notes->access(stream, args.summary, bytes, true, "summarise writes");
    return Status::ok();
  }
  static Status note_merge(Stream stream, std::span<const std::byte* const> from, std::byte* into,
                           std::size_t bytes) {
    notes->operation(stream);
    for (const std::byte* summary : from) {
      notes->access(stream, summary, bytes, false, "merge reads");
    }
    notes->access(stream, into, bytes, true, "merge writes");
    return Status::ok();
  }
  const Agreement& agreement_;
};

class NotingCodec final : public DeviceCodec {
 public:
  explicit NotingCodec(std::unique_ptr<DeviceCodec> codec) : codec_(std::move(codec)) {
    if (this->codec().agreement() != nullptr) agreement_.emplace(*this->codec().agreement());
  }
  const Codec& codec() const override { return codec_->codec(); }
  DeviceAgreement* agreement() override { return agreement_ ? &*agreement_ : nullptr; }
  Status supports(Contributions, std::size_t) const override { return Status::ok(); }

  std::size_t scratch_bytes(std::size_t, std::size_t) const override { return kScratchBytes; }
  Status encode(Stream stream, std::span<const EncodeArgs> shards, std::byte* scratch) override {
    notes->operation(stream);
    notes->access(stream, scratch, kScratchBytes, true, "encode writes scratch");
    for (const EncodeArgs& args : shards) {
      notes->access(stream, args.values, args.count * 4, false, "encode reads values");
      notes->access(stream, args.residual, args.count * 4, true, "encode writes its residual");
      notes->access(stream, args.scales, args.count, false, "encode reads codes");
      notes->access(stream, args.wire, wire(args.count, args.form), true, "encode writes");
      note_agreed(stream, codec(), args.agreed, args.count);
    }
    return Status::ok();
  }
  Status decode_add_encode(Stream stream, const DecodeAddEncodeArgs& args,
                           std::byte* scratch) override {
    notes->operation(stream);
    notes->access(stream, scratch, kScratchBytes, true, "reduce writes scratch");
    for (std::size_t i = 0; i < args.wires.size(); ++i) {
      notes->access(stream, args.wires[i], args.wire_sizes[i], false, "reduce reads");
    }
    notes->access(stream, args.values, args.count * 4, false, "reduce reads values");
    notes->access(stream, args.residual, args.count * 4, true, "reduce writes its residual");
    notes->access(stream, args.decoded, args.count * 4, true, "reduce writes values");
    notes->access(stream, args.wire, wire(args.count, args.form), true, "reduce writes");
    note_agreed(stream, codec(), args.agreed, args.count);
    return Status::ok();
  }
  Status decode(Stream stream, std::span<const DecodeArgs> shards, std::byte* scratch) override {
    notes->operation(stream);
    notes->access(stream, scratch, kScratchBytes, true, "decode writes scratch");
    for (const DecodeArgs& args : shards) {
      notes->access(stream, args.wire, args.wire_size, false, "decode reads");
      notes->access(stream, args.values, args.count * 4, true, "decode writes values");
      note_agreed(stream, codec(), args.agreed, args.count);
    }
    return Status::ok();
  }

 private:
  std::size_t wire(std::size_t count, Contributions form) const {
    return codec().wire_bytes(count, form);
  }
  std::unique_ptr<DeviceCodec> codec_;
  std::optional<NotingAgreement> agreement_;
};

class NotingProjection final : public DeviceProjection {
 public:
  explicit NotingProjection(std::unique_ptr<DeviceProjection> projection)
      : projection_(std::move(projection)) {}

  const Codec& codec() const override { return projection_->codec(); }
  std::size_t scratch_count(const TensorShape&) const override { return 100; }

  Status offer_state(Stream stream, const DeviceProjectArgs& args) override {
    notes->operation(stream);
    notes->access(stream, args.state_call, sizeof *args.state_call, false, "offer reads state");
    notes->access(stream, args.tags, 2 * sizeof *args.tags, true, "offer writes tags");
    return Status::ok();
  }
  Status project(Stream stream, int round, const DeviceProjectArgs& args) override {
    const auto number = static_cast<std::size_t>(round);
    notes->operation(stream);
    read_tensor(stream, args);
    notes->access(stream, args.scratch, 4 * scratch_count({}), true, "project writes scratch");
    notes->access(stream, args.call.own[number], bytes_of(round, args), true, "project writes own");
    if (round == 0) return Status::ok();
    notes->access(stream, args.call.summed[0], bytes_of(0, args), true, "project changes sums");
    return Status::ok();
  }
  Status finish(Stream stream, const DeviceProjectArgs& args) override {
    const std::size_t count = args.call.shape.count;
    notes->operation(stream);
    read_tensor(stream, args);
    for (int round = 0; round < codec().projection()->rounds(); ++round) {
      const auto number = static_cast<std::size_t>(round);
      notes->access(stream, args.call.summed[number], bytes_of(round, args), false, "finish reads");
      notes->access(stream, args.call.dropped[number], bytes_of(round, args), false,
                    "finish reads what was dropped");
    }
    notes->access(stream, args.call.residual, count * 4, true, "finish writes residual");
    notes->access(stream, args.call.result, count * 4, true, "finish writes result");
    notes->access(stream, args.state_call, sizeof *args.state_call, true, "finish writes state");
    return Status::ok();
  }

 private:
  std::size_t bytes_of(int round, const DeviceProjectArgs& args) const {
    return 4 * codec().projection()->projected_count(round, args.call.shape);
  }
  static void read_tensor(Stream stream, const DeviceProjectArgs& args) {
    const std::size_t bytes = args.call.shape.count * 4;
    notes->access(stream, args.call.values, bytes, false, "projection reads values");
    notes->access(stream, args.call.residual, bytes, false, "projection reads residual");
    notes->access(stream, args.tags, 2 * sizeof *args.tags, false, "projection reads tags");
  }
  std::unique_ptr<DeviceProjection> projection_;
};

/// Of gradients that are put off alone. What they do is done, too.
class NotingModels final : public DeviceModels {
 public:
  explicit NotingModels(std::unique_ptr<DeviceModels> models) : models_(std::move(models)) {}

  Status measure_lengths(Stream stream, const GradientSpan& gradient, const float* sum,
                         LengthPart* parts) override {
    note_gradient(stream, gradient, sum);
    notes->access(stream, parts, kChangeParts * sizeof *parts, true, "measure writes parts");
    return models_->measure_lengths(stream, gradient, sum, parts);
  }
  Status add_values(Stream stream, const GradientSpan& gradient, float* sum) override {
    note_gradient(stream, gradient, sum);
    notes->access(stream, sum, gradient.count * 4, true, "the sum is written");
    return models_->add_values(stream, gradient, sum);
  }
  Status write_total(Stream stream, const GradientSpan& gradient, const float* sum,
                     void* to) override {
    note_gradient(stream, gradient, sum);
    notes->access(stream, to, gradient.count * 4, true, "the total is written");
    return models_->write_total(stream, gradient, sum, to);
  }

  Status measure_change(Stream, const ModelSpan&, const void*, ChangePart*) override {
    return not_noted();
  }
  Status average(Stream, const ModelSpan&, const void*) override { return not_noted(); }
  Status take_difference(Stream, const ModelSpan&, const float*, float*) override {
    return not_noted();
  }
  Status add_half_difference(Stream, const ModelSpan&, const float*, const float*,
                             LostMark) override {
    return not_noted();
  }
  Status widen(Stream, const ModelSpan&, double*) override { return not_noted(); }
  Status take_mean(Stream, const double*, double, const ModelSpan&) override { return not_noted(); }

 private:
  static Status not_noted() { return {Code::kUnsupported, "not taken note of"}; }
  static void note_gradient(Stream stream, const GradientSpan& gradient, const float* sum) {
    notes->operation(stream);
    notes->access(stream, gradient.values, gradient.count * 4, false, "the gradient is read");
    notes->access(stream, sum, gradient.count * 4, false, "the sum is read");
  }
  std::unique_ptr<DeviceModels> models_;
};

class NotingScales final : public DeviceScales {
 public:
  Status divide(Stream, DType, std::span<const DividedPart>) override { return Status::ok(); }
  Status multiply(Stream, DType, std::span<const MultipliedPart>) override { return Status::ok(); }
  Status measure(Stream stream, const KeptScales& tensor, const GradientSpan& result, std::uint32_t,
                 ScaleErrorPart* parts) override {
    notes->operation(stream);
    notes->access(stream, result.values, result.count * 4, false, "measure reads the result");
    notes->access(stream, tensor.squares, tensor.count * 4, false, "measure reads squares");
    notes->access(stream, tensor.agreed, sizeof *tensor.agreed, false, "measure reads a word");
    notes->access(stream, tensor.use, sizeof *tensor.use, true, "measure writes a word");
    notes->access(stream, parts, kScaleErrorParts * sizeof *parts, true, "measure writes parts");
    return Status::ok();
  }
  Status learn(Stream stream, const KeptScales& tensor, const GradientSpan& result,
               float) override {
    notes->operation(stream);
    notes->access(stream, result.values, result.count * 4, false, "learn reads the result");
    return find(stream, tensor);
  }
  Status find(Stream stream, const KeptScales& tensor) override {
    notes->operation(stream);
    notes->access(stream, tensor.use, sizeof *tensor.use, false, "find reads a word");
    notes->access(stream, tensor.squares, tensor.count * 4, true, "find writes squares");
    notes->access(stream, tensor.codes, tensor.count, true, "find writes codes");
    return Status::ok();
  }
};

class NotingDevice final : public Device {
 public:
  /// The wait with this number is left out: the test must notice.
  explicit NotingDevice(std::size_t forgotten_wait = 0) : forgotten_(forgotten_wait) {}

  const char* name() const override { return "notes"; }
  Result<void*> allocate(std::size_t bytes) override { return host_->allocate(bytes); }
  void free(void* memory) override { host_->free(memory); }
  Result<void*> allocate_host(std::size_t bytes) override { return host_->allocate_host(bytes); }
  void free_host(void* memory) override { host_->free_host(memory); }
  Result<Stream> create_stream() override { return Stream(&names_[names_used_++]); }
  void destroy_stream(Stream) override {}
  Result<Event> create_event() override { return Event(&names_[names_used_++]); }
  Result<Event> create_timing_event() override { return create_event(); }
  void destroy_event(Event) override {}
  Result<double> seconds_between(Event, Event) override { return -1.0; }
  Status record(Event event, Stream stream) override {
    notes->events[event] = notes->streams[stream];
    return Status::ok();
  }
  Status wait(Stream stream, Event event) override {
    if (++waits == forgotten_) return Status::ok();
    for (const auto& [other, seen] : notes->events[event]) {
      auto& mine = notes->streams[stream][other];
      mine = std::max(mine, seen);
    }
    return Status::ok();
  }
  Result<std::uint64_t> capture(Stream) override { return std::uint64_t{0}; }
  Status keep_with_graph(Stream, std::shared_ptr<void>) override { return Status::ok(); }
  Status zero(Stream stream, void* memory, std::size_t bytes) override {
    notes->operation(stream);
    notes->access(stream, memory, bytes, true, "zero");
    return does_copy ? host_->zero(stream, memory, bytes) : Status::ok();
  }
  Status copy(Stream stream, void* to, const void* from, std::size_t bytes) override {
    if (!does_copy) return Status::ok();
    notes->operation(stream);
    notes->access(stream, from, bytes, false, "copy reads");
    notes->access(stream, to, bytes, true, "copy writes");
    return host_->copy(stream, to, from, bytes);
  }
  Status synchronize(Stream) override { return Status::ok(); }
  Result<std::unique_ptr<DeviceCodec>> make_codec(const std::string& specification, DType dtype,
                                                  ReduceOp op) override {
    RINGPRESS_ASSIGN_OR_RETURN(auto codec, host_->make_codec(specification, dtype, op));
    return std::unique_ptr<DeviceCodec>(std::make_unique<NotingCodec>(std::move(codec)));
  }

  Result<std::unique_ptr<DeviceProjection>> make_projection(const std::string& specification,
                                                            DType dtype, ReduceOp op) override {
    RINGPRESS_ASSIGN_OR_RETURN(auto projection, host_->make_projection(specification, dtype, op));
    return std::unique_ptr<DeviceProjection>(
        std::make_unique<NotingProjection>(std::move(projection)));
  }
  Result<std::unique_ptr<DeviceModels>> make_models() override {
    RINGPRESS_ASSIGN_OR_RETURN(auto models, host_->make_models());
    return std::unique_ptr<DeviceModels>(std::make_unique<NotingModels>(std::move(models)));
  }
  Result<std::unique_ptr<DeviceScales>> make_scales() override {
    return std::unique_ptr<DeviceScales>(std::make_unique<NotingScales>());
  }
  Status check_reachable(const void* memory) override { return host_->check_reachable(memory); }

  std::size_t waits = 0;
  bool does_copy = false;  // And zeroes, beside the notes.

 private:
  const std::size_t forgotten_;
  std::unique_ptr<Device> host_ = make_host_device();
  char names_[64];
  std::size_t names_used_ = 0;
};

inline ncclResult_t note_send(const void* memory, size_t bytes, ncclDataType_t, int, ncclComm_t,
                              cudaStream_t stream) {
  notes->access(stream, memory, bytes, false, "send");
  return ncclSuccess;
}
inline ncclResult_t note_receive(void* memory, size_t bytes, ncclDataType_t, int, ncclComm_t,
                                 cudaStream_t stream) {
  notes->access(stream, memory, bytes, true, "receive");
  return ncclSuccess;
}

inline ncclResult_t note_scatter(const void* send, void* receive, size_t count, ncclDataType_t,
                                 ncclRedOp_t, ncclComm_t, cudaStream_t stream) {
  notes->access(stream, send, 4 * count * kLocalSize, false, "exact scatter reads");
  notes->access(stream, receive, 4 * count, true, "exact scatter writes");
  return ncclSuccess;
}
inline ncclResult_t note_gather(const void* send, void* receive, size_t count, ncclDataType_t,
                                ncclComm_t, cudaStream_t stream) {
  notes->access(stream, send, 4 * count, false, "exact gather reads");
  notes->access(stream, receive, 4 * count * kLocalSize, true, "exact gather writes");
  return ncclSuccess;
}
inline ncclResult_t note_all_reduce(const void* send, void* receive, size_t count, ncclDataType_t,
                                    ncclRedOp_t, ncclComm_t, cudaStream_t stream) {
  notes->access(stream, send, 4 * count, false, "exact all-reduce reads");
  notes->access(stream, receive, 4 * count, true, "exact all-reduce writes");
  return ncclSuccess;
}

/// Only what a call in streams asks for.
inline ringpressRealNccl noting_nccl() {
  ringpressRealNccl real{};
  real.Send = note_send;
  real.Recv = note_receive;
  real.ReduceScatter = note_scatter;
  real.AllGather = note_gather;
  real.AllReduce = note_all_reduce;
  return real;
}

}  // namespace ringpress::nccl_plugin::interposer

#endif  // TESTS_SUPPORT_NOTING_DEVICE_H_
