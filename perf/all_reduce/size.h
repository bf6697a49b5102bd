// Sizes as people write them.
#ifndef PERF_ALL_REDUCE_SIZE_H_
#define PERF_ALL_REDUCE_SIZE_H_

#include <cstddef>
#include <string>

namespace ringpress::perf {

/// "64", "4K", "1.5M", "2G" (powers of 1024, either case, an optional B) to bytes. Throws
/// PerfError.
std::size_t parse_size(const std::string& text);

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_SIZE_H_
