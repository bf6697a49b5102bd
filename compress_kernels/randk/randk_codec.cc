#include "compress_kernels/randk/randk_codec.h"

#include <cstring>
#include <limits>
#include <vector>

#include "compress_kernels/core/element.h"
#include "compress_kernels/core/philox.h"

namespace ringpress::compress_kernels::randk {
namespace {

// Every chunk of one length has the same permutation.
constexpr std::uint64_t kSeedOfChunks = 0x6B;

std::size_t draw_slice(const RandomKey& random, const Slices& slices) {
  const philox4x32_ctr_t words =
      philox4x32(core::philox_counter(random, random.first_element), core::philox_key(random));
  return words.v[0] % slices.number;
}

}  // namespace

void RandomCodec::encode_chunk(const core::ChunkValues& values, const RandomKey& random,
                               std::byte* wire, float* residual, void* decoded) const {
  const Slices slices(parameters_.density, values.count);
  const Permutation permutation(kSeedOfChunks, values.count);
  const bool finite = kernels_.all_finite(values);
  const std::size_t slice = draw_slice(random, slices);
  std::vector<float> chosen(slices.longest());
  if (finite) {
    for_each_in_slice(permutation, slices, slice, [&](std::size_t place, std::size_t coordinate) {
      chosen[place] = load_one(values, coordinate);
    });
  }
  core::store_element<std::uint32_t>(wire, 0,
                                     finite ? static_cast<std::uint32_t>(slice) : kNotFinite);
  std::memcpy(wire + sizeof(std::uint32_t), chosen.data(), chosen.size() * sizeof(float));
  if (residual != nullptr && finite) {
    kernels_.keep_all(values, residual);
    for_each_in_slice(permutation, slices, slice, [&](std::size_t place, std::size_t coordinate) {
      const float lost = chosen[place] - chosen[place] * factor(slices);
      if (core::is_finite(lost)) core::store_element<float>(residual, coordinate, lost);
    });
  }
  if (decoded != nullptr) decode_chunk(wire, values.count, dtype(), decoded);
}

void RandomCodec::decode_chunk(const std::byte* wire, std::size_t count, DType dtype,
                               void* values) const {
  const Slices slices(parameters_.density, count);
  const auto slice = core::load_element<std::uint32_t>(wire, 0);
  if (slice == kNotFinite) {
    const std::vector<float> nans(count, std::numeric_limits<float>::quiet_NaN());
    core::store_chunk(nans.data(), count, dtype, values);
    return;
  }
  std::memset(values, 0, count * dtype_size(dtype));
  core::visit_compressible(dtype, [&](auto tag) {
    for_each_in_slice(Permutation(kSeedOfChunks, count), slices, slice % slices.number,
                      [&](std::size_t place, std::size_t coordinate) {
                        const auto value =
                            core::load_element<float>(wire + sizeof(std::uint32_t), place);
                        core::store_wide<typename decltype(tag)::type>(values, coordinate,
                                                                       value * factor(slices));
                      });
  });
}

}  // namespace ringpress::compress_kernels::randk
