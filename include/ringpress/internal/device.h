// An accelerator as door A needs it: memory, queues of work, and the operations of codecs in those
// queues. CUDA is one implementation; host memory, where work is done at once, is another.
//
// Nothing here waits for the device, except where it says so. What is asked for in a stream happens
// after what was asked for in it before. Arrays of arguments are read before a function returns;
// pointers in them are device memory, which stays untouched by others until that work is done.
#ifndef RINGPRESS_INTERNAL_DEVICE_H_
#define RINGPRESS_INTERNAL_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ringpress/internal/agreement.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/projection.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress {

/// A queue of work of one device. CUDA: a cudaStream_t, null for the default stream.
using Stream = void*;

/// A point in a stream that others can wait for. Made and destroyed by the device.
using Event = void*;

/// The operations of an Agreement in a stream, with the same bytes. Only where tensor_is_shared().
/// Summaries begin at multiples of 8 bytes.
class DeviceAgreement {
 public:
  virtual ~DeviceAgreement() = default;

  virtual Status summarise_tensor(Stream stream, const SummariseArgs& args) = 0;
  /// Changes `into` to the summary of what it and all others summarise.
  virtual Status merge_tensor(Stream stream, std::span<const std::byte* const> from,
                              std::byte* into) = 0;
  /// One launch for all of them: the shards of a slice.
  virtual Status summarise(Stream stream, int round, std::span<const SummariseArgs> shards) = 0;
  /// As merge_tensor(), of `count` elements.
  virtual Status merge(Stream stream, int round, std::size_t count,
                       std::span<const std::byte* const> from, std::byte* into) = 0;
};

/// The operations of a Codec in a stream. The bytes are those of the Codec with the same
/// specification. Only for codecs with fixed_size, without projection().
class DeviceCodec {
 public:
  virtual ~DeviceCodec() = default;

  /// What it does, in host memory: sizes, traits and specification.
  virtual const Codec& codec() const = 0;
  /// codec().agreement() in a stream; null if that is. Lives as long as this.
  virtual DeviceAgreement* agreement() { return nullptr; }

  /// Bytes that an operation on so many shards uses between its launches if none of them has more
  /// than `count` elements. 0: none.
  virtual std::size_t scratch_bytes(std::size_t, std::size_t) const { return 0; }
  /// kUnsupported for such a form, or a hop that adds up so many wires in it, if there are no
  /// kernels for it.
  virtual Status supports(Contributions form, std::size_t wires) const = 0;
  /// All of them together: the shards of a slice. `scratch`: scratch_bytes(), 256-byte aligned and
  /// nobody else's until the work is done; null if that is 0.
  virtual Status encode(Stream stream, std::span<const EncodeArgs> shards, std::byte* scratch) = 0;
  /// `scratch`: as in encode(), of one shard.
  virtual Status decode_add_encode(Stream stream, const DecodeAddEncodeArgs& args,
                                   std::byte* scratch) = 0;
  /// All of them together. `scratch`: as in encode().
  virtual Status decode(Stream stream, std::span<const DecodeArgs> shards, std::byte* scratch) = 0;
};

/// Arguments of the operations of a DeviceProjection: those of a Projection, whose arrays (but not
/// the spans of pointers to them) are device memory. Arrays of values are aligned to their
/// elements.
struct DeviceProjectArgs {
  ProjectArgs call;  // `state_is_warm` is not read: the device finds out by `tags`.
  /// What call.state comes from: the number of a call, plus 1; 0 if it holds nothing yet. Null
  /// without a state. Changed by finish() only. On the device, so that a captured graph keeps its
  /// state up to date without us.
  std::uint64_t* state_call = nullptr;
  /// Two numbers. offer_state() fills them, then the ranks take the least of each, then project()
  /// knows whether all of them have a state from the same call: the same values, if so.
  std::uint64_t* tags = nullptr;
  float* scratch = nullptr;  // scratch_count() floats, 16-byte aligned, untouched until finish().
};

/// The operations of a Projection in a stream. The values are those of the Projection of the codec
/// with the same specification, so that nothing that is summed depends on where it was made.
class DeviceProjection {
 public:
  virtual ~DeviceProjection() = default;

  /// In host memory; its projection() says what is projected to how many values.
  virtual const Codec& codec() const = 0;
  virtual std::size_t scratch_count(const TensorShape& shape) const = 0;

  virtual Status offer_state(Stream stream, const DeviceProjectArgs& args) = 0;
  virtual Status project(Stream stream, int round, const DeviceProjectArgs& args) = 0;
  virtual Status finish(Stream stream, const DeviceProjectArgs& args) = 0;
};

/// A model, or a part of one, on a device: aligned to its elements.
struct ModelSpan {
  void* values = nullptr;
  std::size_t count = 0;  // Elements.
  DType dtype = DType::kFloat32;
};

/// Sums of squares over a part of the values.
struct ChangePart {
  double difference_squares = 0;
  double reference_squares = 0;
};
inline constexpr std::size_t kChangeParts = 4096;

/// Where it is noted that a value could not be decoded: *word is the largest mark of all such.
struct LostMark {
  std::uint32_t* word = nullptr;  // On the device.
  std::uint32_t mark = 0;
};

/// Gradients of one call on a device: aligned to their elements.
struct GradientSpan {
  const void* values = nullptr;
  std::size_t count = 0;  // Elements.
  DType dtype = DType::kFloat32;
};

/// Sums of squares over a part of the values: of themselves, and with a sum of former ones.
struct LengthPart {
  double value_squares = 0;
  double total_squares = 0;
};

/// What gossip does with models in a stream, and what is done with gradients that are put off.
/// Where values come out, they are those of the functions of the same names for host memory
/// (compress_kernels/factory.h).
class DeviceModels {
 public:
  virtual ~DeviceModels() = default;

  /// `parts`: kChangeParts of them, on the device. Added up in order they say how far the model is
  /// from the reference; the same each time.
  virtual Status measure_change(Stream stream, const ModelSpan& model, const void* reference,
                                ChangePart* parts) = 0;
  virtual Status average(Stream stream, const ModelSpan& model, const void* theirs) = 0;
  /// `difference` may be `base`.
  virtual Status take_difference(Stream stream, const ModelSpan& model, const float* base,
                                 float* difference) = 0;
  virtual Status add_half_difference(Stream stream, const ModelSpan& model, const float* own,
                                     const float* theirs, LostMark lost) = 0;
  virtual Status widen(Stream stream, const ModelSpan& model, double* wide) = 0;
  virtual Status take_mean(Stream stream, const double* sums, double divisor,
                           const ModelSpan& model) = 0;

  /// `parts`: kChangeParts of them, on the device, as in measure_change(). `sum`: null without one.
  virtual Status measure_lengths(Stream stream, const GradientSpan& gradient, const float* sum,
                                 LengthPart* parts) = 0;
  virtual Status add_values(Stream stream, const GradientSpan& gradient, float* sum) = 0;
  /// `to`: of the gradient's type, aligned to its elements; may be its values.
  virtual Status write_total(Stream stream, const GradientSpan& gradient, const float* sum,
                             void* to) = 0;
};

/// Values of a tensor, and their residual, on their way into a codec with coordinate scales.
struct DividedPart {
  const void* values = nullptr;     // Aligned to their elements.
  const float* residual = nullptr;  // Null: none.
  const std::uint8_t* codes = nullptr;
  std::size_t count = 0;
  float* scaled = nullptr;  // Get both, divided.
  float* scaled_residual = nullptr;
};
/// And on their way out of it.
struct MultipliedPart {
  const float* scaled = nullptr;
  const float* scaled_residual = nullptr;
  const std::uint8_t* codes = nullptr;
  std::size_t count = 0;
  void* values = nullptr;     // As above; null: not wanted. May be `scaled`.
  float* residual = nullptr;  // Null: none.
};

/// Whether a tensor's calls are divided by scales, as one word, which streams write at once.
struct ScaleUse {
  bool is_helped = false;
  std::uint32_t scaled_calls = 0;  // Of the first `calls` calls.
  std::uint32_t calls = 0;         // Below 2^31.

  static constexpr ScaleUse of(std::uint64_t word) {
    return {(word & 1) != 0, static_cast<std::uint32_t>(word >> 1),
            static_cast<std::uint32_t>(word >> 33)};
  }
  /// After `now` calls it was found out whether scales help.
  constexpr ScaleUse settled(std::uint32_t now, bool helped) const {
    return {helped, scaled_calls + (is_helped ? now - calls : 0), now};
  }
  constexpr std::uint64_t word() const {
    return std::uint64_t{calls} << 33 | std::uint64_t{scaled_calls} << 1 | (is_helped ? 1U : 0U);
  }
};

/// What is kept on a device of a tensor's coordinate scales.
struct KeptScales {
  float* squares = nullptr;               // Of each value's results, a running mean.
  std::uint8_t* codes = nullptr;          // By these; all 0 as long as scales do not help.
  std::uint64_t* use = nullptr;           // ScaleUse::word().
  const std::uint64_t* agreed = nullptr;  // Null, or scales are not used as long as this is 0.
  std::size_t count = 0;                  // Values.
  std::size_t block = 1;                  // Of the codec.
};

/// What is lost without scales and with them (ScaleErrors of compress_kernels/factory.h), in a part
/// of the blocks.
struct ScaleErrorPart {
  double plain = 0;
  double scaled = 0;
};
inline constexpr std::size_t kScaleErrorParts = 2048;

/// Coordinate scales in a stream. What comes out is that of the functions for host memory
/// (compress_kernels/factory.h), bit for bit. All that is decided by it is equal on all devices.
class DeviceScales {
 public:
  virtual ~DeviceScales() = default;

  /// One launch for all of them, values of this type.
  virtual Status divide(Stream stream, DType dtype, std::span<const DividedPart> parts) = 0;
  virtual Status multiply(Stream stream, DType dtype, std::span<const MultipliedPart> parts) = 0;

  /// By the result of the tensor's call number `calls`: whether its scales help, for codes that are
  /// found from then on. `parts`: kScaleErrorParts of them, on the device.
  virtual Status measure(Stream stream, const KeptScales& tensor, const GradientSpan& result,
                         std::uint32_t calls, ScaleErrorPart* parts) = 0;
  /// The result moves the squares by `weight`, and new codes are found.
  virtual Status learn(Stream stream, const KeptScales& tensor, const GradientSpan& result,
                       float weight) = 0;
  /// Finds codes by squares that stay as they are.
  virtual Status find(Stream stream, const KeptScales& tensor) = 0;
};

/// One accelerator of this process. Its operations may be called whatever device is current in the
/// calling thread, and leave that as it was. One thread at a time.
class Device {
 public:
  virtual ~Device() = default;

  /// A word for what it is, equal on all ranks whose bytes and speed are alike: "cuda", "host".
  virtual const char* name() const = 0;

  /// May wait for the device; not on the path of a call that is not the first of its kind. 256-byte
  /// aligned. Also while this thread captures a stream.
  virtual Result<void*> allocate(std::size_t bytes) = 0;
  virtual void free(void* memory) = 0;

  /// Host memory that work in streams reads and writes as it does device memory: what copy() does
  /// to it is done when its turn in the stream comes, and may be seen from then on. Aligned to 8
  /// bytes, which are written at once.
  virtual Result<void*> allocate_host(std::size_t bytes) = 0;
  virtual void free_host(void* memory) = 0;

  /// A stream of our own that does not wait for the default stream.
  virtual Result<Stream> create_stream() = 0;
  virtual void destroy_stream(Stream stream) = 0;
  virtual Result<Event> create_event() = 0;
  /// As above, and the time at which it happens is kept.
  virtual Result<Event> create_timing_event() = 0;
  virtual void destroy_event(Event event) = 0;
  /// From one timing event to another as they have happened last; negative if one has not. Waits
  /// for nothing.
  virtual Result<double> seconds_between(Event begin, Event end) = 0;

  virtual Status record(Event event, Stream stream) = 0;
  /// What comes next in `stream` waits for what was in the other one when `event` was recorded.
  virtual Status wait(Stream stream, Event event) = 0;
  /// The number of the graph that is being made of what is asked for in `stream`, 0 if none is.
  virtual Result<std::uint64_t> capture(Stream stream) = 0;
  /// Keeps `object` until the graph that is made in `stream`, and every graph instantiated from it,
  /// is no more. It is then let go in a thread that may ask nothing of this device.
  virtual Status keep_with_graph(Stream stream, std::shared_ptr<void> object) = 0;

  virtual Status zero(Stream stream, void* memory, std::size_t bytes) = 0;
  /// One of `to` and `from` may be host memory: that is not touched before synchronize(), unless it
  /// is of allocate_host().
  virtual Status copy(Stream stream, void* to, const void* from, std::size_t bytes) = 0;
  /// Waits until what was asked for in `stream` is done. Never on the path of a call.
  virtual Status synchronize(Stream stream) = 0;

  /// Not ok if what was asked for in `stream` has failed, as far as it is known. Waits for nothing.
  virtual Status find_failure(Stream) { return Status::ok(); }

  /// kUnsupported for a codec that this device has no kernels for.
  virtual Result<std::unique_ptr<DeviceCodec>> make_codec(const std::string& specification,
                                                          DType dtype, ReduceOp op) = 0;
  /// For codecs with a projection(). kUnsupported as above.
  virtual Result<std::unique_ptr<DeviceProjection>> make_projection(
      const std::string& specification, DType dtype, ReduceOp op) = 0;
  virtual Result<std::unique_ptr<DeviceModels>> make_models() = 0;
  /// kUnsupported: this device has no kernels for them.
  virtual Result<std::unique_ptr<DeviceScales>> make_scales() {
    return Status(Code::kUnsupported, "no kernels for coordinate scales");
  }
  /// kInvalidArgument: memory that kernels of this device cannot reach, as far as it is known.
  virtual Status check_reachable(const void* memory) = 0;
};

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_DEVICE_H_
