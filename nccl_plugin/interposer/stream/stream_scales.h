// Coordinate scales where calls are work in streams (session/calls/coordinate_scales.h says what is
// learnt from, when, and why all ranks have the same). Squares, codes and whether they help lie on
// the device, where kernels at the end of a call change them: nothing waits for it. As long as
// scales do not help, the codes on the device are all 0.
//
// A codec with codes that are all 0 makes the bytes and the results of the one without scales. So
// what each rank may do for itself: a call whose codes are known to be 0 by then goes without, and
// so does one of a tensor for which this rank has no memory: with the tensor's first measured call
// the ranks tell each other in the stream whether all have some, and else its codes stay 0.
//
// Frames carry no hash of codes, which the host does not know; the other half of what protects host
// memory, that ranks compute the same from the same, has to do. Calls in captured graphs have no
// scales: a replay counts no calls. Nor do those that are projected or gathered.
#ifndef NCCL_PLUGIN_INTERPOSER_STREAM_STREAM_SCALES_H_
#define NCCL_PLUGIN_INTERPOSER_STREAM_STREAM_SCALES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "nccl_plugin/interposer/calls/stream_call.h"
#include "nccl_plugin/session/calls/call_sequence.h"
#include "nccl_plugin/session/calls/placed_tensors.h"
#include "ringpress/internal/device.h"

namespace ringpress::nccl_plugin::interposer {

/// Words of host memory that streams write.
class HostWords {
 public:
  explicit HostWords(Device& device) : device_(device) {}
  ~HostWords();
  HostWords(const HostWords&) = delete;
  HostWords& operator=(const HostWords&) = delete;

  /// One that is 0. Null: there is no memory.
  std::uint64_t* take();
  void give_back(std::uint64_t* word) { free_.push_back(word); }

 private:
  static constexpr std::size_t kWordsAtOnce = 512;

  Device& device_;
  std::vector<void*> blocks_;
  std::vector<std::uint64_t*> free_;
};

/// Of one communicator. One thread at a time.
class StreamScales {
  struct Tensor;

 public:
  /// What a call is encoded with, and what its result is learnt for. Until the next choose().
  struct Chosen {
    const std::uint8_t* codes = nullptr;  // Null: they are all 0.
    Tensor* tensor = nullptr;             // Null: nothing is learnt.
  };
  /// What is learnt of a device's memory, in multiples of 256 bytes.
  static constexpr std::size_t kScratchBytes = kScaleErrorParts * sizeof(ScaleErrorPart);

  /// `device` outlives this. `limit_bytes`: as of residuals; 0: none.
  static Result<std::unique_ptr<StreamScales>> make(Device& device, std::size_t limit_bytes,
                                                    std::shared_ptr<CallSequence> sequence);
  ~StreamScales();
  StreamScales(const StreamScales&) = delete;
  StreamScales& operator=(const StreamScales&) = delete;

  /// What they add to encoding and decoding a value, in seconds, measured on as many as a call has
  /// under way; waits for the device. No value: that is not known.
  std::optional<double> measure_cost(Stream stream);

  /// For the next call of those that CallUser::kScales is told of, which encodes `count` elements
  /// in `stream`. `block`: of its codec; 0: that has no scales.
  Result<Chosen> choose(const TensorCall& call, std::size_t count, std::size_t block,
                        Stream stream);
  /// `call`, which was made of `parts` and encodes what was chosen, and then learns. `result`: of
  /// the elements that are encoded. Otherwise `call` as it is.
  StreamCallPointer learn_from(const StreamCallParts& parts, const Chosen& chosen,
                               const void* result, StreamCallPointer call);

  /// Memory held.
  std::size_t bytes() const { return tensors_.bytes(); }
  /// Calls whose codes were not all 0, as far as the device has told.
  std::uint64_t scaled_calls() const { return scaled_calls_; }

 private:
  class LearningCall;

  struct FreeOnDevice {
    Device* device = nullptr;
    void operator()(std::byte* memory) const { device->free(memory); }
  };
  struct GiveBack {
    HostWords* words = nullptr;
    void operator()(std::uint64_t* word) const { words->give_back(word); }
  };
  /// Freeing `memory` waits for the device: no copy to `seen` is under way once that is taken
  /// again.
  struct Tensor {
    DType dtype = DType::kFloat32;
    std::uint32_t calls = 0;
    std::uint32_t measured_call = 0;  // The last one.
    KeptScales kept;                  // `squares` are null: there is no memory.
    std::uint64_t* agreed = nullptr;  // On the device, as KeptScales::agreed.
    std::unique_ptr<std::byte, FreeOnDevice> memory{nullptr, {}};
    std::unique_ptr<std::uint64_t, GiveBack> seen{nullptr, {}};  // A copy of *kept.use.
    std::uint64_t scaled_calls = 0;                              // As they have been counted.

    std::size_t bytes() const { return bytes_of(kept.count); }
  };

  StreamScales(Device& device, std::size_t limit_bytes, std::shared_ptr<CallSequence> sequence);
  static std::size_t bytes_of(std::size_t count) { return count * (sizeof(float) + 1); }
  Tensor make_tensor(DType dtype, std::size_t count, Stream stream);
  Status clear(Tensor* tensor, Stream stream);
  bool look_at(Tensor* tensor);
  std::uint64_t* offer(const Tensor& tensor, Stream stream, Status* status);
  Status learn(Tensor* tensor, Stream stream, const void* result, std::byte* scratch);

  Device& device_;
  const std::shared_ptr<CallSequence> sequence_;
  std::unique_ptr<DeviceScales> kernels_;
  std::uint64_t* spare_ = nullptr;  // On the device: of tensors without memory.
  HostWords words_;
  std::uint64_t* one_ = nullptr;  // A 1 in host memory.
  std::uint64_t scaled_calls_ = 0;
  PlacedTensors<Tensor> tensors_;  // Goes before what it gives back to.
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_STREAM_STREAM_SCALES_H_
