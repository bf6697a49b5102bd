// Sizes as people write them.
#ifndef PERF_ALL_REDUCE_SIZE_H_
#define PERF_ALL_REDUCE_SIZE_H_

#include <cstddef>
#include <string>

namespace ringpress::perf {

/// As parse_byte_size() (ringpress/byte_size.h). Throws PerfError.
std::size_t parse_size(const std::string& text);

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_SIZE_H_
