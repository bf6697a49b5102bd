#include <algorithm>
#include <cstdint>
#include <cstring>

#include "compress_kernels/errors/errors.h"
#include "compress_kernels/factory.h"

namespace ringpress::compress_kernels {
namespace {

/// Of numbers whose exponents are these bits. All of them, in pieces of a fixed size, which
/// compilers turn into vectors.
template <typename Word>
bool are_all_finite(const std::byte* values, std::size_t count, Word exponent) {
  Word piece[errors::kPiece];
  for (std::size_t first = 0; first < count; first += errors::kPiece) {
    const std::size_t some = std::min(errors::kPiece, count - first);
    std::memcpy(piece, values + first * sizeof(Word), some * sizeof(Word));
    std::fill(piece + some, piece + errors::kPiece, Word{0});
    Word found = 0;
    for (std::size_t i = 0; i < errors::kPiece; ++i) {
      found |= static_cast<Word>((piece[i] & exponent) == exponent);
    }
    if (found != 0) return false;
  }
  return true;
}

template <typename Word>
bool are_some_finite(const std::byte* values, std::size_t count, Word exponent, std::size_t step) {
  for (std::size_t i = 0; i < count; i += step) {
    Word word;
    std::memcpy(&word, values + i * sizeof(Word), sizeof(Word));
    if ((word & exponent) == exponent) return false;
  }
  return true;
}

template <typename Word>
bool are_numbers_finite(const void* values, std::size_t count, Word exponent, std::size_t step) {
  const auto* const bytes = static_cast<const std::byte*>(values);
  return step == 1 ? are_all_finite<Word>(bytes, count, exponent)
                   : are_some_finite<Word>(bytes, count, exponent, step);
}

}  // namespace

bool are_finite(const void* values, std::size_t count, DType dtype, std::size_t step) {
  constexpr std::uint32_t kExponent = 0x7F800000;
  constexpr std::uint16_t kHalfExponent = 0x7C00, kBfloat16Exponent = 0x7F80;
  if (dtype == DType::kFloat32) return are_numbers_finite(values, count, kExponent, step);
  const bool is_half = dtype == DType::kFloat16;
  return are_numbers_finite(values, count, is_half ? kHalfExponent : kBfloat16Exponent, step);
}

}  // namespace ringpress::compress_kernels
