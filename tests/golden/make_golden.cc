// Writes the golden files into the folder that is named on the command line. See README.md.
#include <cstdio>
#include <fstream>

#include "tests/compress_kernels/golden_cases.h"

int main(int argc, char** argv) {
  namespace codecs = ringpress::compress_kernels;
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_golden FOLDER\n");
    return 2;
  }
  if (!codecs::force_isa("scalar").is_ok()) return 1;
  for (const std::string_view codec : codecs::codec_names()) {
    for (const ringpress::DType dtype : codecs::testing::kGoldenTypes) {
      const std::string path = codecs::testing::golden_file(argv[1], codec, dtype);
      const auto bytes = codecs::testing::golden_bytes(codec, dtype);
      std::ofstream file(path, std::ios::binary);
      file.write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
      if (!file.flush()) {
        std::fprintf(stderr, "make_golden: cannot write %s\n", path.c_str());
        return 1;
      }
    }
  }
  return 0;
}
