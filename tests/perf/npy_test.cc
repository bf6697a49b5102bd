#include "perf/all_reduce/npy.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "nccl_plugin/command/terminal/error.h"
#include "perf/all_reduce/input.h"

namespace ringpress::perf {
namespace {

std::string header(const std::string& dictionary, int version = 1) {
  std::string text = "\x93NUMPY";
  text += static_cast<char>(version);
  text += '\0';
  const std::string padded = dictionary + "\n";
  std::size_t length = padded.size();
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) {
    text += static_cast<char>(length & 0xFF);
    length >>= 8;
  }
  return text + padded;
}

std::string dictionary(const std::string& type, const std::string& order,
                       const std::string& shape) {
  return "{'descr': " + type + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }";
}

const std::string kGood = dictionary("'<f4'", "False", "(3,)");

std::string message_of(const std::string& bytes) {
  try {
    parse_npy_header(bytes);
  } catch (const terminal::Error& error) {
    return error.what();
  }
  return "accepted";
}

/// A file that is gone at the end of the test.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content)
      : path_(testing::TempDir() + "npy_test." + std::to_string(getpid()) + "_rank0.npy") {
    std::ofstream(path_, std::ios::binary) << content;
  }
  ~TemporaryFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string floats(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST(Npy, ParsesEveryVersionAndShape) {
  for (const int version : {1, 2, 3}) {
    const NpyHeader parsed = parse_npy_header(header(kGood, version));
    EXPECT_EQ(parsed.elements, 3U);
    EXPECT_EQ(parsed.data_offset, header(kGood, version).size());
  }
  EXPECT_EQ(parse_npy_header(header(dictionary("'<f4'", "False", "(3, 4)"))).elements, 12U);
  EXPECT_EQ(parse_npy_header(header(dictionary("'<f4'", "False", "()"))).elements, 1U);
  EXPECT_EQ(parse_npy_header(header(dictionary("'<f4'", "False", "(0,)"))).elements, 0U);
}

TEST(Npy, NamesWhatIsWrong) {
  EXPECT_NE(message_of("hello").find("not a .npy file"), std::string::npos);
  EXPECT_NE(message_of(header(dictionary("'<f8'", "False", "(3,)"))).find("'<f8'"),
            std::string::npos);
  EXPECT_NE(message_of(header(dictionary("'>f4'", "False", "(3,)"))).find("'>f4'"),
            std::string::npos);
  EXPECT_NE(message_of(header(dictionary("'<f4'", "True", "(3,)"))).find("Fortran"),
            std::string::npos);
  EXPECT_NE(message_of(header(dictionary("'<f4'", "False", "3"))).find("tuple"), std::string::npos);
  EXPECT_NE(message_of(header(dictionary("'<f4'", "False", "(-3,)"))).find("other than numbers"),
            std::string::npos);
  EXPECT_NE(message_of(header(dictionary("'<f4'", "False", "(99999999999, 99999999999)")))
                .find("overflows"),
            std::string::npos);
  EXPECT_NE(message_of(header("{'shape': (3,)}")).find("'descr'"), std::string::npos);
  EXPECT_NE(message_of(header(kGood, 9)).find("version 9"), std::string::npos);
  EXPECT_NE(message_of(header(kGood).substr(0, 20)).find("truncated"), std::string::npos);
}

TEST(Npy, ReadsAFile) {
  const std::vector<float> values = {1.5F, -2.0F, 0.25F};
  const TemporaryFile file(header(kGood) + floats(values));
  EXPECT_EQ(read_npy(file.path()), values);
  std::string pattern = file.path();
  pattern.replace(pattern.find("rank0"), 5, "rank%d");
  EXPECT_EQ(input_path(pattern, 0), file.path());
  EXPECT_EQ(read_inputs({pattern, pattern}, 0).size(), 6U);
}

TEST(Npy, TruncatedAndMissingFilesAreNamed) {
  const TemporaryFile file(header(kGood) + "1234");
  try {
    read_npy(file.path());
    FAIL() << "accepted a truncated file";
  } catch (const terminal::Error& error) {
    EXPECT_NE(std::string(error.what()).find("3 elements announced, 1 present"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find(file.path()), std::string::npos);
  }
  EXPECT_THROW(read_npy("/nonexistent/g_rank0.npy"), terminal::Error);
}

RC_GTEST_PROP(Npy, DamagedHeadersAreParsedOrRefused, (std::size_t at, char byte)) {
  std::string bytes = header(kGood);
  bytes[at % bytes.size()] = byte;
  try {
    RC_ASSERT(parse_npy_header(bytes).data_offset <= bytes.size());
  } catch (const terminal::Error& error) {
    RC_ASSERT(*error.what() != '\0');
  }
}

}  // namespace
}  // namespace ringpress::perf
