// A codec turns numbers into bytes and back. It never hears of ranks; a collective never hears of
// a codec's name: it acts on CodecTraits alone.
//
// One codec object belongs to one specification string ("q4:block=128"), one element type and one
// reduction. It has no mutable state and may be used from several threads at once. What must live
// from call to call (the residual of error feedback) is passed in by the caller.
//
// The four operations. An all-reduce uses them in this order, but for decode_add, which serves
// callers that keep a sum of their own:
//   encode              own values                     -> wire bytes
//   decode_add_encode   wire bytes of others + own     -> wire bytes      (the hop, fused)
//   decode_add          wire bytes                     -> added to a sum
//   decode              wire bytes                     -> values
//
// Every implementation (scalar reference, each SIMD target, CUDA) makes the same bytes from the
// same input: sums are taken in the order given, rounding is to nearest even, no multiply and add
// is contracted, random bits come from Philox keyed by RandomKey.
#ifndef RINGPRESS_INTERNAL_CODEC_H_
#define RINGPRESS_INTERNAL_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <string>

#include "ringpress/internal/agreement.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress {

class Projection;  // ringpress/internal/projection.h

/// Elements that codecs process as one unit. Blocks (one scale each) divide it. A chunk that is cut
/// at multiples of it has the same blocks as the uncut array.
inline constexpr std::size_t kTileElements = 1024;
/// Rounded up.
constexpr std::size_t whole_tiles(std::size_t elements) {
  return (elements + kTileElements - 1) / kTileElements * kTileElements;
}

/// What a collective may know of a codec.
struct CodecTraits {
  bool identity = false;      // The wire bytes are the elements themselves: no copy is needed.
  bool fixed_size = true;     // wire_bytes(count) is exact, not an upper bound.
  bool summable = false;      // Encoded forms are added without decoding: the sum is exact.
  bool lossless = false;      // decode(encode(x)) == x, bit for bit.
  bool deterministic = true;  // The bytes do not depend on RandomKey.
  int rounds = 1;             // Exchanges per all-reduce.
};

/// What an encoded form is a sum of. Summable codecs take the bits that so many contributions need;
/// others may spend more on sums that will be encoded again. For most it changes nothing.
///
/// A form in a world of one rank stands alone: whatever it takes to decode it is in its bytes.
/// In a larger world, codecs with an agreement() leave out what the ranks have agreed on.
struct Contributions {
  std::size_t summed = 1;  // Ranks whose values it holds (at most, if the codec is not summable).
                           // `world` also for values of one rank that are complete (all-gather).
  std::size_t world = 1;   // Ranks in all.
};

/// Names the random bits of one encode: equal keys give equal bits on every rank and machine.
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;           // The call's number: fresh bits each call.
  std::uint32_t stream = 0;         // The rank, where ranks must differ; else 0.
  std::uint64_t first_element = 0;  // Index in the tensor of values[0].
};

/// Encodes `count` values. `wire` has room for wire_bytes(count, form) bytes and overlaps nothing
/// else.
struct EncodeArgs {
  const void* values = nullptr;  // count elements, any alignment.
  std::size_t count = 0;
  double input_scale = 1;     // Multiplies the values first (pre-multiplied sums). Only the
                              // codec "none" takes anything but 1.
  float* residual = nullptr;  // Error feedback, count floats or null: x = v + r is encoded, then
                              // r = x - decode(encode(x)). Blocks with a non-finite x leave r as
                              // it was, so r is always finite. Null for lossless codecs but
                              // "none".
  std::byte* wire = nullptr;
  void* decoded = nullptr;  // Gets decode(wire) when not null; may be `values` itself.
  RandomKey random{};
  Contributions form{};
  Agreed agreed{};
  const std::uint8_t* scales = nullptr;  // Of scaled codecs, which need them: count codes.
};

/// Writes `count` values decoded from what encode() made. Any bytes decode to something: the caller
/// has checked the frame, but a decoder never reads or writes out of bounds.
struct DecodeArgs {
  const std::byte* wire = nullptr;
  std::size_t count = 0;
  void* values = nullptr;
  std::size_t wire_size = 0;  // Bytes. Only read by codecs without fixed_size.
  std::size_t divisor = 1;    // Summable codecs: the sum is divided by it (averages). The others
                              // have divided before they encoded.
  Contributions form{};
  Agreed agreed{};
  const std::uint8_t* scales = nullptr;  // As in EncodeArgs, and the same codes.
};

/// As DecodeArgs, but adds (or reduces, for "none" with another op) onto `sum`.
/// `sum` holds float32 for the compressible types, and the element type itself for all others.
struct DecodeAddArgs {
  const std::byte* wire = nullptr;
  std::size_t count = 0;
  void* sum = nullptr;
  std::size_t wire_size = 0;
  Contributions form{};
  Agreed agreed{};
  const std::uint8_t* scales = nullptr;  // As in DecodeArgs.
};

/// The hop: reduces what other ranks sent (their contributions, or one partial sum of several) with
/// this rank's own values and encodes the result, in one pass and without storing the sum.
struct DecodeAddEncodeArgs {
  std::span<const std::byte* const> wires;  // Encoded, in the order of summation.
  std::span<const std::size_t> wire_sizes;  // Bytes of each. Only read without fixed_size.
  std::size_t own_position = 0;             // Own values are taken after wires[0..own_position).
  const void* values = nullptr;             // count elements.
  std::size_t count = 0;
  double input_scale = 1;     // As in EncodeArgs; for the own values.
  std::size_t divisor = 1;    // The sum is divided by it before encoding (averages).
  float* residual = nullptr;  // As in EncodeArgs, applied after the division.
  std::byte* wire = nullptr;  // Room for wire_bytes(count, form); null writes the unencoded result
                              // to `decoded` (the end of a reduce-scatter); residual must then be
                              // null.
  void* decoded = nullptr;    // Gets decode(wire) when not null; may be `values` itself.
                              // For an identity codec `wire` may be `values` or `decoded`.
  RandomKey random{};
  std::size_t wire_contributions = 1;  // Contributions::summed of each of `wires`.
  Contributions form{};                // Of the result.
  Agreed agreed{};
  const std::uint8_t* scales = nullptr;  // As in EncodeArgs; `wires` have been encoded with them.
  /// For what is kept between two steps of the hop: some 4 bytes an element at most.
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();
};

class Codec {
 public:
  virtual ~Codec() = default;

  virtual const CodecTraits& traits() const = 0;
  /// The full specification, every parameter spelled out in a fixed order; equal strings mean equal
  /// bytes. Ranks compare its hash.
  virtual const std::string& specification() const = 0;
  virtual DType dtype() const = 0;
  virtual ReduceOp op() const = 0;

  /// Bytes of such a form of `count` values (an upper bound unless traits().fixed_size).
  virtual std::size_t wire_bytes(std::size_t count, Contributions form = {}) const = 0;
  /// What ranks agree on before they encode, or null: nothing. Lives as long as the codec.
  virtual const Agreement* agreement() const { return nullptr; }
  /// How this codec all-reduces a projection of the tensor, or null: it does not. The operations
  /// below then make forms that stand alone. Lives as long as the codec.
  virtual const Projection* projection() const { return nullptr; }

  /// Returns the bytes written: wire_bytes(), or fewer unless traits().fixed_size.
  virtual std::size_t encode(const EncodeArgs& args) const = 0;
  virtual void decode(const DecodeArgs& args) const = 0;
  virtual void decode_add(const DecodeAddArgs& args) const = 0;
  /// Returns the bytes written to `wire`, 0 if that is null.
  virtual std::size_t decode_add_encode(const DecodeAddEncodeArgs& args) const = 0;
};

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_CODEC_H_
