// Loads arbitrary bytes as what a communicator keeps of tensors, and goes on with what is taken.
// Where the first byte is odd, the bytes are changes of a real state: each of three bytes is a
// place and what is there then.
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "ringpress/internal/log.h"
#include "tests/support/state_parts.h"

using namespace ringpress::testing;

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  ringpress::set_log_level(ringpress::LogLevel::kError);  // Most states are of other calls.
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::uint8_t> input(data + 1, size - 1);
  if (data[0] % 2 == 0) {
    load_state_bytes(std::as_bytes(input));
    return 0;
  }
  static const std::vector<std::byte> real = [] {
    StateParts parts;
    make_state_steps(&parts, 12, 5000);
    return parts.save();
  }();
  std::vector<std::byte> changed = real;
  for (std::size_t i = 0; i + 3 <= input.size(); i += 3) {
    const std::size_t place = (input[i] * std::size_t{256} + input[i + 1]) % changed.size();
    changed[place] = static_cast<std::byte>(input[i + 2]);
  }
  load_state_bytes(changed);
  return 0;
}
