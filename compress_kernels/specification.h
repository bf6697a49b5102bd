// Specification strings: "name" or "name:parameter=value,parameter=value".
#ifndef COMPRESS_KERNELS_SPECIFICATION_H_
#define COMPRESS_KERNELS_SPECIFICATION_H_

#include <string>
#include <vector>

#include "compress_kernels/codec_family.h"
#include "ringpress/internal/status.h"

namespace ringpress::compress_kernels {

/// All codecs, in the order of codecs.inc.
const std::vector<CodecEntry>& codec_list();

bool accepts(const ParameterRule& rule, std::string_view value);

struct Specification {
  CodecEntry codec;
  ParameterValues values;
};

/// kInvalidArgument names the unknown name or parameter, the value and what is allowed.
Result<Specification> parse_specification(const std::string& text);

/// Every parameter spelled out in a fixed order; parses back to the same Specification.
std::string to_string(const Specification& specification);

}  // namespace ringpress::compress_kernels

#endif  // COMPRESS_KERNELS_SPECIFICATION_H_
