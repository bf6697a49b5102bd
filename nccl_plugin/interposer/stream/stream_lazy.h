// RINGPRESS_LAZY on streams (lazy_calls.h): sums lie on the device, and what is done with them is
// asked for in the caller's stream. Ranks vote in a word each, of which the real library takes the
// largest by an all-reduce in that stream.
//
// A call that is sent is planned only then, and goes on as any other: with its residual, and under
// RINGPRESS_CODEC=auto in its turn. Captured calls are made as without RINGPRESS_LAZY.
//
// Whether a call is sent is decided in the call, so the thread that makes it waits twice: for its
// gradient, by whose length this rank votes, and for the votes of all ranks. So ranks must call
// their communicators in one order, and no stream may wait for what that thread does later.
#ifndef NCCL_PLUGIN_INTERPOSER_STREAM_STREAM_LAZY_H_
#define NCCL_PLUGIN_INTERPOSER_STREAM_STREAM_LAZY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "nccl_plugin/interposer/stream/stream_wait.h"
#include "nccl_plugin/preload/engine.h"
#include "nccl_plugin/session/lazy/lazy_calls.h"
#include "nccl_plugin/session/lazy/lazy_memory.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::interposer {

/// Sums on a device.
class StreamSums final : public LazyMemory {
 public:
  /// `device` and `watch` outlive this.
  static Result<std::unique_ptr<StreamSums>> make(Device& device, const Watch& watch);
  ~StreamSums() override;

  /// The stream of what comes next, which happens after what was asked for until leave().
  Status enter(Stream stream);
  Status leave();

  float* allocate(std::size_t count) override;
  void free(float* sum) override { device_.free(sum); }
  /// Waits for the gradient.
  Result<Lengths> measure(const GradientSpan& gradient, const float* sum) override;
  Status add(const GradientSpan& gradient, float* sum) override;
  Status write_total(const GradientSpan& gradient, const float* sum, void* to) override;
  Status clear(float* sum, std::size_t count) override;

 private:
  /// What a measurement leaves, on the device and in host memory.
  struct Measured {
    LengthPart parts[kChangeParts];
    std::uint64_t is_pending;  // 0 once the parts are there.
  };

  StreamSums(Device& device, const Watch& watch) : device_(device), watch_(watch) {}

  Device& device_;
  const Watch& watch_;
  std::unique_ptr<DeviceModels> kernels_;
  Measured* on_device_ = nullptr;
  Measured* on_host_ = nullptr;
  Event left_ = nullptr;
  bool was_left_ = false;
  Stream stream_ = nullptr;
};

/// Of one communicator. One thread at a time. An error ends the communicator.
class StreamLazy {
 public:
  /// `device` outlives this, and so does what the watch refers to. `sequence`: of the
  /// communicator's calls.
  static Result<std::unique_ptr<StreamLazy>> make(Device& device, const Settings& settings,
                                                  int rank, int size, Watch watch,
                                                  std::shared_ptr<CallSequence> sequence);
  ~StreamLazy();
  StreamLazy(const StreamLazy&) = delete;
  StreamLazy& operator=(const StreamLazy&) = delete;

  LazyCalls& calls() { return *calls_; }
  const LazyCalls& calls() const { return *calls_; }

  /// A call begins: this rank votes. Waits for its values.
  Status vote(const TensorCall& tensor, const void* values, Stream stream);
  /// Within a group of the real library.
  ncclResult_t exchange(const ringpressRealNccl& real, ncclComm_t comm);
  /// After that group: waits for the votes. What is put off is zero in `receive`, of the tensor's
  /// count and type; what has a sum is there, to be all-reduced in place.
  Result<LazyCalls::Decision> decide(const TensorCall& tensor, void* receive);

 private:
  /// Words of one vote: host memory that streams read and write.
  struct Ballot {
    std::uint64_t sent;
    std::uint64_t received;  // 0 until it is there.
  };

  StreamLazy(Device& device, Watch watch) : device_(device), watch_(std::move(watch)) {}
  Result<LazyVote> receive_votes();

  Device& device_;
  const Watch watch_;
  std::unique_ptr<StreamSums> sums_;
  std::unique_ptr<LazyCalls> calls_;
  std::uint64_t* traveling_ = nullptr;  // On the device.
  Ballot* ballot_ = nullptr;
  std::uint32_t votes_ = 0;  // So far.
  Stream stream_ = nullptr;  // Of the call under way.
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_STREAM_STREAM_LAZY_H_
