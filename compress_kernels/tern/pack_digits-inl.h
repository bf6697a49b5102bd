// Digits of a tile, one per byte, to five per byte and back. Compiled once per target.
#if defined(COMPRESS_KERNELS_TERN_PACK_DIGITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_TERN_PACK_DIGITS_INL_H_
#undef COMPRESS_KERNELS_TERN_PACK_DIGITS_INL_H_
#else
#define COMPRESS_KERNELS_TERN_PACK_DIGITS_INL_H_
#endif

#include "compress_kernels/core/vector_io-inl.h"
#include "compress_kernels/tern/digits.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::tern {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;

using ByteTag = hn::Repartition<std::uint8_t, core::HWY_NAMESPACE::FloatTag>;
using PairTag = hn::Repartition<std::uint16_t, core::HWY_NAMESPACE::FloatTag>;
using Bytes = hn::Vec<ByteTag>;
using Pairs = hn::Vec<PairTag>;
constexpr ByteTag kByteTag;
constexpr PairTag kPairTag;
constexpr std::size_t kByteLanes = hn::MaxLanes(kByteTag);

/// Calls work(j) for the first byte of each vector that covers bytes 0 to `bytes`. The last one may
/// overlap the one before it.
template <typename Work>
HWY_INLINE void for_each_vector(std::size_t bytes, Work&& work) {
  std::size_t j = 0;
  for (; j + kByteLanes < bytes; j += kByteLanes) work(j);
  work(bytes - kByteLanes);
}

/// digits[5 * bytes] to packed[bytes].
HWY_INLINE void pack_digits(const std::uint8_t* HWY_RESTRICT digits, std::size_t bytes,
                            std::uint8_t* HWY_RESTRICT packed) {
  if (bytes < kByteLanes) {
    for (std::size_t j = 0; j < bytes; ++j) {
      std::uint32_t byte = 0;
      for (std::size_t k = 0; k < kDigitsPerByte; ++k) {
        byte += digits[k * bytes + j] * digit_weight(k);
      }
      packed[j] = static_cast<std::uint8_t>(byte);
    }
    return;
  }
  for_each_vector(bytes, [&](std::size_t j) HWY_ATTR {
    Bytes sum = hn::LoadU(kByteTag, digits + (kDigitsPerByte - 1) * bytes + j);
    HWY_UNROLL(4)
    for (std::size_t k = kDigitsPerByte - 1; k-- > 0;) {
      const Bytes digit = hn::LoadU(kByteTag, digits + k * bytes + j);
      sum = hn::Add(hn::Add(sum, sum), hn::Add(sum, digit));
    }
    hn::StoreU(sum, kByteTag, packed + j);
  });
}

/// Each byte divided by three.
HWY_INLINE Bytes third(Bytes bytes) {
  const auto divide = [](Pairs x) HWY_ATTR {
    return hn::ShiftRight<9>(hn::Mul(x, hn::Set(kPairTag, std::uint16_t{171})));
  };
  const Pairs pairs = hn::BitCast(kPairTag, bytes);
  const Pairs even = divide(hn::And(pairs, hn::Set(kPairTag, std::uint16_t{0xFF})));
  const Pairs odd = divide(hn::ShiftRight<8>(pairs));
  return hn::BitCast(kByteTag, hn::Or(even, hn::ShiftLeft<8>(odd)));
}

/// packed[bytes] to digits[5 * bytes]; reads and writes nothing else.
inline void unpack_digits(const std::uint8_t* HWY_RESTRICT packed, std::size_t bytes,
                          std::uint8_t* HWY_RESTRICT digits) {
  if (bytes < kByteLanes) {
    for (std::size_t j = 0; j < bytes; ++j) {
      for (std::size_t k = 0; k < kDigitsPerByte; ++k) {
        digits[k * bytes + j] = static_cast<std::uint8_t>(read_digit(packed[j], k));
      }
    }
    return;
  }
  for_each_vector(bytes, [&](std::size_t j) HWY_ATTR {
    Bytes rest = hn::LoadU(kByteTag, packed + j);
    HWY_UNROLL(4)
    for (std::size_t k = 0; k + 1 < kDigitsPerByte; ++k) {
      const Bytes quotient = third(rest);
      const Bytes thrice = hn::Add(hn::Add(quotient, quotient), quotient);
      hn::StoreU(hn::Sub(rest, thrice), kByteTag, digits + k * bytes + j);
      rest = quotient;
    }
    hn::StoreU(rest, kByteTag, digits + (kDigitsPerByte - 1) * bytes + j);
  });
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::tern
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
