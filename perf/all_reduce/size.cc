#include "perf/all_reduce/size.h"

#include "perf/all_reduce/error.h"
#include "ringpress/byte_size.h"

namespace ringpress::perf {

std::size_t parse_size(const std::string& text) {
  if (const auto bytes = parse_byte_size(text)) return *bytes;
  throw PerfError("\"" + text + "\" is not " + kByteSizes);
}

}  // namespace ringpress::perf
