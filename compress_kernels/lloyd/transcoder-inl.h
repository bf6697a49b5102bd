// Whole blocks of qB:grid=lloyd: rotations for each block size, codes for each width. Compiled once
// per target.
#if defined(COMPRESS_KERNELS_LLOYD_TRANSCODER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_LLOYD_TRANSCODER_INL_H_
#undef COMPRESS_KERNELS_LLOYD_TRANSCODER_INL_H_
#else
#define COMPRESS_KERNELS_LLOYD_TRANSCODER_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compress_kernels/core/block_scale.h"
#include "compress_kernels/core/pack-inl.h"
#include "compress_kernels/core/unpack-inl.h"
#include "compress_kernels/lloyd/block.h"
#include "compress_kernels/lloyd/block_sums-inl.h"
#include "compress_kernels/lloyd/hadamard-inl.h"
#include "compress_kernels/lloyd/lookup-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::lloyd {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

using arrays::Integers, arrays::kPackElements, arrays::kStepElements, arrays::load_floats,
    arrays::store_floats;

/// Bytes that stores of packed codes may write past the last one, and loads read.
constexpr std::size_t kCodeSlack = 64;

/// The values of a block before it is encoded.
struct Values {
  alignas(64) float x[kLargestLloydBlock];
};

/// The scratch memory of one block, in the first-level cache.
struct Scratch {
  alignas(64) float passes[kLargestLloydBlock];   // Between the passes of the transform.
  alignas(64) float y[kLargestLloydBlock];        // Rotated values, then their levels.
  alignas(64) float decoded[kLargestLloydBlock];  // What the codes decode to.
  alignas(64) std::uint8_t codes[kLargestLloydBlock + kCodeSlack];
  alignas(64) std::uint8_t low_codes[kLargestLloydBlock / 4 + kCodeSlack];  // See bit_pack.h.
};

/// The sign bits of a rotation, one word per element.
struct SignMasks {
  alignas(64) std::uint32_t words[kLargestLloydBlock];

  SignMasks() {}
  SignMasks(std::uint64_t seed, int round) { fill(seed, round); }

  void fill(std::uint64_t seed, int round) {
    const Signs signs(seed, round);
    for (std::size_t i = 0; i < kLargestLloydBlock; i += kLanes) {
      const Words word = hn::Set(kWordTag, signs.words[i / 32]);
      const Words shift = hn::Sub(hn::Set(kWordTag, 31 - static_cast<std::uint32_t>(i % 32)),
                                  hn::Iota(kWordTag, 0));
      hn::Store(hn::And(hn::Shl(word, shift), hn::Set(kWordTag, core::kSignBit)), kWordTag,
                words + i);
    }
  }

  HWY_INLINE Floats at(std::size_t i) const {
    return hn::BitCast(kFloatTag, hn::Load(kWordTag, words + i));
  }
};

/// The sign bits of blocks that share a seed. Kept until another one is asked for.
class SharedMasks {
 public:
  const SignMasks* of(std::uint64_t seed) {
    if (seed_ != seed) {
      seed_ = seed;
      masks_.fill(seed, 0);
    }
    return &masks_;
  }

 private:
  std::uint64_t seed_ = 0;  // No shared one: nothing is there yet.
  SignMasks masks_;
};

/// The signs of a block's rotations; null: there is no such rotation.
struct Rotations {
  const SignMasks* first = nullptr;
  const SignMasks* second = nullptr;
};

/// Where decoded values go.
struct DecodeDestination {
  float* values = nullptr;  // Any alignment, but that of a vector if they are streamed.
  bool streams = false;     // Around the cache.
};

/// What the blocks of one chunk have in common.
struct BlockOptions {
  std::size_t block = 0;  // Elements.
  bool unbiased = false;
  bool needs_levels = false;  // Leave the levels in Scratch::y.
  // The caller's values of this block. While it is quantised, which needs no memory, the ones that
  // come after them are asked for.
  const std::byte* values = nullptr;
  std::size_t value_bytes = 0;  // Of one.
  float gain = 1;               // rotation_gain() of a whole block.
};

/// The rotations of one block size.
template <std::size_t kBlock>
struct Rotator {
  /// Rotates x into scratch.y; gives the sum of squares.
  static float rotate(const float* x, const Rotations& rotations, Scratch& scratch) {
    const auto load = [&](std::size_t i) { return load_floats<float>(x, i); };
    const auto store = [&](std::size_t i, Floats v) { hn::Store(v, kFloatTag, scratch.y + i); };
    if (rotations.first == nullptr) {
      for (std::size_t i = 0; i < kBlock; i += kLanes) store(i, load(i));
      return sum_squares<kBlock>(scratch.y);
    }
    const auto load_first = [&](std::size_t i) { return hn::Xor(load(i), rotations.first->at(i)); };
    hadamard<kBlock>(scratch.passes, load_first, store);
    if (rotations.second == nullptr) return sum_squares<kBlock>(scratch.y);
    const auto load_second = [&](std::size_t i) {
      return hn::Xor(hn::Load(kFloatTag, scratch.y + i), rotations.second->at(i));
    };
    hadamard<kBlock>(scratch.passes, load_second, store);
    return sum_squares<kBlock>(scratch.y);
  }

  /// The levels in scratch.y back to values.
  static void rotate_back(float unit, const Rotations& rotations, Scratch& scratch,
                          const DecodeDestination& destination) {
    const Floats units = hn::Set(kFloatTag, unit);
    if (unit > kLargestSafeUnit || unit < -kLargestSafeUnit) {
      const Floats limit = hn::Set(kFloatTag, std::numeric_limits<float>::max());
      rotate_back_with(rotations, scratch, destination.values, [&](Floats v, float* to) {
        const Floats value = hn::Max(hn::Min(hn::Mul(v, units), limit), hn::Neg(limit));
        store_floats<float>(value, to, 0);
      });
    } else if (destination.streams) {
      rotate_back_with(rotations, scratch, destination.values,
                       [&](Floats v, float* to) { hn::Stream(hn::Mul(v, units), kFloatTag, to); });
    } else {
      rotate_back_with(rotations, scratch, destination.values,
                       [&](Floats v, float* to) { store_floats<float>(hn::Mul(v, units), to, 0); });
    }
  }

 private:
  /// Levels are below 4, and two rotations of 1024 values multiply them with 2^20 at most: with
  /// units up to here no value overflows.
  static constexpr float kLargestSafeUnit = 0x1p100f;

  /// finish(v, to) stores what v times the unit is. Signs are applied before: a product with a
  /// negated factor is the negated product.
  template <typename Finish>
  static HWY_INLINE void rotate_back_with(const Rotations& rotations, Scratch& scratch,
                                          float* values, Finish&& finish) {
    const auto load = [&](std::size_t i) { return hn::Load(kFloatTag, scratch.y + i); };
    if (rotations.first == nullptr) {
      for (std::size_t i = 0; i < kBlock; i += kLanes) finish(load(i), values + i);
      return;
    }
    const auto undo_first = [&](std::size_t i, Floats v) {
      finish(hn::Xor(v, rotations.first->at(i)), values + i);
    };
    if (rotations.second == nullptr) {
      hadamard<kBlock>(scratch.passes, load, undo_first);
      return;
    }
    const auto undo_second = [&](std::size_t i, Floats v) {
      hn::Store(hn::Xor(v, rotations.second->at(i)), kFloatTag, scratch.y + i);
    };
    hadamard<kBlock>(scratch.passes, load, undo_second);
    hadamard<kBlock>(scratch.passes, load, undo_first);
  }
};

/// The codes of one width.
template <int kBits>
struct Quantiser {
  /// Quantises scratch.y into scratch.codes; gives the stored scale. `power` is in the range that
  /// needs no other factor than 1.
  static std::uint16_t quantise(float power, const BlockOptions& options, Scratch& scratch) {
    const LevelFinder<kBits> finder(std::sqrt(power / static_cast<float>(options.block)));
    const std::size_t width = std::min(options.block, kBlockLanes);
    Sums sums;
    quantise_row<true>(finder, options, {0, width}, scratch, sums);
    for (std::size_t first = width; first < options.block; first += width) {
      quantise_row<false>(finder, options, {first, width}, scratch, sums);
    }
    const float product = sum_vectors(sums.product.lanes, width);
    const float scale =
        options.unbiased ? power / product : product / sum_vectors(sums.square.lanes, width);
    return stored_scale(scale, Power{}, options.gain);
  }

  /// The levels of packed codes into scratch.y. Reads up to 16 bytes past them.
  static void look_up(core::Planes<const std::uint8_t> codes, const BlockOptions& options,
                      Scratch& scratch) {
    const LevelFinder<kBits> finder;
    for (std::size_t i = 0; i < options.block; i += kStepElements) {
      look_up_step<0>(finder, core::HWY_NAMESPACE::load_planes<kBits>(codes, i), scratch.y + i);
    }
  }

 private:
  struct Sums {
    LaneSums product;  // Of values and levels.
    LaneSums square;   // Of levels.
  };
  /// Elements with a lane each.
  struct Row {
    std::size_t first;
    std::size_t count;
  };

  template <bool kBegins>
  static HWY_INLINE void quantise_row(const LevelFinder<kBits>& finder, const BlockOptions& options,
                                      const Row& row, Scratch& scratch, Sums& sums) {
    for (std::size_t lane = 0; lane < row.count; lane += kPackElements) {
      const std::size_t i = row.first + lane;
      for (std::size_t byte = 0; byte < kPackElements * options.value_bytes; byte += 64) {
        // The next block has been read already.
        core::HWY_NAMESPACE::prefetch_ahead(options.values +
                                            (options.block + i) * options.value_bytes + byte);
      }
      const auto quantise = [&](std::size_t vector) HWY_ATTR {
        return quantise_vector<kBegins>(finder, options.needs_levels,
                                        scratch.y + i + vector * kLanes, lane + vector * kLanes,
                                        sums);
      };
      const Integers a = quantise(0);
      const Integers b = quantise(1);
      const Integers c = quantise(2);
      const Integers d = quantise(3);
      core::HWY_NAMESPACE::pack_planes<kBits, 0>(
          a, b, c, d,
          {scratch.codes + i * core::high_plane_bits(kBits) / 8,
           scratch.low_codes + i * core::low_plane_bits(kBits) / 8});
    }
  }

  template <bool kBegins>
  static HWY_INLINE Integers quantise_vector(const LevelFinder<kBits>& finder, bool needs_levels,
                                             float* values, std::size_t lane, Sums& sums) {
    const Floats y = hn::Load(kFloatTag, values);
    const Levels levels = finder.nearest(y);
    sums.product.template add<kBegins>(lane, hn::Mul(y, levels.value));
    sums.square.template add<kBegins>(lane, hn::Mul(levels.value, levels.value));
    if (needs_levels) hn::Store(levels.value, kFloatTag, values);
    return hn::BitCast(hn::RebindToSigned<core::HWY_NAMESPACE::WordTag>(), levels.code);
  }

  template <std::size_t kVector>
  static HWY_INLINE void look_up_step(const LevelFinder<kBits>& finder,
                                      const core::HWY_NAMESPACE::PackedPlanes& packed,
                                      float* levels) {
    if constexpr (kVector < core::HWY_NAMESPACE::kStepVectors) {
      const Words code = core::HWY_NAMESPACE::align_planes<kBits, kVector>(packed);
      hn::Store(finder.value(code), kFloatTag, levels + kVector * kLanes);
      look_up_step<kVector + 1>(finder, packed, levels);
    }
  }
};

/// What a chunk's blocks need, chosen at run time.
struct BlockFunctions {
  float (*rotate)(const float*, const Rotations&, Scratch&) = nullptr;
  void (*rotate_back)(float, const Rotations&, Scratch&, const DecodeDestination&) = nullptr;
  std::uint16_t (*quantise)(float, const BlockOptions&, Scratch&) = nullptr;
  void (*look_up)(core::Planes<const std::uint8_t>, const BlockOptions&, Scratch&) = nullptr;
};

template <std::size_t kBlock>
void choose_rotator(BlockFunctions& functions) {
  functions.rotate = Rotator<kBlock>::rotate;
  functions.rotate_back = Rotator<kBlock>::rotate_back;
}

template <int kBits>
void choose_quantiser(BlockFunctions& functions) {
  functions.quantise = Quantiser<kBits>::quantise;
  functions.look_up = Quantiser<kBits>::look_up;
}

inline void choose_rotator(std::size_t block, BlockFunctions& functions) {
  switch (block) {
    case 64:
      return choose_rotator<64>(functions);
    case 128:
      return choose_rotator<128>(functions);
    case 256:
      return choose_rotator<256>(functions);
    case 512:
      return choose_rotator<512>(functions);
    case 1024:
      return choose_rotator<1024>(functions);
  }
}

inline void choose_quantiser(int bits, BlockFunctions& functions) {
  switch (bits) {
    case 1:
      return choose_quantiser<1>(functions);
    case 2:
      return choose_quantiser<2>(functions);
    case 3:
      return choose_quantiser<3>(functions);
    case 4:
      return choose_quantiser<4>(functions);
    case 5:
      return choose_quantiser<5>(functions);
    case 6:
      return choose_quantiser<6>(functions);
    case 7:
      return choose_quantiser<7>(functions);
    case 8:
      return choose_quantiser<8>(functions);
    case 9:
      return choose_quantiser<9>(functions);
    case 10:
      return choose_quantiser<10>(functions);
  }
}

inline BlockFunctions functions_for(int bits, std::size_t block) {
  BlockFunctions functions;
  choose_rotator(block, functions);
  choose_quantiser(bits, functions);
  return functions;
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::lloyd
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
