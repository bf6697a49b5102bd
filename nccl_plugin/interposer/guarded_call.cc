// A call that takes its turn: what the guard adds to it, before its first step and after its last.
#include <utility>

#include "nccl_plugin/interposer/stream_guard.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

class TurnTakingCall final : public StreamCall {
 public:
  TurnTakingCall(const GuardedParts& parts, const GuardedCall& guarded, StreamCallPointer call)
      : parts_(parts), guarded_(guarded), call_(std::move(call)) {}

  // The verdict has a step of its own.
  std::size_t steps() const override { return lead() + call_->steps(); }
  bool exchanges(std::size_t step) const override {
    return step < lead() || call_->exchanges(step - lead());
  }

  Status prepare(std::size_t step) override {
    if (step < lead()) return prepare_verdict();
    if (step == lead() && guarded_.begin != nullptr) {
      RINGPRESS_RETURN_IF_ERROR(parts_.device->record(guarded_.begin, parts_.stream));
    }
    RINGPRESS_RETURN_IF_ERROR(call_->prepare(step - lead()));
    return ends_with(step) && !exchanges(step) ? end() : Status::ok();
  }
  ncclResult_t exchange(std::size_t step) override {
    if (step >= lead()) return call_->exchange(step - lead());
    // Zero on all ranks but one.
    std::uint64_t* const word = parts_.memory->traveling(guarded_.index);
    return parts_.real->AllReduce(word, word, 1, ncclUint64, ncclMax, parts_.comm,
                                  static_cast<cudaStream_t>(parts_.stream));
  }
  Status conclude(std::size_t step) override {
    if (step < lead()) return keep_verdict();
    RINGPRESS_RETURN_IF_ERROR(call_->conclude(step - lead()));
    return ends_with(step) ? end() : Status::ok();
  }
  std::uint64_t sent_bytes() const override { return call_->sent_bytes(); }
  std::uint64_t raw_bytes() const override { return call_->raw_bytes(); }

 private:
  std::size_t lead() const { return guarded_.step.announces ? 1 : 0; }
  bool ends_with(std::size_t step) const { return step + 1 == steps(); }

  Status prepare_verdict() {
    std::uint64_t* const word = parts_.memory->traveling(guarded_.index);
    if (parts_.rank != 0) return parts_.device->zero(parts_.stream, word, sizeof *word);
    return parts_.device->copy(parts_.stream, word, parts_.memory->sent(guarded_.index),
                               sizeof *word);
  }
  Status keep_verdict() {
    // Streams write it; whoever reads it looks again until it is there.
    auto* const received = const_cast<std::uint64_t*>(parts_.memory->received(guarded_.index));
    return parts_.device->copy(parts_.stream, received, parts_.memory->traveling(guarded_.index),
                               sizeof *received);
  }
  Status end() {
    if (guarded_.end == nullptr) return Status::ok();
    return parts_.device->record(guarded_.end, parts_.stream);
  }

  const GuardedParts parts_;
  const GuardedCall guarded_;
  const StreamCallPointer call_;
};

}  // namespace

StreamCallPointer make_guarded_call(const GuardedParts& parts, const GuardedCall& guarded,
                                    StreamCallPointer call) {
  return make_stream_call<TurnTakingCall>(parts, guarded, std::move(call));
}

}  // namespace ringpress::nccl_plugin::interposer
