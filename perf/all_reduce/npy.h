// Reads the .npy files that NumPy writes, as far as gradients need: little-endian float32 in C
// order, format versions 1 to 3. A file is not trusted: every field is checked before it is used.
#ifndef PERF_ALL_REDUCE_NPY_H_
#define PERF_ALL_REDUCE_NPY_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ringpress::perf {

struct NpyHeader {
  std::size_t data_offset = 0;  // Bytes before the first element.
  std::size_t elements = 0;
};

/// Parses the start of a file. Throws terminal::Error that says what is wrong or not supported.
NpyHeader parse_npy_header(std::string_view bytes);

/// All elements of a file, in order. Throws terminal::Error that names the file.
std::vector<float> read_npy(const std::string& path);

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_NPY_H_
