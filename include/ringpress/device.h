// An accelerator as door A needs it: memory, queues of work, and the operations of codecs in those
// queues. CUDA is one implementation; host memory, where work is done at once, is another.
//
// Nothing here waits for the device, except where it says so. What is asked for in a stream happens
// after what was asked for in it before. Pointers in arguments are device memory, which stays
// untouched by others until that work is done.
#ifndef RINGPRESS_DEVICE_H_
#define RINGPRESS_DEVICE_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "ringpress/codec.h"
#include "ringpress/status.h"
#include "ringpress/types.h"

namespace ringpress {

/// A queue of work. CUDA: a cudaStream_t, null for the default stream.
using Stream = void*;

/// A point in a stream that others can wait for. Made and destroyed by the device.
using Event = void*;

/// The operations of a Codec in a stream. The bytes are those of the Codec with the same
/// specification. Only for codecs with fixed_size, without agreement() and projection().
class DeviceCodec {
 public:
  virtual ~DeviceCodec() = default;

  /// What it does, in host memory: sizes, traits and specification.
  virtual const Codec& codec() const = 0;

  /// One launch for all of them: the shards of a slice.
  virtual Status encode(Stream stream, std::span<const EncodeArgs> shards) = 0;
  virtual Status decode_add_encode(Stream stream, const DecodeAddEncodeArgs& args) = 0;
  /// One launch for all of them.
  virtual Status decode(Stream stream, std::span<const DecodeArgs> shards) = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  /// May wait for the device. 256-byte aligned; never in a captured stream.
  virtual Result<void*> allocate(std::size_t bytes) = 0;
  virtual void free(void* memory) = 0;

  /// A stream of our own that does not wait for the default stream.
  virtual Result<Stream> create_stream() = 0;
  virtual void destroy_stream(Stream stream) = 0;
  virtual Result<Event> create_event() = 0;
  virtual void destroy_event(Event event) = 0;

  virtual Status record(Event event, Stream stream) = 0;
  /// What comes next in `stream` waits for what was in the other one when `event` was recorded.
  virtual Status wait(Stream stream, Event event) = 0;
  /// True while a graph is made of what is asked for in `stream`.
  virtual Result<bool> is_capturing(Stream stream) = 0;

  virtual Status zero(Stream stream, void* memory, std::size_t bytes) = 0;
  virtual Status copy(Stream stream, void* to, const void* from, std::size_t bytes) = 0;

  /// kUnsupported for a codec that this device has no kernels for.
  virtual Result<std::unique_ptr<DeviceCodec>> make_codec(const std::string& specification,
                                                          DType dtype, ReduceOp op) = 0;
};

}  // namespace ringpress

#endif  // RINGPRESS_DEVICE_H_
