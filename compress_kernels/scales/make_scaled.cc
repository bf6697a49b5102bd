// Which codecs have coordinate scales.
#include <memory>
#include <string>
#include <utility>

#include "compress_kernels/factory.h"
#include "compress_kernels/scales/scaled_codec.h"
#include "compress_kernels/specification.h"

namespace ringpress::compress_kernels {
namespace {

/// q2 to q8, but for minmax: its values are far from zero.
bool takes_scales(const Specification& parsed) {
  const std::string_view name = parsed.codec.name;
  const bool is_uniform = name.size() == 2 && name[0] == 'q' && name[1] >= '2' && name[1] <= '8';
  return is_uniform && parsed.values.text("grid") != "minmax";
}

}  // namespace

Result<std::size_t> block_of_scales(const std::string& specification) {
  RINGPRESS_ASSIGN_OR_RETURN(const Specification parsed, parse_specification(specification));
  return takes_scales(parsed) ? parsed.values.number("block") : std::size_t{0};
}

Result<std::unique_ptr<Codec>> make_scaled_codec(const std::string& specification, DType dtype,
                                                 ReduceOp op) {
  RINGPRESS_ASSIGN_OR_RETURN(const Specification parsed, parse_specification(specification));
  if (!takes_scales(parsed)) {
    return Status(Code::kUnsupported, "codec " + specification + " takes no coordinate scales");
  }
  RINGPRESS_ASSIGN_OR_RETURN(const std::unique_ptr<Codec> plain,
                             make_codec(specification, dtype, op));
  RINGPRESS_ASSIGN_OR_RETURN(std::unique_ptr<Codec> inner,
                             make_codec(specification, DType::kFloat32, op));
  CodecIdentity identity{plain->specification() + " with scales", dtype, op, plain->traits()};
  return std::unique_ptr<Codec>(
      std::make_unique<scales::ScaledCodec>(std::move(identity), std::move(inner)));
}

}  // namespace ringpress::compress_kernels
