#include "nccl_plugin/interposer/calls/call.h"

#include <cstddef>

#include "nccl_plugin/session/calls/option_list.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

/// A call that the real library makes, in the order of ours.
class ExactCall final : public StreamCall {
 public:
  ExactCall(const ringpressRealNccl& real, const Call& call) : real_(real), call_(call) {}

  std::size_t steps() const override { return 1; }
  bool exchanges(std::size_t) const override { return true; }
  Status prepare(std::size_t) override { return Status::ok(); }
  ncclResult_t exchange(std::size_t) override { return run_exactly(real_, call_); }
  Status conclude(std::size_t) override { return Status::ok(); }
  std::uint64_t sent_bytes() const override { return 0; }
  std::uint64_t raw_bytes() const override { return 0; }

 private:
  const ringpressRealNccl& real_;
  const Call call_;
};

/// By the functions that came with configurations of calls.
ncclResult_t run_as_asked(const ringpressRealNccl& real, const Call& call) {
  if (call.kind == CollectiveKind::kAllGather) {
    return real.AllGatherConfig(call.send, call.receive, call.count, call.dtype, call.comm,
                                call.stream, call.config);
  }
  const auto function =
      call.kind == CollectiveKind::kReduceScatter ? real.ReduceScatterConfig : real.AllReduceConfig;
  return function(call.send, call.receive, call.count, call.dtype, call.op, call.comm, call.stream,
                  call.config);
}

}  // namespace

bool is_configuration(const ncclCollConfig_t* config) {
  constexpr std::size_t kSmallest = offsetof(ncclCollConfig_t, ext) + sizeof(config->ext);
  return config->magic == NCCL_API_MAGIC && config->size >= kSmallest;
}

Result<CallOptions> call_options_of(const ncclCollConfig_t& config) {
  constexpr std::size_t kTagEnd =
      offsetof(ncclCollConfig_t, userProfilerTag) + sizeof(config.userProfilerTag);
  CallOptions options;
  RINGPRESS_RETURN_IF_ERROR(read_options(config.ext, &options));
  if (config.size >= kTagEnd) options.tag = config.userProfilerTag;
  return options;
}

TensorCall tensor_of(const Call& call, std::size_t count) {
  return {call.kind, count, static_cast<DType>(call.dtype), static_cast<ReduceOp>(call.op),
          call.tensor == nullptr ? call.send : call.tensor};
}

std::uint64_t capture_of(Device& device, const Call& call) {
  const Result<std::uint64_t> capture = device.capture(call.stream);
  return capture.is_ok() ? capture.value() : kUnknownCapture;
}

std::uint64_t find_capture(Device& device, PlannedCall* planned) {
  if (!planned->capture) planned->capture = capture_of(device, planned->call);
  return *planned->capture;
}

ncclResult_t run_exactly(const ringpressRealNccl& real, const Call& call) {
  if (call.config != nullptr) return run_as_asked(real, call);
  if (call.kind == CollectiveKind::kAllGather) {
    return real.AllGather(call.send, call.receive, call.count, call.dtype, call.comm, call.stream);
  }
  const auto function =
      call.kind == CollectiveKind::kReduceScatter ? real.ReduceScatter : real.AllReduce;
  return function(call.send, call.receive, call.count, call.dtype, call.op, call.comm, call.stream);
}

StreamCallPointer make_exact_call(const ringpressRealNccl& real, const Call& call) {
  return make_stream_call<ExactCall>(real, call);
}

}  // namespace ringpress::nccl_plugin::interposer
