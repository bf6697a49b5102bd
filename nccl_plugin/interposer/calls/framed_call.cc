#include "nccl_plugin/interposer/calls/framed_call.h"

#include <utility>

namespace ringpress::nccl_plugin::interposer {
namespace {

class FramedCall final : public StreamCall {
 public:
  FramedCall(const FramedParts& parts, const CallFrame& frame, StreamCallPointer call)
      : parts_(parts), frame_(frame), call_(std::move(call)) {}

  // Words have a step of their own.
  std::size_t steps() const override { return lead() + call_->steps(); }
  bool exchanges(std::size_t step) const override {
    return step < lead() || call_->exchanges(step - lead());
  }

  Status prepare(std::size_t step) override {
    if (step < lead()) return prepare_words();
    if (step == lead() && frame_.begin != nullptr) {
      RINGPRESS_RETURN_IF_ERROR(parts_.device->record(frame_.begin, parts_.stream));
    }
    RINGPRESS_RETURN_IF_ERROR(call_->prepare(step - lead()));
    return ends_with(step) && !exchanges(step) ? end() : Status::ok();
  }
  ncclResult_t exchange(std::size_t step) override {
    if (step >= lead()) return call_->exchange(step - lead());
    // Zero on all ranks but one, where one tells.
    std::uint64_t* const words = frame_.words.on_device;
    return parts_.real->AllReduce(words, words, frame_.words.count, ncclUint64, ncclMax,
                                  parts_.comm, static_cast<cudaStream_t>(parts_.stream));
  }
  Status conclude(std::size_t step) override {
    if (step < lead()) return keep_words();
    RINGPRESS_RETURN_IF_ERROR(call_->conclude(step - lead()));
    return ends_with(step) ? end() : Status::ok();
  }
  std::uint64_t sent_bytes() const override { return call_->sent_bytes(); }
  std::uint64_t raw_bytes() const override { return call_->raw_bytes(); }

 private:
  std::size_t lead() const { return frame_.words.count > 0 ? 1 : 0; }
  bool ends_with(std::size_t step) const { return step + 1 == steps(); }
  std::size_t bytes() const { return frame_.words.count * sizeof(std::uint64_t); }

  Status prepare_words() {
    const TravelingWords& words = frame_.words;
    const bool tells = words.is_of_all || parts_.rank == 0;
    if (!tells) return parts_.device->zero(parts_.stream, words.on_device, bytes());
    return parts_.device->copy(parts_.stream, words.on_device, words.sent, bytes());
  }
  /// Whoever reads them looks at the last one again until it is there.
  Status keep_words() {
    const TravelingWords& words = frame_.words;
    const std::size_t last = words.count - 1;
    if (last > 0) {
      RINGPRESS_RETURN_IF_ERROR(parts_.device->copy(parts_.stream, words.received, words.on_device,
                                                    last * sizeof(std::uint64_t)));
    }
    return parts_.device->copy(parts_.stream, words.received + last, words.on_device + last,
                               sizeof(std::uint64_t));
  }
  Status end() {
    if (frame_.sent != nullptr) *frame_.sent = {true, call_->sent_bytes(), call_->raw_bytes()};
    if (frame_.end == nullptr) return Status::ok();
    return parts_.device->record(frame_.end, parts_.stream);
  }

  const FramedParts parts_;
  const CallFrame frame_;
  const StreamCallPointer call_;
};

}  // namespace

StreamCallPointer make_framed_call(const FramedParts& parts, const CallFrame& frame,
                                   StreamCallPointer call) {
  if (frame.is_empty()) return call;
  return make_stream_call<FramedCall>(parts, frame, std::move(call));
}

}  // namespace ringpress::nccl_plugin::interposer
