// The parts of topk that run on whole arrays; every instruction set has its own. What puts them
// together (topk_codec.cc, segment_writer.cc, segment_reader.h) is the same code for all.
#ifndef COMPRESS_KERNELS_TOPK_KERNELS_H_
#define COMPRESS_KERNELS_TOPK_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/topk/topk.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels::topk {

/// Where x comes from: values plus, if there is one, the residual.
struct Source {
  const void* values = nullptr;
  DType dtype = DType::kFloat32;
  const float* residual = nullptr;
  std::size_t count = 0;
  std::uint64_t first_element = 0;  // Index in the tensor of values[0].
};

/// Elements of a segment that are sent, in order.
struct Selection {
  // Kernels store whole vectors.
  static constexpr std::size_t kCapacity = kSegmentElements + 64;

  std::size_t count = 0;
  std::uint32_t index[kCapacity];  // From the start of the segment.
  float value[kCapacity];
  float decoded[kCapacity];      // What is on the wire for it. write_segment() fills it in.
  std::uint32_t gap[kCapacity];  // The elements between it and the one before, filled in too.
};

/// A part of a Source, at most a segment.
struct Part {
  std::size_t first = 0;
  std::size_t count = 0;
};

struct Kernels {
  /// The k-th largest key of a source, between kSmallestThreshold and kLargestThreshold.
  std::uint64_t (*find_threshold)(const Source&, std::size_t k) = nullptr;
  /// Selects the elements of a part whose keys are not below `threshold`. `residual`, if not null,
  /// is that of the source and gets all x that are finite.
  void (*select)(const Source&, const Part&, std::uint64_t threshold, float* residual,
                 Selection*) = nullptr;
  /// Fills in the gaps of a selection that is not empty. sums[i]: of all gaps >> (shift + i).
  void (*measure_gaps)(Selection*, unsigned shift, std::size_t (&sums)[3]) = nullptr;
  /// Up to kScaleElements values and what they decode to; value_bytes() of them.
  void (*write_values)(int value_bits, const float* values, std::size_t count, std::byte* wire,
                       float* decoded) = nullptr;
  void (*read_values)(int value_bits, const std::byte* wire, std::size_t count,
                      float* values) = nullptr;
};

/// The specification: one element at a time.
const Kernels& reference_kernels();
/// The kernels of a Highway target; null if this build has none for it.
const Kernels* simd_kernels(std::int64_t target);

}  // namespace ringpress::compress_kernels::topk

#endif  // COMPRESS_KERNELS_TOPK_KERNELS_H_
