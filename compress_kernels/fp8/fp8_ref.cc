// The specification of fp8 as code: plain loops over blocks and elements.
#include "compress_kernels/core/block_reference.h"
#include "compress_kernels/core/element.h"
#include "compress_kernels/fp8/codes.h"
#include "compress_kernels/fp8/fp8.h"

namespace ringpress::compress_kernels::fp8 {
namespace {

class ReferenceFormat {
 public:
  ReferenceFormat(const Fp8Parameters& parameters, std::size_t count)
      : parameters_(parameters), codes_offset_(fp8_codes_offset(parameters, count)) {}

  void clear(std::byte*) const {}

  void encode(const core::Block& block, const RandomKey& random, std::byte* wire) const {
    auto* codes = reinterpret_cast<std::uint8_t*>(wire) + codes_offset_ + block.first;
    const auto store = [&](std::uint16_t unit) {
      core::store_element(wire, block.first / parameters_.block, unit);
    };
    const bool stochastic = parameters_.stochastic;
    if (parameters_.format == Float8Format::kE4m3) {
      constexpr Float8Format kFormat = Float8Format::kE4m3;
      const auto encode = stochastic ? encode_block<kFormat, true> : encode_block<kFormat, false>;
      store(encode(block.x, block.count, random, block.first, codes));
    } else {
      constexpr Float8Format kFormat = Float8Format::kE5m2;
      const auto encode = stochastic ? encode_block<kFormat, true> : encode_block<kFormat, false>;
      store(encode(block.x, block.count, random, block.first, codes));
    }
  }

  float decode(const std::byte* wire, std::size_t index) const {
    const auto unit = core::load_element<std::uint16_t>(wire, index / parameters_.block);
    const auto code = core::load_element<std::uint8_t>(wire + codes_offset_, index);
    return parameters_.format == Float8Format::kE4m3
               ? value_of_code<Float8Format::kE4m3>(code, unit)
               : value_of_code<Float8Format::kE5m2>(code, unit);
  }

 private:
  const Fp8Parameters& parameters_;
  std::size_t codes_offset_;
};

}  // namespace

const KernelTable<Fp8Parameters>& reference_kernels() {
  static constexpr KernelTable<Fp8Parameters> kTable =
      core::BlockReference<Fp8Parameters, ReferenceFormat>::table();
  return kTable;
}

}  // namespace ringpress::compress_kernels::fp8
