#include "perf/all_reduce/elements.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "nccl_plugin/command/terminal/error.h"

namespace ringpress::perf {
namespace {

double round_trip(const ElementType& type, double value) {
  std::array<std::byte, 8> element = {};
  double result = 0;
  store_elements(type, {&value, 1}, element.data());
  load_elements(type, element.data(), {&result, 1});
  return result;
}

std::uint16_t bits_of(const char* type, double value) {
  std::array<std::byte, 8> element = {};
  store_elements(find_element_type(type), {&value, 1}, element.data());
  std::uint16_t bits = 0;
  std::memcpy(&bits, element.data(), find_element_type(type).bytes);
  return bits;
}

TEST(Elements, KnowsEveryTypeOfTheApi) {
  ASSERT_EQ(element_types().size(), 12U);
  for (std::size_t i = 0; i < element_types().size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(element_types()[i].value), i);
  }
}

TEST(Elements, SmallIntegersAreExactInEveryType) {
  for (const ElementType& type : element_types()) {
    const double limit = std::ldexp(1.0, std::min(type.significant_bits, 20)) - 1;
    for (const double value : {0.0, 1.0, limit / 1.0, type.is_signed ? -limit : limit}) {
      EXPECT_EQ(round_trip(type, value), value) << type.name;
    }
  }
}

TEST(Elements, EncodesKnownBitPatterns) {
  EXPECT_EQ(bits_of("half", 1.0), 0x3C00);
  EXPECT_EQ(bits_of("half", -2.0), 0xC000);
  EXPECT_EQ(bits_of("half", 65504.0), 0x7BFF);
  EXPECT_EQ(bits_of("half", 65520.0), 0x7C00);  // Rounds up to infinity.
  EXPECT_EQ(bits_of("half", std::ldexp(1.0, -24)), 0x0001);
  EXPECT_EQ(bits_of("half", 1.0 + std::ldexp(1.0, -11)), 0x3C00);  // Half way: to even.
  EXPECT_EQ(bits_of("half", 1.0 + 3 * std::ldexp(1.0, -11)), 0x3C02);
  EXPECT_EQ(bits_of("bfloat16", 1.0), 0x3F80);
  EXPECT_EQ(bits_of("bfloat16", -0.0), 0x8000);
  EXPECT_EQ(bits_of("fp8_e4m3", 448.0), 0x7E);
  EXPECT_EQ(bits_of("fp8_e4m3", 1.0), 0x38);
  EXPECT_EQ(bits_of("fp8_e5m2", 57344.0), 0x7B);
  EXPECT_EQ(bits_of("fp8_e5m2", 1e9), 0x7C);
}

TEST(Elements, EveryBitPatternOfSmallFloatsSurvives) {
  for (const char* name : {"half", "bfloat16", "fp8_e4m3", "fp8_e5m2"}) {
    const ElementType& type = find_element_type(name);
    const unsigned patterns = 1U << (8 * type.bytes);
    for (unsigned bits = 0; bits < patterns; ++bits) {
      std::array<std::byte, 8> element = {};
      std::memcpy(element.data(), &bits, type.bytes);
      double value = 0;
      load_elements(type, element.data(), {&value, 1});
      if (std::isnan(value)) continue;
      ASSERT_EQ(bits_of(name, value), bits) << name;
    }
  }
}

TEST(Elements, NotANumberStaysOne) {
  for (const ElementType& type : element_types()) {
    if (!type.is_float) continue;
    EXPECT_TRUE(std::isnan(round_trip(type, std::numeric_limits<double>::quiet_NaN())))
        << type.name;
  }
}

TEST(Elements, UnknownNamesListTheKnownOnes) {
  try {
    find_element_type("flaot");
    FAIL() << "accepted an unknown type";
  } catch (const terminal::Error& error) {
    EXPECT_NE(std::string(error.what()).find("bfloat16"), std::string::npos);
  }
  EXPECT_THROW(find_operation("add"), terminal::Error);
}

}  // namespace
}  // namespace ringpress::perf
