// The example of a codec does what compress_kernels/README.md asks of each.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compress_kernels/codec_family.h"
#include "compress_kernels/task_codec.h"
#include "tests/compress_kernels/codec_data.h"
#include "tests/compress_kernels/fiber_backend.h"
#include "tests/examples/codec/fixed.h"

namespace ringpress::compress_kernels::fixed {

const CodecFamily& family();

namespace {

using testing::FiberBackend;
using FixedOnFibers = TaskCodec<PlainKernels<FixedParameters>, FiberBackend>;

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};

CodecEntry entry() {
  return {"fixed", &family(), 8};
}

std::unique_ptr<Codec> make_host(DType dtype) {
  CodecIdentity identity;
  identity.specification = "fixed:shift=6";
  identity.dtype = dtype;
  return family().make(std::move(identity), entry(), ParameterValues(family().parameters));
}

std::unique_ptr<DeviceCodec> make_device(DType dtype) {
  FixedParameters parameters;
  parameters.dtype = dtype;
  return std::make_unique<FixedOnFibers>(make_host(dtype), parameters, FiberBackend{});
}

/// Some beyond the largest code, some that are no numbers.
std::vector<float> draw_values(std::size_t count, std::mt19937& engine) {
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(count);
  for (float& value : values) {
    value = normal(engine);
    if (engine() % 50 == 0) value *= 1000;
    if (engine() % 100 == 0) value = INFINITY;
    if (engine() % 100 == 0) value = NAN;
  }
  return values;
}

/// All that an operation writes.
struct Written {
  std::vector<std::byte> wire;
  std::vector<std::byte> decoded;
  std::vector<float> residual;
};

bool same(const Written& a, const Written& b) {
  return a.wire == b.wire && a.decoded == b.decoded &&
         std::memcmp(a.residual.data(), b.residual.data(), a.residual.size() * sizeof(float)) == 0;
}

Written room_for(std::size_t count, DType dtype) {
  return {std::vector<std::byte>(count), std::vector<std::byte>(count * dtype_size(dtype)),
          std::vector<float>(count, 0.25f)};
}

EncodeArgs encode_args(const std::vector<std::byte>& values, std::size_t count, Written& written) {
  EncodeArgs args;
  args.values = values.data();
  args.count = count;
  args.residual = written.residual.data();
  args.wire = written.wire.data();
  args.decoded = written.decoded.data();
  return args;
}

TEST(ExampleCodec, ErrorsStayWithinItsBound) {
  std::mt19937 engine(1);
  const std::size_t count = 5000;
  const auto codec = make_host(DType::kFloat32);
  const std::vector<float> x = draw_values(count, engine);
  const auto elements = testing::to_elements(x, DType::kFloat32);
  Written written = room_for(count, DType::kFloat32);
  EncodeArgs args = encode_args(elements, count, written);
  args.residual = nullptr;
  EXPECT_EQ(codec->encode(args), codec->wire_bytes(count));
  const ErrorBound bound = family().error_bound(entry(), ParameterValues(family().parameters));
  const auto y = testing::to_floats(written.decoded.data(), count, DType::kFloat32);
  for (std::size_t i = 0; i < count; ++i) {
    if (!std::isfinite(x[i])) {
      EXPECT_TRUE(std::isnan(y[i])) << x[i];  // Loss scalers look for it.
    } else {
      EXPECT_LE(std::abs(x[i] - y[i]), bound.of_value * std::abs(x[i]) + bound.absolute) << x[i];
    }
  }
}

TEST(ExampleCodec, ValuesBetweenItsLargestCodesAreHalfAStepOffAtMost) {
  for (float x = -1.9f; x < 1.9f; x += 0.0173f) {
    EXPECT_LE(std::abs(value_of(code_of(x, 64), 64) - x), 1.0f / 128);
  }
}

TEST(ExampleCodec, RefusesWhatIsNoShift) {
  EXPECT_TRUE(family().parameters[0].accepts("9"));
  EXPECT_FALSE(family().parameters[0].accepts("10"));
  EXPECT_FALSE(family().parameters[0].accepts(""));
}

TEST(ExampleCodec, KernelsEncodeAndDecodeAsTheHost) {
  std::mt19937 engine(2);
  for (const std::size_t count : {0u, 1u, 7u, 255u, 1024u, 1025u, 5003u}) {
    for (const DType dtype : kTypes) {
      const auto elements = testing::to_elements(draw_values(count, engine), dtype);
      Written host = room_for(count, dtype);
      Written device = host;
      make_host(dtype)->encode(encode_args(elements, count, host));
      const EncodeArgs args = encode_args(elements, count, device);
      const auto codec = make_device(dtype);
      ASSERT_TRUE(codec->encode(nullptr, {&args, 1}, nullptr).is_ok());
      EXPECT_TRUE(same(host, device)) << count << ' ' << dtype_name(dtype);
      std::vector<std::byte> decoded(device.decoded.size());
      DecodeArgs decoding;
      decoding.wire = device.wire.data();
      decoding.count = count;
      decoding.values = decoded.data();
      ASSERT_TRUE(codec->decode(nullptr, {&decoding, 1}, nullptr).is_ok());
      EXPECT_EQ(decoded, device.decoded) << count << ' ' << dtype_name(dtype);
    }
  }
}

TEST(ExampleCodec, KernelsHopAsTheHost) {
  std::mt19937 engine(3);
  for (const std::size_t count : {1u, 9u, 1024u, 3000u}) {
    for (const DType dtype : kTypes) {
      std::vector<std::byte> wires[2];
      for (auto& wire : wires) {
        wire.resize(count);
        for (std::byte& code : wire) code = static_cast<std::byte>(engine());
      }
      const std::byte* const parts[] = {wires[0].data(), wires[1].data()};
      const std::size_t sizes[] = {count, count};
      const auto elements = testing::to_elements(draw_values(count, engine), dtype);
      Written host = room_for(count, dtype);
      Written device = host;
      const auto hop = [&](Written& written) {
        DecodeAddEncodeArgs args;
        args.wires = parts;
        args.wire_sizes = sizes;
        args.own_position = 1;
        args.values = elements.data();
        args.count = count;
        args.divisor = 3;
        args.residual = written.residual.data();
        args.wire = written.wire.data();
        args.decoded = written.decoded.data();
        return args;
      };
      make_host(dtype)->decode_add_encode(hop(host));
      ASSERT_TRUE(make_device(dtype)->decode_add_encode(nullptr, hop(device), nullptr).is_ok());
      EXPECT_TRUE(same(host, device)) << count << ' ' << dtype_name(dtype);
    }
  }
}

}  // namespace
}  // namespace ringpress::compress_kernels::fixed
