// The arguments of kernels: plain structs that are passed by value and so are a part of a captured
// graph.
#ifndef COMPRESS_KERNELS_CORE_DEVICE_TASKS_H_
#define COMPRESS_KERNELS_CORE_DEVICE_TASKS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "compress_kernels/core/encode_output.h"
#include "compress_kernels/core/host_device.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/status.h"

namespace ringpress::compress_kernels::core {

/// Arguments of a kernel take 4096 bytes at most.
inline constexpr std::size_t kMostShards = 40;
inline constexpr std::size_t kMostWires = 384;

/// How much a launch has to do.
struct Extent {
  std::size_t shards = 1;
  std::size_t largest_count = 0;  // Elements of the largest shard.
};

/// What kernels want of arrays of values.
inline Status check_alignment(const void* array, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(array) % bytes == 0) return Status::ok();
  return Status(Code::kUnsupported, "kernels take arrays that are aligned to their elements");
}

inline Status check_wires(std::size_t wires) {
  if (wires <= kMostWires) return Status::ok();
  return Status(Code::kUnsupported, std::to_string(wires) +
                                        " wires in one hop; kernels take at most " +
                                        std::to_string(kMostWires));
}

struct EncodeShard {
  const void* values = nullptr;
  std::size_t count = 0;
  EncodeOutput output;
  Agreed agreed;
};

template <typename Parameters>
struct EncodeTask {
  Parameters parameters;
  EncodeShard shards[kMostShards];
};

struct DecodeShard {
  const std::byte* wire = nullptr;
  std::size_t count = 0;
  void* values = nullptr;
  std::size_t divisor = 1;  // As in DecodeArgs.
  Agreed agreed;
};

template <typename Parameters>
struct DecodeTask {
  Parameters parameters;
  DecodeShard shards[kMostShards];
};

/// As DecodeAddEncodeArgs.
template <typename Parameters>
struct HopTask {
  Parameters parameters;
  const void* values = nullptr;
  std::size_t count = 0;
  std::size_t wire_count = 0;
  std::size_t own_position = 0;
  std::size_t divisor = 1;
  EncodeOutput output;
  Agreed agreed;
  const std::byte* wires[kMostWires];
};

}  // namespace ringpress::compress_kernels::core

#endif  // COMPRESS_KERNELS_CORE_DEVICE_TASKS_H_
