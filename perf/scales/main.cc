// scales_perf: what coordinate scales take, beside the codec without them: nanoseconds a value, of
// one core, of values that fit its caches as a collective's chunks do. Under callgrind,
// instructions:
//
//   scales_perf CODEC OPERATION REPETITIONS    one operation so often: encode, decode, hop (of 4
//                                              ranks), each `plain` or `scaled`; learn, measure
//   scales_perf CODEC                          all of them, timed
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compress_kernels/factory.h"

namespace ringpress::perf {
namespace {

constexpr std::size_t kCount = std::size_t{64} << 10;
constexpr std::size_t kRanks = 4;

struct Values {
  std::vector<float> own, residual, decoded, squares;
  std::vector<std::uint8_t> codes;
  std::vector<std::byte> wire, sum;
};

Values make_values(std::size_t block) {
  Values values;
  values.own.resize(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto x = static_cast<float>(i);
    values.own[i] = std::sin(x * x) * std::exp2(static_cast<float>(i * 37 % 10) / 2);
  }
  values.residual.resize(kCount);
  values.decoded.resize(kCount);
  values.squares.resize(kCount);
  values.codes.resize(kCount);
  compress_kernels::learn_scales(values.own.data(), kCount, DType::kFloat32, 1,
                                 values.squares.data());
  compress_kernels::find_scales(values.squares.data(), kCount, block, values.codes.data());
  return values;
}

void encode(const Codec& codec, Values* values) {
  values->wire.resize(codec.wire_bytes(kCount, {1, kRanks}));
  EncodeArgs args;
  args.values = values->own.data();
  args.count = kCount;
  args.residual = values->residual.data();
  args.wire = values->wire.data();
  args.form = {1, kRanks};
  args.scales = values->codes.data();
  codec.encode(args);
}

void decode(const Codec& codec, Values* values) {
  DecodeArgs args;
  args.wire = values->wire.data();
  args.wire_size = values->wire.size();
  args.count = kCount;
  args.values = values->decoded.data();
  args.form = {1, kRanks};
  args.scales = values->codes.data();
  codec.decode(args);
}

void hop(const Codec& codec, Values* values) {
  values->sum.resize(codec.wire_bytes(kCount, {kRanks, kRanks}));
  const std::vector<const std::byte*> wires(kRanks - 1, values->wire.data());
  const std::vector<std::size_t> sizes(kRanks - 1, values->wire.size());
  DecodeAddEncodeArgs args;
  args.wires = wires;
  args.wire_sizes = sizes;
  args.own_position = 1;
  args.values = values->own.data();
  args.count = kCount;
  args.residual = values->residual.data();
  args.wire = values->sum.data();
  args.decoded = values->decoded.data();
  args.form = {kRanks, kRanks};
  args.scales = values->codes.data();
  codec.decode_add_encode(args);
}

using Operations = std::map<std::string, std::function<void()>>;

Operations operations_of(const Codec& plain, const Codec& scaled, std::size_t block,
                         Values* values) {
  Operations operations;
  for (const Codec* const codec : {&plain, &scaled}) {
    const std::string which = codec == &plain ? "plain" : "scaled";
    operations["encode-" + which] = [=] { encode(*codec, values); };
    operations["decode-" + which] = [=] { decode(*codec, values); };
    operations["hop-" + which] = [=] { hop(*codec, values); };
  }
  operations["learn"] = [=] {
    compress_kernels::learn_scales(values->own.data(), kCount, DType::kFloat32, 0.1F,
                                   values->squares.data());
    compress_kernels::find_scales(values->squares.data(), kCount, block, values->codes.data());
  };
  operations["measure"] = [=] {
    compress_kernels::measure_scales(values->own.data(), kCount, DType::kFloat32,
                                     values->codes.data(), block);
  };
  return operations;
}

double nanoseconds_a_value(const std::function<void()>& operation) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  for (int repetition = 0; repetition < 101; ++repetition) {
    const Clock::time_point begin = Clock::now();
    operation();
    times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + 50, times.end());
  return 1e9 * times[50] / kCount;
}

int run(const std::string& specification, const std::string& only, int repetitions) {
  using compress_kernels::make_codec, compress_kernels::make_scaled_codec;
  const auto plain = make_codec(specification, DType::kFloat32, ReduceOp::kSum);
  const auto scaled = make_scaled_codec(specification, DType::kFloat32, ReduceOp::kSum);
  if (!plain.is_ok() || !scaled.is_ok()) {
    fmt::print(stderr, "scales_perf: {}\n", scaled.status().message());
    return 2;
  }
  const std::size_t block = compress_kernels::block_of_scales(specification).value();
  Values values = make_values(block);
  encode(*plain.value(), &values);  // What is decoded, of either: the bytes are as many.
  const Operations operations = operations_of(*plain.value(), *scaled.value(), block, &values);
  if (!only.empty()) {
    const auto found = operations.find(only);
    if (found == operations.end()) return 2;
    for (int i = 0; i < repetitions; ++i) found->second();
    return 0;
  }
  for (const auto& [name, operation] : operations) {
    fmt::print("{:16} {:6.3f} ns a value\n", name, nanoseconds_a_value(operation));
  }
  return 0;
}

}  // namespace
}  // namespace ringpress::perf

int main(int argc, char** argv) {
  if (argc != 2 && argc != 4) return 2;
  return ringpress::perf::run(argv[1], argc == 4 ? argv[2] : "",
                              argc == 4 ? std::atoi(argv[3]) : 0);
}
