// BitCoder where AVX-512 can move chosen bytes together and apart (VBMI2): long codes are gathered
// as bytes, and are planes of bits once for the whole tile. Highway's targets have AVX-512 without
// VBMI2, so this is chosen at run time within one of them. Compiled once per target.
#if defined(COMPRESS_KERNELS_LOSSLESS_CODER_VBMI2_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_LOSSLESS_CODER_VBMI2_INL_H_
#undef COMPRESS_KERNELS_LOSSLESS_CODER_VBMI2_INL_H_
#else
#define COMPRESS_KERNELS_LOSSLESS_CODER_VBMI2_INL_H_
#endif

#include <cstring>

#include "compress_kernels/lossless/coder-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::lossless {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_AVX3

#define RINGPRESS_VBMI2 __attribute__((target(HWY_TARGET_STR ",avx512vbmi2")))

inline bool has_vbmi2() {
  return __builtin_cpu_supports("avx512vbmi2") != 0;
}

constexpr char kEscapeByte = 3 | (kEscape & 7) << 2;  // Of CodeTable.

/// Bytes that were moved together, one group after the other.
struct Gathered {
  HWY_ALIGN std::uint8_t bytes[kTileElements + kGroup];

  /// Returns `count` and the number of bytes that were appended behind so many. The caller keeps
  /// count, as what lies beside bytes would have to be read again after each of its own stores.
  RINGPRESS_VBMI2 HWY_INLINE std::size_t append(Bytes from, __mmask64 at, std::size_t count) {
    _mm512_storeu_si512(bytes + count, _mm512_maskz_compress_epi8(at, from.raw));
    return count + count_bits(at);
  }
};

struct GatheredCounts {
  std::size_t long_codes = 0;
  std::size_t escapes = 0;
};

/// Codes 64 exponents, of which those of `there` count. Returns the counts with theirs.
RINGPRESS_VBMI2 HWY_INLINE GatheredCounts gather_group(const CodeTable& table,
                                                       const std::uint8_t* group, Bits there,
                                                       std::byte* short_codes, Gathered& long_codes,
                                                       Gathered& escapes, GatheredCounts counts) {
  const Bytes exponents = hn::Load(kByteTag, group);
  const Bytes codes = table.look_up(exponents);
  const __mmask64 lower = _mm512_mask_test_epi8_mask(there, codes.raw, _mm512_set1_epi8(1));
  const __mmask64 upper = _mm512_mask_test_epi8_mask(there, codes.raw, _mm512_set1_epi8(2));
  const __mmask64 escaped =
      _mm512_mask_cmpeq_epi8_mask(there, codes.raw, _mm512_set1_epi8(kEscapeByte));
  std::memcpy(short_codes, &lower, sizeof lower);
  std::memcpy(short_codes + sizeof lower, &upper, sizeof upper);
  return {long_codes.append(codes, _kand_mask64(lower, upper), counts.long_codes),
          escapes.append(exponents, escaped, counts.escapes)};
}

/// Writes bits 2 to 4 of the gathered codes as three planes; returns where they end.
inline std::byte* store_planes(Gathered& codes, std::size_t count, std::byte* to) {
  _mm512_storeu_si512(codes.bytes + count, _mm512_setzero_si512());
  const std::size_t bytes = (count + 7) / 8;
  for (const char bit : {4, 8, 16}) {
    for (std::size_t i = 0; i < bytes; i += 8) {
      const __m512i vector = _mm512_load_si512(codes.bytes + 8 * i);
      const Bits bits = _mm512_test_epi8_mask(vector, _mm512_set1_epi8(bit));
      std::memcpy(to + i, &bits, sizeof bits);
    }
    to += bytes;
  }
  return to;
}

/// As encode_exponents().
RINGPRESS_VBMI2 inline std::byte* gather_exponents(const Exponents& exponents, std::size_t count,
                                                   const Window& window, std::byte* short_codes,
                                                   std::byte* long_codes) {
  const CodeTable table(window);
  Gathered long_ones;
  Gathered escapes;
  GatheredCounts counts;
  std::size_t first = 0;
  for (; first + kGroup <= count; first += kGroup) {
    counts = gather_group(table, exponents.bytes + first, ~Bits{0}, short_codes + first / 4,
                          long_ones, escapes, counts);
  }
  if (first < count) {
    counts = gather_group(table, exponents.bytes + first, (Bits{1} << (count - first)) - 1,
                          short_codes + first / 4, long_ones, escapes, counts);
  }
  std::byte* to = store_planes(long_ones, counts.long_codes, long_codes);
  for (std::size_t i = 0; i < counts.escapes; i += 64) {
    std::memcpy(to + i, escapes.bytes + i, 64);
  }
  return to + counts.escapes;
}

/// The long codes of a tile as bytes, kLong and all.
inline void load_planes(const Codes& codes, Gathered& long_codes) {
  const auto bytes = static_cast<std::size_t>(codes.planes[1] - codes.planes[0]);
  for (std::size_t i = 0; i < bytes; i += 8) {
    __m512i vector = _mm512_set1_epi8(kLong);
    for (int k = 0; k < 3; ++k) {
      const __m512i bit = _mm512_set1_epi8(static_cast<char>(1 << k));
      const __mmask64 at = load_bits(codes.planes[k] + i);
      vector = _mm512_mask_add_epi8(vector, at, vector, bit);
    }
    _mm512_store_si512(long_codes.bytes + 8 * i, vector);
  }
}

/// As decode_exponents().
RINGPRESS_VBMI2 inline void expand_exponents(const Codes& codes, const Window& window,
                                             std::size_t groups, Exponents& exponents) {
  const Bytes table = exponent_table(window);
  Gathered long_codes;
  load_planes(codes, long_codes);
  const std::uint8_t* next = long_codes.bytes;
  const std::byte* escape = codes.escapes;
  for (std::size_t g = 0; g < groups; ++g) {
    const __mmask64 lower = load_bits(codes.short_codes + 16 * g);
    const __mmask64 upper = load_bits(codes.short_codes + 16 * g + 8);
    const __mmask64 is_long = _kand_mask64(lower, upper);
    __m512i code = _mm512_maskz_mov_epi8(lower, _mm512_set1_epi8(1));
    code = _mm512_mask_add_epi8(code, upper, code, _mm512_set1_epi8(2));
    code = _mm512_mask_expand_epi8(code, is_long, _mm512_loadu_si512(next));
    next += count_bits(is_long);
    const __mmask64 escaped = _mm512_cmpeq_epi8_mask(code, _mm512_set1_epi8(kEscape));
    __m512i exponent = _mm512_shuffle_epi8(table.raw, code);
    exponent = _mm512_mask_expand_epi8(exponent, escaped, _mm512_loadu_si512(escape));
    escape += count_bits(escaped);
    _mm512_store_si512(exponents.bytes + g * kGroup, exponent);
  }
}

struct Vbmi2Coder {
  static constexpr auto encode = gather_exponents;
  static constexpr auto decode = expand_exponents;
};

#undef RINGPRESS_VBMI2

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::lossless
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
