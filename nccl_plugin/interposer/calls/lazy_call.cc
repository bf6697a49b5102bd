// A call that may be put off: the votes on it are a step of their own, and the call that is sent,
// if it is, follows.

#include "nccl_plugin/interposer/comm/call_starter.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

class LazyCall final : public StreamCall {
 public:
  LazyCall(const ringpressRealNccl& real, CallStarter& starter, const Call& call)
      : real_(real), starter_(starter), call_(call), tensor_(tensor_of(call, call.count)) {}

  // Known, and the same on all ranks, once the votes are.
  std::size_t steps() const override { return 1 + (sent_ == nullptr ? 0 : sent_->steps()); }
  bool exchanges(std::size_t step) const override {
    return step == 0 || sent_->exchanges(step - 1);
  }

  Status prepare(std::size_t step) override {
    if (step > 0) return sent_->prepare(step - 1);
    return starter_.lazy().vote(tensor_, call_.send, call_.stream);
  }
  ncclResult_t exchange(std::size_t step) override {
    return step > 0 ? sent_->exchange(step - 1) : starter_.lazy().exchange(real_, call_.comm);
  }
  Status conclude(std::size_t step) override {
    if (step > 0) return sent_->conclude(step - 1);
    RINGPRESS_ASSIGN_OR_RETURN(const LazyCalls::Decision decision,
                               starter_.lazy().decide(tensor_, call_.receive));
    if (decision.is_put_off) {
      starter_.pass_put_off(call_);
      return Status::ok();
    }
    Call sent = call_;
    sent.tensor = call_.send;
    if (decision.has_sum) sent.send = call_.receive;
    RINGPRESS_ASSIGN_OR_RETURN(sent_, starter_.start_sent(sent));
    return Status::ok();
  }
  std::uint64_t sent_bytes() const override { return sent_ == nullptr ? 0 : sent_->sent_bytes(); }
  std::uint64_t raw_bytes() const override { return sent_ == nullptr ? 0 : sent_->raw_bytes(); }

 private:
  const ringpressRealNccl& real_;
  CallStarter& starter_;
  const Call call_;
  const TensorCall tensor_;
  StreamCallPointer sent_;  // Null: it is put off, or not known yet.
};

}  // namespace

StreamCallPointer make_lazy_call(const ringpressRealNccl& real, CallStarter& starter,
                                 const Call& call) {
  return make_stream_call<LazyCall>(real, starter, call);
}

}  // namespace ringpress::nccl_plugin::interposer
