#include "tests/support/random_tensor.h"

#include <random>

namespace ringpress::testing {

std::vector<float> random_gradient(std::size_t count, std::uint64_t seed, int rank) {
  std::mt19937_64 engine(seed * 1000003 + static_cast<std::uint64_t>(rank));
  std::normal_distribution<float> normal(0.0F, 1.0F);
  std::vector<float> values(count);
  for (float& value : values) {
    value = normal(engine);
    if (engine() % 64 == 0) value *= 10;
  }
  return values;
}

std::vector<int> random_small_integers(std::size_t count, std::uint64_t seed, int rank) {
  std::mt19937_64 engine(seed * 1000003 + static_cast<std::uint64_t>(rank) + 7);
  std::vector<int> values(count);
  for (int& value : values) value = static_cast<int>(engine() % 3) + (engine() % 8 == 0 ? 1 : 0);
  return values;
}

}  // namespace ringpress::testing
