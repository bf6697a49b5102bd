// The specification of "none" as code.
#include <cstring>
#include <type_traits>

#include "compress_kernels/core/element.h"
#include "compress_kernels/core/reduce.h"
#include "compress_kernels/none/none.h"

namespace ringpress::compress_kernels::none {
namespace {

/// Calls body(TypeTag<T>, OpTag<op>) for the parameters.
template <typename Body>
void visit(const NoneParameters& parameters, Body&& body) {
  core::visit_dtype(parameters.dtype, [&](auto type) {
    core::visit_op(parameters.op, [&](auto op) { body(type, op); });
  });
}

template <typename T>
core::Wide<T> load_own(const void* values, double input_scale, std::size_t i) {
  const core::Wide<T> value = core::load_wide<T>(values, i);
  if (input_scale == 1) return value;
  return core::apply_scale(value, core::convert_scale<core::Wide<T>>(input_scale));
}

void encode(const NoneParameters& parameters, const EncodeArgs& args) {
  RINGPRESS_EXPECTS(args.residual == nullptr, "none: an exact reduction has no residual");
  visit(parameters, [&](auto type, auto) {
    using T = typename decltype(type)::type;
    for (std::size_t i = 0; i < args.count; ++i) {
      T element = core::load_element<T>(args.values, i);
      if (args.input_scale != 1) {
        core::store_wide<T>(&element, 0, load_own<T>(args.values, args.input_scale, i));
      }
      core::store_element(args.wire, i, element);
      if (args.decoded != nullptr) core::store_element(args.decoded, i, element);
    }
  });
}

void decode(const NoneParameters& parameters, const DecodeArgs& args) {
  std::memmove(args.values, args.wire, encoded_bytes(parameters, args.count));
}

void decode_add(const NoneParameters& parameters, const DecodeAddArgs& args) {
  visit(parameters, [&](auto type, auto op) {
    using T = typename decltype(type)::type;
    // Sums of the compressible types are kept in float32, those of all others in their own type.
    using Sum =
        std::conditional_t<std::is_same_v<T, core::Float16> || std::is_same_v<T, core::Bfloat16>,
                           float, T>;
    for (std::size_t i = 0; i < args.count; ++i) {
      const core::Wide<T> sum = core::load_wide<Sum>(args.sum, i);
      const core::Wide<T> part = core::load_wide<T>(args.wire, i);
      core::store_wide<Sum>(args.sum, i, core::reduce<op()>(sum, part));
    }
  });
}

void decode_add_encode(const NoneParameters& parameters, const DecodeAddEncodeArgs& args) {
  RINGPRESS_EXPECTS(args.residual == nullptr, "none: an exact reduction has no residual");
  visit(parameters, [&](auto type, auto op) {
    using T = typename decltype(type)::type;
    for (std::size_t i = 0; i < args.count; ++i) {
      const core::Wide<T> sum = core::reduce_in_order<op()>(
          args.wires.size(), args.own_position,
          [&](std::size_t k) { return core::load_wide<T>(args.wires[k], i); },
          [&] { return load_own<T>(args.values, args.input_scale, i); });
      const core::Wide<T> result = args.divisor == 1 ? sum : core::divide(sum, args.divisor);
      if (args.wire != nullptr) core::store_wide<T>(args.wire, i, result);
      if (args.decoded != nullptr) core::store_wide<T>(args.decoded, i, result);
    }
  });
}

}  // namespace

const KernelTable<NoneParameters>& reference_kernels() {
  static constexpr KernelTable<NoneParameters> kTable{encode, decode, decode_add,
                                                      decode_add_encode};
  return kTable;
}

}  // namespace ringpress::compress_kernels::none
