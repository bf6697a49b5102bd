// Runs the codec fuzz target on pseudo-random inputs, for compilers without libFuzzer. Most inputs
// name a real codec, so that its kernels are reached.
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "compress_kernels/specification.h"
#include "tests/support/specifications_to_test.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  const int inputs = argc > 1 ? std::atoi(argv[1]) : 2000;
  std::mt19937 engine(1);
  const auto specifications = ringpress::compress_kernels::specifications_to_test();
  for (int i = 0; i < inputs; ++i) {
    std::string text = specifications[engine() % specifications.size()];
    if (engine() % 16 == 0) text += ":x";
    // The type is one of the compressible ones for most inputs.
    const unsigned compressible[] = {6, 7, 9};
    std::vector<std::uint8_t> input;
    input.push_back(
        static_cast<std::uint8_t>(engine() % 8 == 0 ? engine() % 12 : compressible[engine() % 3]));
    input.push_back(static_cast<std::uint8_t>(engine() % 8 == 0 ? engine() % 5 : 0));
    input.push_back(static_cast<std::uint8_t>(text.size()));
    input.insert(input.end(), text.begin(), text.end());
    const std::size_t length = 2 + engine() % 3000;
    for (std::size_t k = 0; k < length; ++k) input.push_back(static_cast<std::uint8_t>(engine()));
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  return 0;
}
