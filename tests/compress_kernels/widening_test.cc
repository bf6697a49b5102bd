// Partial sums that take more bits than the first and the last frame of a ring.
#include "compress_kernels/q/wider_forms.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compress_kernels/factory.h"
#include "tests/compress_kernels/codec_data.h"

namespace ringpress::compress_kernels::testing::widening_test {
namespace {

TEST(Widening, GrowsWithTheContributions) {
  EXPECT_EQ(q::bits_of_form(4, {1, 1}), 4);
  EXPECT_EQ(q::bits_of_form(4, {1, 16}), 4);
  EXPECT_EQ(q::bits_of_form(4, {2, 16}), 5);
  EXPECT_EQ(q::bits_of_form(4, {11, 16}), 5);
  EXPECT_EQ(q::bits_of_form(4, {12, 16}), 6);
  EXPECT_EQ(q::bits_of_form(4, {45, 64}), 7);
  EXPECT_EQ(q::bits_of_form(4, {16, 16}), 4);
  EXPECT_EQ(q::bits_of_form(8, {2, 16}), 9);
  EXPECT_EQ(q::bits_of_form(8, {5, 16}), 9);
  EXPECT_EQ(q::bits_of_form(8, {6, 16}), 10);
  EXPECT_EQ(q::bits_of_form(8, {45, 64}), 10) << "no more than there are";
  EXPECT_EQ(q::bits_of_form(2, {3, 16}), 2) << "no room for a third";
  EXPECT_EQ(q::bits_of_form(2, {4, 16}), 3);
  EXPECT_EQ(q::bits_of_form(1, {2, 3}), 1);
  EXPECT_EQ(q::bits_of_form(4, {2, 2}), 4);
}

TEST(Widening, CanBeSwitchedOff) {
  const auto same = make_codec("q4:partial=same", DType::kFloat32, ReduceOp::kSum);
  const auto wide = make_codec("q4:partial=wide", DType::kFloat32, ReduceOp::kSum);
  EXPECT_EQ(same.value()->wire_bytes(1024, {2, 4}), same.value()->wire_bytes(1024));
  EXPECT_EQ(wide.value()->wire_bytes(1024, {2, 4}), 1024 * 5 / 8 + 8 * 2);
  EXPECT_EQ(normalize_specification("q4:partial=wide").value(),
            normalize_specification("q4").value());
  EXPECT_NE(same.value()->specification(), wide.value()->specification());
}

/// A hop from one width to another is what its parts make.
TEST(Widening, HopsTakeAndGiveTheirOwnWidths) {
  constexpr std::size_t kCount = 3000;
  for (const char* specification :
       {"q2", "q4", "q7", "q8", "q4:grid=minmax", "q8:grid=minmax", "q3:grid=lloyd",
        "q8:grid=lloyd", "q4:grid=lloyd,round=stochastic"}) {
    const auto made = make_codec(specification, DType::kFloat32, ReduceOp::kSum);
    const Codec& codec = *made.value();
    const auto values = draw_floats(kCount, Values::kNormal, 1);
    std::vector<float> sum(kCount);
    std::vector<std::byte> wire(codec.wire_bytes(kCount, {1, 16}));
    EncodeArgs first;
    first.values = values.data();
    first.count = kCount;
    first.wire = wire.data();
    first.form = {1, 16};
    codec.encode(first);
    for (std::size_t summed = 2; summed <= 16; ++summed) {
      DecodeArgs decode;
      decode.wire = wire.data();
      decode.wire_size = wire.size();
      decode.count = kCount;
      decode.values = sum.data();
      decode.form = {summed - 1, 16};
      codec.decode(decode);
      for (std::size_t i = 0; i < kCount; ++i) sum[i] += values[i];
      EncodeArgs composed;
      composed.values = sum.data();
      composed.count = kCount;
      composed.form = {summed, 16};
      std::vector<std::byte> expected(codec.wire_bytes(kCount, composed.form));
      composed.wire = expected.data();
      codec.encode(composed);
      const std::byte* const wires[] = {wire.data()};
      std::vector<std::byte> next(expected.size());
      DecodeAddEncodeArgs hop;
      hop.wires = wires;
      hop.wire_contributions = summed - 1;
      hop.own_position = 1;
      hop.values = values.data();
      hop.count = kCount;
      hop.form = composed.form;
      hop.wire = next.data();
      ASSERT_EQ(codec.decode_add_encode(hop), expected.size());
      ASSERT_EQ(next, expected) << specification << ", " << summed << " contributions";
      wire = next;
    }
  }
}

}  // namespace
}  // namespace ringpress::compress_kernels::testing::widening_test
