// The wire bytes stay what they were: old and new builds, and every instruction set, understand
// each other.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tests/compress_kernels/golden_cases.h"

namespace ringpress::compress_kernels::testing::golden_test {
namespace {

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

TEST(Golden, WireBytesAreThoseOnFile) {
  for (const std::string& isa : available_isas()) {
    ASSERT_TRUE(force_isa(isa).is_ok());
    for (const std::string_view codec : codec_names()) {
      for (const DType dtype : kGoldenTypes) {
        const std::string path = golden_file(RINGPRESS_GOLDEN_DIR, codec, dtype);
        EXPECT_TRUE(golden_bytes(codec, dtype) == read_file(path)) << path << " on " << isa;
      }
    }
    for (const std::string_view codec : kGoldenPartialCodecs) {
      for (const DType dtype : kGoldenTypes) {
        const std::string path =
            golden_file(RINGPRESS_GOLDEN_DIR, std::string(codec) + "-partial", dtype);
        EXPECT_TRUE(golden_partial_bytes(codec, dtype) == read_file(path)) << path << " on " << isa;
      }
    }
  }
  ASSERT_TRUE(force_isa("").is_ok());
}

}  // namespace
}  // namespace ringpress::compress_kernels::testing::golden_test
