// What a communicator consists of, for those who plan and begin its calls.
#ifndef NCCL_PLUGIN_INTERPOSER_COMM_PARTS_H_
#define NCCL_PLUGIN_INTERPOSER_COMM_PARTS_H_

#include <cstddef>
#include <memory>
#include <optional>

#include "nccl_plugin/interposer/calls/exchange_memory.h"
#include "nccl_plugin/interposer/calls/framed_call.h"
#include "nccl_plugin/interposer/comm/codecs.h"
#include "nccl_plugin/interposer/comm/kept.h"
#include "nccl_plugin/interposer/comm/lifetime.h"
#include "nccl_plugin/interposer/comm/policy.h"
#include "nccl_plugin/interposer/stream/stream_guard.h"
#include "nccl_plugin/interposer/stream/stream_lazy.h"
#include "nccl_plugin/interposer/stream/stream_scales.h"
#include "nccl_plugin/interposer/stream/stream_steps.h"
#include "nccl_plugin/interposer/stream/stream_trace.h"
#include "nccl_plugin/interposer/stream/stream_votes.h"
#include "nccl_plugin/session/calls/call_sequence.h"
#include "nccl_plugin/session/calls/call_statistics.h"

namespace ringpress::nccl_plugin::interposer {

/// What is further down is made of what is above, and ends before it.
struct CommParts {
  const ringpressRealNccl& real;
  const Settings& settings;
  const ncclComm_t handle;
  const int rank;
  const int size;
  const std::shared_ptr<Device> device;  // Graphs may outlive this.
  const std::unique_ptr<ExchangeMemory> exchange;
  CommLifetime lifetime;
  CommPolicy policy;
  DeviceCodecs codecs;
  CallStatistics statistics{};
  // Those that follow ask it where calls stand.
  const std::shared_ptr<CallSequence> sequence = std::make_shared<CallSequence>();
  // Null: no call is compressed or put off.
  std::unique_ptr<KeptMemory> kept = nullptr;
  std::unique_ptr<StreamLazy> lazy = nullptr;      // Null: no call is put off.
  std::unique_ptr<StreamScales> scales = nullptr;  // Null: no call has coordinate scales.
  std::unique_ptr<StreamTrace> trace = nullptr;    // Null: nobody asks.
  std::unique_ptr<StreamSteps> steps = nullptr;    // Null: nothing is planned.
  std::unique_ptr<StreamGuard> guard = nullptr;    // Null: nothing is left to be chosen.
  std::unique_ptr<StreamVotes> votes = nullptr;    // Null: no sums are voted on.

  const PreparedCodec* codec_of(const Call& call, const Decision& decision) const {
    return codecs.find(call, decision.codec);
  }
  /// Of a call that has a codec.
  Way way_of(const Call& call, const Decision& decision) const {
    return policy.way(decision, call, codec_of(call, decision)->projection != nullptr);
  }
  /// Memory for a call's projection; 0: it is never projected. (No rule names a codec that does.)
  std::size_t projected_bytes(const Call& call) const {
    const PreparedCodec* const codec = codecs.find(call, usual_codec(settings));
    if (codec == nullptr || codec->projection == nullptr) return 0;
    return projection_bytes(*codec->projection, call.count);
  }
  FramedParts framed_parts(const Call& call) const {
    return {&real, handle, rank, device.get(), call.stream};
  }
  /// Of residuals, sums and scales.
  std::size_t kept_bytes() const {
    return kept->bytes() + (lazy == nullptr ? 0 : lazy->calls().bytes()) +
           (scales == nullptr ? 0 : scales->bytes());
  }
  void count_exact(const WhyExact& why) {
    statistics.count_exact(why, lazy == nullptr ? std::nullopt : std::optional(kept_bytes()));
  }
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_COMM_PARTS_H_
