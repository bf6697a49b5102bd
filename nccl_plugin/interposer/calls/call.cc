#include "nccl_plugin/interposer/calls/call.h"

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

}  // namespace

TensorCall tensor_of(const Call& call, std::size_t count) {
  return {call.kind, count, static_cast<DType>(call.dtype), static_cast<ReduceOp>(call.op),
          call.tensor == nullptr ? call.send : call.tensor};
}

std::uint64_t capture_of(Device& device, const Call& call) {
  const Result<std::uint64_t> capture = device.capture(call.stream);
  return capture.is_ok() ? capture.value() : kUnknownCapture;
}

ncclResult_t run_exactly(const ringpressRealNccl& real, const Call& call) {
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
