// Quantities as people type them.
#include "nccl_plugin/command/estimate/quantities.h"

#include <gtest/gtest.h>

#include <string>

#include "nccl_plugin/command/terminal/error.h"

namespace ringpress::nccl_plugin::command {
namespace {

/// What is said of a text that is none; empty: it is one.
template <typename Read>
std::string refusal(Read read, const std::string& text) {
  try {
    read("--option", text);
  } catch (const terminal::Error& error) {
    return error.what();
  }
  return "";
}

TEST(Quantities, NumbersOfParameters) {
  for (const char* text : {"1.3B", "1.3b", "1.3G", "1300M", "1300000000", "1.3 B", "0.0013T"}) {
    EXPECT_DOUBLE_EQ(read_count("--params", text), 1.3e9) << text;
  }
  EXPECT_DOUBLE_EQ(read_count("--params", "350M"), 350e6);
  EXPECT_DOUBLE_EQ(read_count("--params", "12k"), 12e3);
  for (const char* text : {"", "B", "-1B", "0", "1.3X", "1.3BB", "nan", "1e99B", "0.1"}) {
    const std::string said = refusal(read_count, text);
    EXPECT_EQ(said.find("--option " + std::string(text) + ": expected a number of parameters"), 0U)
        << text << ": " << said;
  }
}

TEST(Quantities, Types) {
  for (const char* text : {"fp32", "float32", "F32", "float"}) {
    EXPECT_EQ(read_dtype("--dtype", text), DType::kFloat32) << text;
  }
  for (const char* text : {"bf16", "BF16", "bfloat16"}) {
    EXPECT_EQ(read_dtype("--dtype", text), DType::kBfloat16) << text;
  }
  for (const char* text : {"fp16", "half", "float16"}) {
    EXPECT_EQ(read_dtype("--dtype", text), DType::kFloat16) << text;
  }
  for (const char* text : {"", "int8", "fp8", "16"}) {
    EXPECT_NE(refusal(read_dtype, text), "") << text;
  }
}

TEST(Quantities, RatesOfLinks) {
  for (const char* text : {"100gbit", "100Gbit", "100Gb", "100Gb/s", "100Gbps", "100G", "100g",
                           "100gbit/s", "0.1T", "100000mbit", "100GbE", "100gbe"}) {
    EXPECT_DOUBLE_EQ(read_rate("--net", text), 12.5e9) << text;
  }
  EXPECT_DOUBLE_EQ(read_rate("--net", "10gbe"), 1.25e9);
  EXPECT_DOUBLE_EQ(read_rate("--net", "25G"), 3.125e9);
  for (const char* text :
       {"", "100", "fast", "-1gbit", "0G", "100b", "100bit", "1x", "100gbits!"}) {
    EXPECT_NE(refusal(read_rate, text), "") << text;
  }
  for (const char* text : {"12GB/s", "12GBps", "12gBytes"}) {
    EXPECT_NE(refusal(read_rate, text).find("that is in bytes"), std::string::npos) << text;
  }
}

TEST(Quantities, Times) {
  EXPECT_DOUBLE_EQ(read_time("--latency", "50us"), 50e-6);
  EXPECT_DOUBLE_EQ(read_time("--latency", "1.5ms"), 1.5e-3);
  EXPECT_DOUBLE_EQ(read_time("--latency", "2s"), 2);
  for (const char* text : {"", "5", "us", "-1us", "5m"}) {
    EXPECT_NE(refusal(read_time, text), "") << text;
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin::command
