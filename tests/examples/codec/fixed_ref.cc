// What the codec does, as plain loops. Kernels for vectors and for devices make the same bytes.
#include "compress_kernels/core/block_reference.h"
#include "compress_kernels/core/element.h"
#include "tests/examples/codec/fixed.h"

namespace ringpress::compress_kernels::fixed {
namespace {

class ReferenceFormat {
 public:
  ReferenceFormat(const FixedParameters& parameters, std::size_t) : steps_(parameters.steps) {}

  void clear(std::byte*) const {}

  void encode(const core::Block& block, const RandomKey&, std::byte* wire) const {
    for (std::size_t i = 0; i < block.count; ++i) {
      core::store_element(wire, block.first + i, code_of(block.x[i], steps_));
    }
  }

  float decode(const std::byte* wire, std::size_t index) const {
    return value_of(core::load_element<std::uint8_t>(wire, index), steps_);
  }

 private:
  float steps_;
};

}  // namespace

const KernelTable<FixedParameters>& reference_kernels() {
  static constexpr KernelTable<FixedParameters> kTable =
      core::BlockReference<FixedParameters, ReferenceFormat>::table();
  return kTable;
}

}  // namespace ringpress::compress_kernels::fixed
