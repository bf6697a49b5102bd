// The bytes that tests/golden keeps: what each codec makes of one fixed input. See
// tests/golden/README.md.
#ifndef TESTS_COMPRESS_KERNELS_GOLDEN_CASES_H_
#define TESTS_COMPRESS_KERNELS_GOLDEN_CASES_H_

#include <Random123/philox.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "compress_kernels/factory.h"
#include "compress_kernels/specification.h"
#include "ringpress/internal/wire.h"
#include "tests/compress_kernels/codec_data.h"
#include "tests/support/specifications_to_test.h"

namespace ringpress::compress_kernels::testing {

inline constexpr std::size_t kGoldenCount = 2500;
inline constexpr DType kGoldenTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};

/// Values from Philox counters alone: no library decides their bits. Blocks 2 and 11 of 128 hold
/// zeros and a NaN: of the blocks of 1024 the second is not finite, the third not whole.
inline std::vector<float> golden_values(std::uint32_t stream) {
  std::vector<float> values(kGoldenCount);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const philox4x32_ctr_t counter{{static_cast<std::uint32_t>(i), stream, 0, 0}};
    const philox4x32_key_t key{{2024, 7}};
    const philox4x32_ctr_t words = philox4x32(counter, key);
    const float fraction = static_cast<float>(words.v[0] >> 8) * 0x1p-24f - 0.5f;
    values[i] = std::ldexp(fraction, static_cast<int>(words.v[1] % 12) - 8);
    if (i / 128 == 2) values[i] = 0.0f;
  }
  values[1024 + 3 * 128 + 5] = std::numeric_limits<float>::quiet_NaN();
  return values;
}

/// The codec with its defaults and in all its variants.
inline std::vector<std::string> golden_variants(std::string_view codec) {
  std::vector<std::string> found;
  for (const std::string& specification : specifications_to_test()) {
    if (specification.substr(0, specification.find(':')) == codec) found.push_back(specification);
  }
  return found;
}

/// Wire bytes of an encode, then of a hop that adds a second input, for each variant in turn.
inline std::vector<std::byte> golden_bytes(std::string_view codec, DType dtype) {
  std::vector<std::byte> all;
  const auto first = to_elements(golden_values(0), dtype);
  const auto second = to_elements(golden_values(1), dtype);
  for (const std::string& specification : golden_variants(codec)) {
    const auto made = make_codec(specification, dtype, ReduceOp::kAvg);
    std::vector<std::byte> wire(made.value()->wire_bytes(kGoldenCount));
    EncodeArgs encode;
    encode.values = first.data();
    encode.count = kGoldenCount;
    encode.wire = wire.data();
    encode.random = {11, 12, 13, 16};
    wire.resize(made.value()->encode(encode));
    all.insert(all.end(), wire.begin(), wire.end());
    const std::vector<std::byte> part = wire;
    const std::byte* parts[] = {part.data()};
    const std::size_t sizes[] = {part.size()};
    wire.resize(made.value()->wire_bytes(kGoldenCount));
    DecodeAddEncodeArgs hop;
    hop.wires = parts;
    hop.wire_sizes = sizes;
    hop.own_position = 1;
    hop.values = second.data();
    hop.count = kGoldenCount;
    hop.divisor = 2;
    hop.wire = wire.data();
    hop.random = {11, 12, 14, 16};
    wire.resize(made.value()->decode_add_encode(hop));
    all.insert(all.end(), wire.begin(), wire.end());
  }
  return all;
}

/// Wire bytes that only partial sums have (q8: codes of 9 bits, then a hop from there to 10 bits),
/// for each variant of the codec in turn.
inline std::vector<std::byte> golden_partial_bytes(std::string_view codec, DType dtype) {
  std::vector<std::byte> all;
  const auto values = to_elements(golden_values(0), dtype);
  for (const std::string& specification : golden_variants(codec)) {
    const auto made = make_codec(specification, dtype, ReduceOp::kSum);
    EncodeArgs encode;
    encode.values = values.data();
    encode.count = kGoldenCount;
    encode.random = {11, 12, 13, 16};
    encode.form = {2, 64};
    std::vector<std::byte> part(made.value()->wire_bytes(kGoldenCount, encode.form));
    encode.wire = part.data();
    made.value()->encode(encode);
    const std::byte* parts[] = {part.data()};
    DecodeAddEncodeArgs hop;
    hop.wires = parts;
    hop.wire_contributions = 2;
    hop.own_position = 1;
    hop.values = values.data();
    hop.count = kGoldenCount;
    hop.random = {11, 12, 14, 16};
    hop.form = {12, 64};
    std::vector<std::byte> wire(made.value()->wire_bytes(kGoldenCount, hop.form));
    hop.wire = wire.data();
    made.value()->decode_add_encode(hop);
    all.insert(all.end(), part.begin(), part.end());
    all.insert(all.end(), wire.begin(), wire.end());
  }
  return all;
}

/// Codecs whose partial sums no other form looks like.
inline constexpr std::string_view kGoldenPartialCodecs[] = {"q2", "q8"};

inline std::string golden_file(const std::string& folder, std::string_view codec, DType dtype) {
  return folder + '/' + std::string(codec) + '_' + dtype_name(dtype) + "_v" +
         std::to_string(kProtocolVersion) + ".bin";
}

}  // namespace ringpress::compress_kernels::testing

#endif  // TESTS_COMPRESS_KERNELS_GOLDEN_CASES_H_
