// A codec whose work is told to a CallWatch.
#ifndef NCCL_PLUGIN_SESSION_LIVE_TIMED_CODEC_H_
#define NCCL_PLUGIN_SESSION_LIVE_TIMED_CODEC_H_

#include <memory>
#include <string>

#include "nccl_plugin/session/live/call_watch.h"
#include "ringpress/internal/codec.h"

namespace ringpress::nccl_plugin {

/// `watch` outlives it. One thread at a time, that of the watch's calls.
class TimedCodec final : public Codec {
 public:
  TimedCodec(std::unique_ptr<Codec> codec, CallWatch& watch)
      : codec_(std::move(codec)), watch_(watch) {}

  const CodecTraits& traits() const override { return codec_->traits(); }
  const std::string& specification() const override { return codec_->specification(); }
  DType dtype() const override { return codec_->dtype(); }
  ReduceOp op() const override { return codec_->op(); }
  std::size_t wire_bytes(std::size_t count, Contributions form) const override {
    return codec_->wire_bytes(count, form);
  }
  const Agreement* agreement() const override { return codec_->agreement(); }
  const Projection* projection() const override { return codec_->projection(); }

  std::size_t encode(const EncodeArgs& args) const override {
    const CallWatch::Phase phase(watch_, CallPhase::kEncode);
    return codec_->encode(args);
  }
  void decode(const DecodeArgs& args) const override {
    const CallWatch::Phase phase(watch_, CallPhase::kDecode);
    codec_->decode(args);
  }
  void decode_add(const DecodeAddArgs& args) const override {
    const CallWatch::Phase phase(watch_, CallPhase::kReduce);
    codec_->decode_add(args);
  }
  std::size_t decode_add_encode(const DecodeAddEncodeArgs& args) const override {
    const CallWatch::Phase phase(watch_, CallPhase::kReduce);
    return codec_->decode_add_encode(args);
  }

 private:
  const std::unique_ptr<Codec> codec_;
  CallWatch& watch_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_LIVE_TIMED_CODEC_H_
