// Writes the golden files into the folder that is named on the command line. See README.md.
#include <cstdio>
#include <fstream>

#include "tests/compress_kernels/golden_cases.h"

namespace {

namespace codecs = ringpress::compress_kernels;

bool write(const std::string& path, const std::vector<std::byte>& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  if (file.flush()) return true;
  std::fprintf(stderr, "make_golden: cannot write %s\n", path.c_str());
  return false;
}

bool write_all(const char* folder) {
  namespace testing = codecs::testing;
  bool written = true;
  for (const ringpress::DType dtype : testing::kGoldenTypes) {
    for (const std::string_view codec : codecs::codec_names()) {
      written &=
          write(testing::golden_file(folder, codec, dtype), testing::golden_bytes(codec, dtype));
    }
    for (const std::string_view codec : testing::kGoldenPartialCodecs) {
      written &= write(testing::golden_file(folder, std::string(codec) + "-partial", dtype),
                       testing::golden_partial_bytes(codec, dtype));
    }
  }
  return written;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_golden FOLDER\n");
    return 2;
  }
  if (!codecs::force_isa("scalar").is_ok()) return 1;
  return write_all(argv[1]) ? 0 : 1;
}
