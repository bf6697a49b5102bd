// qB:grid=lloyd for one target: the four operations as walks over the blocks of a chunk. What is
// not a whole block of usual magnitude goes through the reference. Compiled once per target.
#if defined(COMPRESS_KERNELS_LLOYD_LLOYD_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_LLOYD_LLOYD_SIMD_INL_H_
#undef COMPRESS_KERNELS_LLOYD_LLOYD_SIMD_INL_H_
#else
#define COMPRESS_KERNELS_LLOYD_LLOYD_SIMD_INL_H_
#endif

#include <hwy/cache_control.h>

#include <cstring>

#include "compress_kernels/core/float_arrays-inl.h"
#include "compress_kernels/lloyd/chunk.h"
#include "compress_kernels/lloyd/transcoder-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::lloyd {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

/// Codes and decodes the blocks of one chunk. Of one thread: it remembers signs.
class ChunkCoder {
 public:
  /// `values`: the caller's elements, if they are to be encoded; read ahead of time.
  ChunkCoder(const LloydParameters& parameters, std::size_t count, const void* values = nullptr)
      : parameters_(parameters),
        chunk_(parameters, count),
        functions_(functions_for(parameters.bits, parameters.block)),
        values_(static_cast<const std::byte*>(values)) {
    options_.value_bytes = dtype_size(parameters.dtype);
    options_.block = parameters.block;
    options_.unbiased = parameters.unbiased;
    options_.gain = rotation_gain(rotations(parameters, parameters.block), parameters.block);
  }

  const Chunk& chunk() const { return chunk_; }

  /// Encodes the block whose values are at x: in scratch.x or in the caller's memory. With
  /// `decodes`, scratch.decoded gets what the codes decode to. Returns false for a non-finite
  /// block.
  bool encode(std::size_t block, const float* x, const RandomKey& random, std::byte* wire,
              bool decodes, Scratch& scratch) const {
    const Masks masks(*this, block, chunk_.draw_seed(block, random, wire));
    return quantise({block, x, rotate(block, x, masks.get(), scratch)}, masks.get(), random, wire,
                    decodes, scratch);
  }

  /// True if rotate() and quantise() may be called by themselves, with shared_rotations().
  bool rotates_alike() const { return !parameters_.unbiased; }
  /// Of all blocks that will be encoded. Valid until a block is decoded.
  Rotations shared_rotations(const RandomKey& random, std::byte* wire) const {
    return shared_rotations(chunk_.draw_shared_seed(random, wire));
  }

  /// The first half of encode(): gives the power of the rotated values, which are in scratch.y.
  float rotate(std::size_t block, const float* x, const Rotations& rotations,
               Scratch& scratch) const {
    if (chunk_.length_of(block) < parameters_.block) return 0;
    return functions_.rotate(x, rotations, scratch);
  }

  /// A block between the halves.
  struct Rotated {
    std::size_t block = 0;
    const float* x = nullptr;
    float power = 0;
  };

  /// The second half.
  bool quantise(const Rotated& rotated, const Rotations& rotations, const RandomKey& random,
                std::byte* wire, bool decodes, Scratch& scratch) const {
    const std::size_t block = rotated.block;
    if (!(rotated.power >= kSmallestPower && rotated.power <= kLargestPower)) {
      return encode_by_reference(block, rotated.x, random, wire, decodes, scratch);
    }
    BlockOptions options = options_;
    options.needs_levels = decodes;
    if (values_ != nullptr) {
      options.values = values_ + chunk_.first_of(block) * options.value_bytes;
    } else {
      options.value_bytes = 0;
    }
    const std::uint16_t stored = functions_.quantise(rotated.power, options, scratch);
    core::store_element(wire, block, stored);
    const core::Planes<std::uint8_t> planes = chunk_.planes_of(block, wire);
    std::memcpy(planes.high, scratch.codes, chunk_.high_bytes(block));
    std::memcpy(planes.low, scratch.low_codes, chunk_.low_bytes(block));
    if (decodes && stored == 0) {
      chunk_.decode(block, wire, scratch.decoded);
    } else if (decodes) {
      functions_.rotate_back(core::widen(core::Bfloat16{stored}), rotations, scratch,
                             {scratch.decoded});
    }
    return true;
  }

  /// Decodes a block; false if it is NaN throughout.
  bool decode(std::size_t block, const std::byte* wire, Scratch& scratch,
              const DecodeDestination& destination) const {
    const auto stored = core::load_element<std::uint16_t>(wire, block);
    const float unit = core::widen(core::Bfloat16{stored});
    if (chunk_.length_of(block) < parameters_.block || !core::is_finite(unit) || unit == 0) {
      const bool finite = chunk_.decode(block, wire, scratch.decoded);
      std::memcpy(static_cast<void*>(destination.values), scratch.decoded,
                  chunk_.length_of(block) * sizeof(float));
      return finite;
    }
    const Masks masks(*this, block, chunk_.read_seed(block, wire));
    functions_.look_up(codes_with_slack(block, wire, scratch), options_, scratch);
    functions_.rotate_back(unit, masks.get(), scratch, destination);
    return true;
  }

 private:
  Rotations shared_rotations(std::uint64_t seed) const {
    return {parameters_.rotates ? shared_masks_.of(seed) : nullptr, nullptr};
  }

  /// The signs of one block's rotations: those that all share, or its own. None of a partial block.
  class Masks {
   public:
    Masks(const ChunkCoder& coder, std::size_t block, std::uint64_t seed) {
      if (coder.chunk_.length_of(block) < coder.parameters_.block) return;
      if (!coder.parameters_.unbiased) {
        rotations_ = coder.shared_rotations(seed);
        return;
      }
      rotations_.first = new (memory_[0]) SignMasks(seed, 0);
      rotations_.second = new (memory_[1]) SignMasks(seed, 1);
    }
    const Rotations& get() const { return rotations_; }

   private:
    alignas(SignMasks) std::byte memory_[2][sizeof(SignMasks)];  // Untouched for shared signs.
    Rotations rotations_;
  };

  bool encode_by_reference(std::size_t block, const float* x, const RandomKey& random,
                           std::byte* wire, bool decodes, Scratch& scratch) const {
    // x may be the caller's memory, at any address.
    std::memcpy(scratch.y, static_cast<const void*>(x), chunk_.length_of(block) * sizeof(float));
    chunk_.encode(block, scratch.y, random, wire);
    const auto stored = core::load_element<std::uint16_t>(wire, block);
    if (decodes) chunk_.decode(block, wire, scratch.decoded);
    return core::is_finite(core::widen(core::Bfloat16{stored}));
  }

  /// A block's codes, where 16 bytes more may be read.
  core::Planes<const std::uint8_t> codes_with_slack(std::size_t block, const std::byte* wire,
                                                    Scratch& scratch) const {
    const core::Planes<const std::uint8_t> planes = chunk_.planes_of(block, wire);
    if (chunk_.bytes_after(block) >= 16) return planes;
    std::memcpy(scratch.codes, planes.high, chunk_.high_bytes(block));
    std::memcpy(scratch.low_codes, planes.low, chunk_.low_bytes(block));
    return {scratch.codes, scratch.low_codes};
  }

  const LloydParameters& parameters_;
  const Chunk chunk_;
  const BlockFunctions functions_;
  const std::byte* const values_;
  BlockOptions options_;
  mutable SharedMasks shared_masks_;
};

/// Elements of the caller's.
struct Elements {
  DType dtype = DType::kFloat32;
  void* values = nullptr;
  std::size_t first = 0;
  std::size_t count = 0;
  Contributions form;
};

/// Writes scratch.decoded to them.
inline void store_decoded(const Elements& elements, Scratch& scratch) {
  if (elements.dtype != DType::kFloat32) {
    for (std::size_t i = 0; i < elements.count; ++i) {
      scratch.decoded[i] = as_element(scratch.decoded[i], elements.dtype, elements.form);
    }
  }
  arrays::store_array(elements.dtype, scratch.decoded, elements.count, elements.values,
                      elements.first);
}

/// Writes residual and decoded values of an encoded block.
inline void store_results(const ChunkCoder& coder, DType dtype, std::size_t block, const float* x,
                          bool finite, const Output& output, Scratch& scratch) {
  const std::size_t first = coder.chunk().first_of(block);
  const std::size_t count = coder.chunk().length_of(block);
  if (output.residual != nullptr && finite) {
    arrays::store_new_residual(x, scratch.decoded, count, output.residual + first);
  }
  if (output.decoded != nullptr) {
    store_decoded({dtype, output.decoded, first, count, output.form}, scratch);
  }
}

/// Encodes blocks one after the other. Where they are rotated alike, each is quantised only after
/// the next one was rotated: its deviation, a long chain of operations, is then known.
class BlockEncoder {
 public:
  BlockEncoder(const ChunkCoder& coder, DType dtype, const Output& output)
      : coder_(coder), dtype_(dtype), output_(output) {
    if (coder.rotates_alike() && output.wire != nullptr) {
      rotations_ = coder.shared_rotations(output.random, output.wire);
    }
  }

  /// Memory for the values of the next block.
  float* values() { return stages_[next_].values.x; }

  /// `x`: values(), or memory that stays as it is until finish().
  void encode(std::size_t block, const float* x) {
    Stage& stage = stages_[next_];
    if (!coder_.rotates_alike()) {
      const bool finite = coder_.encode(block, x, output_.random, output_.wire,
                                        core::wants_values(output_), stage.scratch);
      store_results(coder_, dtype_, block, x, finite, output_, stage.scratch);
      return;
    }
    stage.rotated = {block, x, coder_.rotate(block, x, rotations_, stage.scratch)};
    finish();
    is_waiting_ = true;
    next_ = 1 - next_;
  }

  /// Quantises the block that was rotated last.
  void finish() {
    if (!is_waiting_) return;
    is_waiting_ = false;
    Stage& stage = stages_[1 - next_];
    const bool finite = coder_.quantise(stage.rotated, rotations_, output_.random, output_.wire,
                                        core::wants_values(output_), stage.scratch);
    store_results(coder_, dtype_, stage.rotated.block, stage.rotated.x, finite, output_,
                  stage.scratch);
  }

 private:
  struct Stage {
    Scratch scratch;
    Values values;
    ChunkCoder::Rotated rotated;
  };

  const ChunkCoder& coder_;
  const DType dtype_;
  const Output& output_;
  Rotations rotations_;  // Of all blocks, if they are rotated alike.
  Stage stages_[2];
  std::size_t next_ = 0;  // The stage that the next block takes.
  bool is_waiting_ = false;
};

inline void encode(const LloydParameters& parameters, const EncodeArgs& args) {
  const Output output{core::output_of(args), args.form};
  const ChunkCoder coder(parameters, args.count, args.values);
  const bool direct = parameters.dtype == DType::kFloat32 && !core::wants_values(output);
  BlockEncoder encoder(coder, parameters.dtype, output);
  for (std::size_t block = 0; block < coder.chunk().block_count(); ++block) {
    const std::size_t first = coder.chunk().first_of(block);
    const std::size_t count = coder.chunk().length_of(block);
    const bool whole = count == parameters.block;
    const auto* x = static_cast<const float*>(arrays::at<float>(args.values, first));
    if (!direct || !whole) {
      if (args.residual == nullptr) {
        arrays::load_array(parameters.dtype, args.values, first, count, encoder.values());
      } else {
        arrays::load_sum(parameters.dtype, args.values, args.residual, first, count,
                         encoder.values());
      }
      x = encoder.values();
    }
    encoder.encode(block, x);
  }
  encoder.finish();
}

/// Arrays from here on do not fit the second-level cache.
constexpr std::size_t kStreamBytes = 512 * 1024;

inline void decode(const LloydParameters& parameters, const DecodeArgs& args) {
  const ChunkCoder coder(parameters, args.count);
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(args.values) % (kLanes * sizeof(float)) == 0;
  const bool streams = aligned && args.count * sizeof(float) >= kStreamBytes;
  Scratch scratch;
  for (std::size_t block = 0; block < coder.chunk().block_count(); ++block) {
    if (parameters.dtype == DType::kFloat32) {
      auto* values =
          static_cast<float*>(arrays::at<float>(args.values, coder.chunk().first_of(block)));
      coder.decode(block, args.wire, scratch, {values, streams});
      continue;
    }
    coder.decode(block, args.wire, scratch, {scratch.decoded});
    store_decoded({parameters.dtype, args.values, coder.chunk().first_of(block),
                   coder.chunk().length_of(block), args.form},
                  scratch);
  }
  if (streams) hwy::FlushStream();
}

inline void decode_add(const LloydParameters& parameters, const DecodeAddArgs& args) {
  const ChunkCoder coder(parameters, args.count);
  Scratch scratch;
  for (std::size_t block = 0; block < coder.chunk().block_count(); ++block) {
    coder.decode(block, args.wire, scratch, {scratch.decoded});
    const std::size_t first = coder.chunk().first_of(block);
    const std::size_t count = coder.chunk().length_of(block);
    arrays::load_array(DType::kFloat32, args.sum, first, count, scratch.y);
    arrays::add_floats(scratch.decoded, 0, count, scratch.y);
    arrays::store_array(DType::kFloat32, scratch.y, count, args.sum, first);
  }
}

/// sum = the contributions to a block, in order.
inline void gather_sum(const ChunkCoder& coder, DType dtype, const DecodeAddEncodeArgs& args,
                       std::size_t block, Scratch& scratch, float* HWY_RESTRICT sum) {
  const std::size_t first = coder.chunk().first_of(block);
  const std::size_t count = coder.chunk().length_of(block);
  for (std::size_t position = 0; position <= args.wires.size(); ++position) {
    const std::size_t index = position > args.own_position ? position - 1 : position;
    if (position == args.own_position) {
      if (position == 0) {
        arrays::load_array(dtype, args.values, first, count, sum);
      } else {
        arrays::add_array(dtype, args.values, first, count, sum);
      }
      continue;
    }
    coder.decode(block, args.wires[index], scratch, {position == 0 ? sum : scratch.decoded});
    if (position > 0) {
      arrays::add_floats(scratch.decoded, 0, count, sum);
    }
  }
}

inline void decode_add_encode(const LloydParameters& parameters, const DecodeAddEncodeArgs& args) {
  const Output output{core::output_of(args), args.form};
  const ChunkCoder coder(parameters, args.count, args.values);
  const LloydParameters part = parameters_of_parts(parameters);
  const ChunkCoder part_coder(part, args.count);
  Scratch scratch;
  BlockEncoder encoder(coder, parameters.dtype, output);
  for (std::size_t block = 0; block < coder.chunk().block_count(); ++block) {
    const std::size_t first = coder.chunk().first_of(block);
    const std::size_t count = coder.chunk().length_of(block);
    float* sum = encoder.values();
    gather_sum(part_coder, parameters.dtype, args, block, scratch, sum);
    if (args.divisor != 1) arrays::divide_floats(args.divisor, count, sum);
    if (args.residual != nullptr) arrays::add_floats(args.residual, first, count, sum);
    if (args.wire != nullptr) {
      encoder.encode(block, sum);
    } else {
      arrays::store_array(parameters.dtype, sum, count, args.decoded, first);
    }
  }
  encoder.finish();
}

inline const KernelTable<LloydParameters>& kernels() {
  static constexpr KernelTable<LloydParameters> kTable{encode, decode, decode_add,
                                                       decode_add_encode};
  return kTable;
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::lloyd
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
