// What the programs that time codecs share.
#ifndef PERF_CODEC_VALUES_H_
#define PERF_CODEC_VALUES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "ringpress/internal/types.h"

namespace ringpress::perf {

/// The type of that name. std::invalid_argument: there is none.
DType parse_dtype(const std::string& name);

/// Values whose exponents vary as those of gradients do: uniform in each of many binades.
void fill_values(DType dtype, std::size_t count, std::byte* values);

/// Not of nothing.
double median(std::vector<double> numbers);

}  // namespace ringpress::perf

#endif  // PERF_CODEC_VALUES_H_
