#include "tests/compress_kernels/codec_data.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <random>

#include "compress_kernels/core/element.h"

namespace ringpress::compress_kernels::testing {
namespace {

float draw_value(Values kind, std::mt19937& engine) {
  using Limits = std::numeric_limits<float>;
  constexpr float kSpecials[] = {Limits::quiet_NaN(),
                                 Limits::infinity(),
                                 -Limits::infinity(),
                                 -0.0f,
                                 Limits::max(),
                                 -Limits::max(),
                                 Limits::denorm_min(),
                                 -Limits::min(),
                                 65504.0f,
                                 65520.0f,
                                 0.0f,
                                 1e-40f};
  std::normal_distribution<float> normal;
  const float x = normal(engine);
  switch (kind) {
    case Values::kNormal:
      return x;
    case Values::kSpecial:
      return engine() % 200 == 0 ? kSpecials[engine() % 12] : x;
    case Values::kSparse:
      return engine() % 64 == 0 ? x : 0.0f;
    case Values::kHuge:
      return std::clamp(x * 2e38f, -Limits::max(), Limits::max());
    case Values::kTiny:
      return x * 1e-30f * (engine() % 2 == 0 ? 1e-9f : 1.0f);
  }
  return x;
}

/// What was drawn last. Tests draw the same values again and again: for each instruction set, and
/// for each operation.
struct Drawn {
  std::size_t count = 0;
  Values kind = Values::kNormal;
  std::uint32_t seed = 0;
  std::vector<float> values;
};

std::vector<float> draw_anew(std::size_t count, Values kind, std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::vector<float> values(count);
  for (float& value : values) value = draw_value(kind, engine);
  return values;
}

}  // namespace

std::vector<float> draw_floats(std::size_t count, Values kind, std::uint32_t seed) {
  constexpr std::size_t kKept = 8;  // As many as a case has tensors.
  thread_local std::array<Drawn, kKept> kept;
  thread_local std::size_t oldest = 0;
  for (const Drawn& one : kept) {
    if (one.count == count && one.kind == kind && one.seed == seed) return one.values;
  }
  Drawn& drawn = kept[oldest++ % kKept];
  drawn = {count, kind, seed, draw_anew(count, kind, seed)};
  return drawn.values;
}

std::vector<std::byte> to_elements(const std::vector<float>& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * dtype_size(dtype));
  core::visit_compressible(dtype, [&](auto tag) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      core::store_wide<typename decltype(tag)::type>(bytes.data(), i, values[i]);
    }
  });
  return bytes;
}

std::vector<float> to_floats(const std::byte* elements, std::size_t count, DType dtype) {
  std::vector<float> values(count);
  core::visit_compressible(dtype, [&](auto tag) {
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = core::load_wide<typename decltype(tag)::type>(elements, i);
    }
  });
  return values;
}

std::vector<std::byte> draw_elements(std::size_t count, DType dtype, Values kind,
                                     std::uint32_t seed) {
  if (is_compressible(dtype)) return to_elements(draw_floats(count, kind, seed), dtype);
  std::mt19937 engine(seed);
  std::vector<std::byte> bytes(count * dtype_size(dtype));
  for (std::byte& b : bytes) b = static_cast<std::byte>(engine());
  return bytes;
}

std::size_t first_difference(const std::byte* a, const std::byte* b, std::size_t count,
                             DType dtype) {
  return core::visit_dtype(dtype, [&](auto tag) -> std::size_t {
    using T = typename decltype(tag)::type;
    for (std::size_t i = 0; i < count; ++i) {
      if (std::memcmp(a + i * sizeof(T), b + i * sizeof(T), sizeof(T)) == 0) continue;
      const auto x = core::load_wide<T>(a, i);
      const auto y = core::load_wide<T>(b, i);
      if (x == x || y == y) return i;
    }
    return count;
  });
}

}  // namespace ringpress::compress_kernels::testing
