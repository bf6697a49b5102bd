// The exponents of a tile to their codes and back. Compiled once per target.
#if defined(COMPRESS_KERNELS_LOSSLESS_CODER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_LOSSLESS_CODER_INL_H_
#undef COMPRESS_KERNELS_LOSSLESS_CODER_INL_H_
#else
#define COMPRESS_KERNELS_LOSSLESS_CODER_INL_H_
#endif

#include <bit>
#include <cstring>

#include "compress_kernels/lossless/bytes-inl.h"
#include "compress_kernels/lossless/tile.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::lossless {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

constexpr std::size_t kTileGroups = kTileElements / kGroup;

/// Exponents of a tile, with room for one byte that is written behind a group without need.
struct Exponents {
  HWY_ALIGN std::uint8_t bytes[kTileElements + 64];
};

/// Three planes of bits of the long codes, to which those of a group are appended.
class LongCodeWriter {
 public:
  /// The lowest `count` bits of each; the others are zero.
  HWY_INLINE void append(Bits lower, Bits middle, Bits upper, std::size_t count) {
    const std::size_t word = bits_ / 64;
    const std::size_t shift = bits_ % 64;
    put(planes_[0] + word, lower, shift);
    put(planes_[1] + word, middle, shift);
    put(planes_[2] + word, upper, shift);
    bits_ += count;
  }
  /// Returns where the planes end. Up to 63 bytes beyond that are written.
  HWY_INLINE std::byte* store(std::byte* to) const {
    const std::size_t bytes = (bits_ + 7) / 8;
    for (const Bits* plane : {planes_[0], planes_[1], planes_[2]}) {
      for (std::size_t i = 0; i < bytes; i += 64) std::memcpy(to + i, plane + i / 8, 64);
      to += bytes;
    }
    return to;
  }

 private:
  static HWY_INLINE void put(Bits* at, Bits bits, std::size_t shift) {
    at[0] |= bits << shift;
    at[1] = (bits >> 1) >> (63 - shift);
  }

  // A word more, which append() writes; whole cache lines for store().
  HWY_ALIGN Bits planes_[3][24] = {};
  std::size_t bits_ = 0;
};

/// Escaped exponents, in order.
class EscapeWriter {
 public:
  /// `group`: 64 exponents, and one byte that can be read.
  HWY_INLINE void append(const std::uint8_t* group, Bits escaped) {
    const std::size_t count = count_bits(escaped);
    // Two without asking, as their number cannot be predicted; more are rare.
    bytes_[count_] = group[std::countr_zero(escaped)];
    Bits rest = escaped & (escaped - 1);
    bytes_[count_ + 1] = group[std::countr_zero(rest)];
    for (std::size_t i = 2; i < count; ++i) {
      rest &= rest - 1;
      bytes_[count_ + i] = group[std::countr_zero(rest)];
    }
    count_ += count;
  }
  HWY_INLINE std::byte* store(std::byte* to) const {
    for (std::size_t i = 0; i < count_; i += 64) std::memcpy(to + i, bytes_ + i, 64);
    return to + count_;
  }

 private:
  std::uint8_t bytes_[kTileElements + 64];
  std::size_t count_ = 0;
};

/// Looks codes up for one window.
class CodeTable {
 public:
  explicit CodeTable(const Window& window)
      : table_(hn::LoadDup128(kByteTag, tables_of(window).codes)),
        first_(hn::Set(kByteTag, window.first)),
        has_zero_(window.has_zero) {}

  /// The short code in the two lowest bits (3: none), the long code above it.
  HWY_INLINE Bytes look_up(Bytes exponents) const {
    const Bytes place = hn::Min(hn::Sub(exponents, first_), hn::Set(kByteTag, std::uint8_t{15}));
    const Bytes codes = hn::TableLookupBytes(table_, place);
    if (!has_zero_) return codes;
    const auto is_zero = hn::Eq(exponents, hn::Zero(kByteTag));
    return hn::IfThenElse(is_zero, hn::Set(kByteTag, kZero), codes);
  }

 private:
  static constexpr std::uint8_t kZero = 3 | (kZeroCode & 7) << 2;

  Bytes table_;
  Bytes first_;
  bool has_zero_;
};

/// Writes the codes of `count` exponents; returns where they end.
inline std::byte* encode_exponents(const Exponents& exponents, std::size_t count,
                                   const Window& window, std::byte* short_codes,
                                   std::byte* long_codes) {
  const CodeTable table(window);
  LongCodeWriter writer;
  EscapeWriter escapes;
  for (std::size_t first = 0; first < count; first += kGroup) {
    const std::uint8_t* group = exponents.bytes + first;
    Bits bits[5];
    for (std::size_t i = 0; i < kGroup; i += kVectorBytes) {
      const Bytes codes = table.look_up(hn::Load(kByteTag, group + i));
      for (std::size_t k = 0; k < 5; ++k) {
        const Bytes bit = hn::Set(kByteTag, static_cast<std::uint8_t>(1u << k));
        put_bits(hn::TestBit(codes, bit), i, &bits[k]);
      }
    }
    const Bits there = count - first >= kGroup ? ~Bits{0} : (Bits{1} << (count - first)) - 1;
    const Bits short_words[] = {bits[0] & there, bits[1] & there};
    const Bits is_long = short_words[0] & short_words[1];
    std::memcpy(short_codes + first / 4, short_words, sizeof short_words);
    writer.append(gather_bits(bits[2], is_long), gather_bits(bits[3], is_long),
                  gather_bits(bits[4], is_long), count_bits(is_long));
    escapes.append(group, is_long & bits[2] & bits[3] & bits[4]);
  }
  return escapes.store(writer.store(long_codes));
}

/// The codes of a tile as they lie on the wire.
struct Codes {
  const std::byte* short_codes = nullptr;
  const std::byte* planes[3] = {};
  const std::byte* escapes = nullptr;
  const std::byte* end = nullptr;
};

/// Finds the parts of a tile, whose bytes end at `limit`; false if they are not there.
inline bool find_codes(const std::byte* short_codes, std::size_t groups,
                       const std::byte* long_codes, const std::byte* limit, Codes* codes) {
  std::size_t long_count = 0;
  for (std::size_t i = 0; i < 16 * groups; i += 16) {
    long_count += count_bits(load_bits(short_codes + i) & load_bits(short_codes + i + 8));
  }
  const std::size_t bytes = (long_count + 7) / 8;
  if (static_cast<std::size_t>(limit - long_codes) < 3 * bytes) return false;
  const std::byte* escapes = long_codes + 3 * bytes;
  *codes = {
      short_codes, {long_codes, long_codes + bytes, long_codes + 2 * bytes}, escapes, escapes};
  for (std::size_t i = 0; i < long_count; i += 64) {
    Bits all = load_bits(codes->planes[0] + i / 8) & load_bits(codes->planes[1] + i / 8) &
               load_bits(codes->planes[2] + i / 8);
    if (long_count - i < 64) all &= (Bits{1} << (long_count - i)) - 1;
    codes->end += count_bits(all);
  }
  return codes->end <= limit;
}

/// The next 64 bits of a plane, from bit `at` on; of which `needed` must be right.
HWY_INLINE Bits read_bits(const std::byte* plane, std::size_t at, std::size_t needed) {
  const std::byte* from = plane + at / 8;
  Bits bits = load_bits(from) >> at % 8;
  if (HWY_UNLIKELY(needed > 57)) {
    bits |= (std::to_integer<Bits>(from[8]) << 1) << (63 - at % 8);
  }
  return bits;
}

/// Exponents of a group from its codes, bit by bit of weight.
HWY_INLINE void look_up_group(const Bits (&bits)[4], Bytes table, std::uint8_t* group) {
  for (std::size_t i = 0; i < kGroup; i += kVectorBytes) {
    Bytes codes = hn::Zero(kByteTag);
    for (std::size_t k = 0; k < 4; ++k) {
      const Bytes bit = hn::Set(kByteTag, static_cast<std::uint8_t>(1u << k));
      codes = hn::Or(codes, hn::IfThenElseZero(get_bits(&bits[k], i), bit));
    }
    hn::Store(hn::TableLookupBytes(table, codes), kByteTag, group + i);
  }
}

HWY_INLINE const std::byte* put_escapes(Bits escaped, const std::byte* from, std::uint8_t* group) {
  const std::size_t count = count_bits(escaped);
  // Two without asking; without an escape they go behind the group, and are overwritten.
  group[std::countr_zero(escaped)] = std::to_integer<std::uint8_t>(from[0]);
  Bits rest = escaped & (escaped - 1);
  group[std::countr_zero(rest)] = std::to_integer<std::uint8_t>(from[1]);
  for (std::size_t i = 2; i < count; ++i) {
    rest &= rest - 1;
    group[std::countr_zero(rest)] = std::to_integer<std::uint8_t>(from[i]);
  }
  return from + count;
}

/// Exponents by code.
HWY_INLINE Bytes exponent_table(const Window& window) {
  const WindowTables& tables = tables_of(window);
  const Bytes exponents =
      hn::Add(hn::LoadDup128(kByteTag, tables.places), hn::Set(kByteTag, window.first));
  return hn::And(exponents, hn::LoadDup128(kByteTag, tables.kept));
}

inline void decode_exponents(const Codes& codes, const Window& window, std::size_t groups,
                             Exponents& exponents) {
  const Bytes table = exponent_table(window);
  std::size_t at = 0;
  const std::byte* escape = codes.escapes;
  for (std::size_t g = 0; g < groups; ++g) {
    const Bits lower = load_bits(codes.short_codes + 16 * g);
    const Bits upper = load_bits(codes.short_codes + 16 * g + 8);
    const Bits is_long = lower & upper;
    const std::size_t count = count_bits(is_long);
    const Bits p0 = spread_bits(read_bits(codes.planes[0], at, count), is_long);
    const Bits p1 = spread_bits(read_bits(codes.planes[1], at, count), is_long);
    const Bits p2 = spread_bits(read_bits(codes.planes[2], at, count), is_long);
    at += count;
    const Bits bits[4] = {(lower ^ is_long) | p0, (upper ^ is_long) | p1, p2, is_long};
    std::uint8_t* group = exponents.bytes + g * kGroup;
    look_up_group(bits, table, group);
    escape = put_escapes(p0 & p1 & p2, escape, group);
  }
}

/// Gathers and spreads codes as bits of words.
struct BitCoder {
  static constexpr auto encode = encode_exponents;
  static constexpr auto decode = decode_exponents;
};

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::lossless
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
