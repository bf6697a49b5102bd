// Specification strings: "name" or "name:parameter=value,parameter=value".
#ifndef COMPRESS_KERNELS_SPECIFICATION_H_
#define COMPRESS_KERNELS_SPECIFICATION_H_

#include <string>
#include <string_view>
#include <vector>

#include "compress_kernels/uniform/uniform.h"
#include "ringpress/status.h"

namespace ringpress::compress_kernels {

enum class Family { kNone, kCastFloat16, kCastBfloat16, kUniform };

/// One line of codecs.inc.
struct CodecEntry {
  std::string_view name;
  Family family;
  int bits;
};

/// All codecs, in the order of codecs.inc.
const std::vector<CodecEntry>& codec_list();

struct Specification {
  CodecEntry codec{};
  UniformParameters uniform;  // Meaningful for Family::kUniform; its dtype is not set here.
};

/// kInvalidArgument names the unknown name or parameter, the value and what is allowed.
Result<Specification> parse_specification(const std::string& text);

/// Every parameter spelled out in a fixed order; parses back to the same Specification.
std::string to_string(const Specification& specification);

}  // namespace ringpress::compress_kernels

#endif  // COMPRESS_KERNELS_SPECIFICATION_H_
