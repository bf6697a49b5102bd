#include "perf/all_reduce/npy.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>

#include "nccl_plugin/command/terminal/error.h"

namespace ringpress::perf {
namespace {

static_assert(std::endian::native == std::endian::little, "files are read without swapping");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kLargestHeaderBytes = 65536;

/// The text after `'key':` in the header, without leading blanks.
std::string_view value_of(std::string_view dictionary, std::string_view key) {
  const std::string quoted = "'" + std::string(key) + "'";
  std::size_t at = dictionary.find(quoted);
  if (at == std::string_view::npos) throw terminal::Error("its header has no " + quoted);
  at = dictionary.find(':', at + quoted.size());
  if (at == std::string_view::npos) throw terminal::Error("its header has no value for " + quoted);
  at = dictionary.find_first_not_of(' ', at + 1);
  return at == std::string_view::npos ? std::string_view{} : dictionary.substr(at);
}

/// The element count of "(3, 4)", "(5,)" or "()".
std::size_t parse_shape(std::string_view text) {
  const std::size_t end = text.find(')');
  if (text.empty() || text[0] != '(' || end == std::string_view::npos) {
    throw terminal::Error("its shape is not a tuple");
  }
  std::size_t elements = 1;
  std::size_t position = 1;
  while (position < end) {
    const bool separator = text[position] == ',' || text[position] == ' ';
    if (separator) {
      ++position;
      continue;
    }
    std::size_t extent = 0;
    const std::size_t begin = position;
    for (; position < end && std::isdigit(static_cast<unsigned char>(text[position])) != 0;
         ++position) {
      const auto digit = static_cast<std::size_t>(text[position] - '0');
      if (extent > (std::numeric_limits<std::size_t>::max() - digit) / 10) {
        throw terminal::Error("its shape overflows");
      }
      extent = extent * 10 + digit;
    }
    if (position == begin) throw terminal::Error("its shape holds something other than numbers");
    if (extent != 0 &&
        elements > std::numeric_limits<std::size_t>::max() / sizeof(float) / extent) {
      throw terminal::Error("its shape overflows");
    }
    elements *= extent;
  }
  return elements;
}

std::size_t little_endian(std::string_view bytes) {
  std::size_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return value;
}

}  // namespace

NpyHeader parse_npy_header(std::string_view bytes) {
  if (bytes.substr(0, kMagic.size()) != kMagic) throw terminal::Error("it is not a .npy file");
  if (bytes.size() < 12) throw terminal::Error("it is truncated in the header");
  const int version = static_cast<unsigned char>(bytes[6]);
  if (version < 1 || version > 3) {
    throw terminal::Error("its format version " + std::to_string(version) + " is not supported");
  }
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  const std::size_t header_bytes = little_endian(bytes.substr(8, length_bytes));
  const std::size_t header_begin = 8 + length_bytes;
  if (header_bytes > kLargestHeaderBytes) throw terminal::Error("its header is implausibly long");
  if (bytes.size() < header_begin + header_bytes)
    throw terminal::Error("it is truncated in the header");
  const std::string_view dictionary = bytes.substr(header_begin, header_bytes);

  const std::string_view description = value_of(dictionary, "descr");
  if (description.substr(0, 5) != "'<f4'") {
    throw terminal::Error("its data type is " +
                          std::string(description.substr(0, description.find(','))) +
                          ", only '<f4' (little-endian float32) is supported");
  }
  if (value_of(dictionary, "fortran_order").substr(0, 5) != "False") {
    throw terminal::Error("it is in Fortran order, only C order is supported");
  }
  return {header_begin + header_bytes, parse_shape(value_of(dictionary, "shape"))};
}

std::vector<float> read_npy(const std::string& path) {
  try {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (!file) throw terminal::Error(std::strerror(errno));
    const std::streamoff end = file.tellg();
    if (end < 0) throw terminal::Error("its size cannot be told");
    const auto file_bytes = static_cast<std::size_t>(end);
    std::string head(std::min(file_bytes, kLargestHeaderBytes + 12), '\0');
    file.seekg(0);
    file.read(head.data(), static_cast<std::streamsize>(head.size()));
    if (!file) throw terminal::Error("it cannot be read");
    const NpyHeader header = parse_npy_header(head);
    const std::size_t held_bytes = file_bytes - header.data_offset;
    if (held_bytes / sizeof(float) < header.elements) {
      throw terminal::Error("it is truncated: " + std::to_string(header.elements) +
                            " elements announced, " + std::to_string(held_bytes / sizeof(float)) +
                            " present");
    }
    std::vector<float> values(header.elements);
    file.seekg(static_cast<std::streamoff>(header.data_offset));
    file.read(reinterpret_cast<char*>(values.data()),
              static_cast<std::streamsize>(values.size() * sizeof(float)));
    if (!file) throw terminal::Error("it cannot be read");
    return values;
  } catch (const terminal::Error& error) {
    throw terminal::Error(path + ": " + error.what());
  }
}

}  // namespace ringpress::perf
