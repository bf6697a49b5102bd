// The kernels on a GPU: their bytes beside the scalar reference's, and their rates beside a copy's.
// Needs nothing but libringpress-cuda.so and the driver. One JSON object on standard output.
//
// usage: device_kernels check|scales [SECONDS [LARGEST_COUNT [SEED]]]   scales: coordinate scales
// alone
//        device_kernels bench [BYTES]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compress_kernels/factory.h"
#include "ringpress/internal/device.h"
#include "tests/compress_kernels/device_case.h"
#include "tests/compress_kernels/model_comparison.h"
#include "tests/compress_kernels/projection_comparison.h"
#include "tests/compress_kernels/random_case.h"
#include "tests/compress_kernels/scales_comparison.h"
#include "tests/compress_kernels/staged_codec.h"

namespace ringpress::compress_kernels::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPassed = 0;
constexpr int kFailed = 1;
constexpr int kNoDevice = 3;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n') {
      result += "\\n";
    } else {
      result += c;
    }
  }
  return result + '"';
}

enum class Kind { kCodec, kProjection, kModels, kScales };

/// What was tried of one specification.
struct Tally {
  std::string specification;
  Kind kind = Kind::kCodec;
  std::size_t cases = 0;
  std::size_t failed = 0;
  std::string first_failure;
};

class Checker {
 public:
  Checker(Device& device, std::byte* memory, std::size_t bytes)
      : device_(device), memory_(memory), bytes_(bytes) {}

  /// One more case of a specification.
  void run(Tally& tally, std::size_t most, std::mt19937& engine) {
    ++tally.cases;
    const std::string wrong = compare(tally, most, engine);
    if (wrong.empty()) return;
    if (tally.failed++ == 0) tally.first_failure = wrong;
  }

 private:
  std::string compare(const Tally& tally, std::size_t most, std::mt19937& engine) {
    const std::string& name = tally.specification;
    switch (tally.kind) {
      case Kind::kCodec:
        return compare(random_case(name, most, engine));
      case Kind::kProjection:
        return compare_projections(random_projection(name, most, engine), device_);
      case Kind::kModels:
        return compare_models(random_model_case(most, engine), device_);
      case Kind::kScales:
        return compare_scales(random_scales_case(most, engine), device_);
    }
    return "no such kind";
  }
  std::string compare(const Case& c) {
    auto codec = device_.make_codec(c.specification, c.dtype, ReduceOp::kSum);
    if (!codec.is_ok()) return codec.status().message();
    StagedCodec staged(device_, std::move(codec).value(), memory_, bytes_);
    return DeviceComparison(c, staged).run();
  }

  Device& device_;
  std::byte* const memory_;
  const std::size_t bytes_;
};

int print(const std::vector<Tally>& tallies) {
  std::size_t cases = 0;
  std::size_t failed = 0;
  std::printf("{\"specifications\": [");
  for (const Tally& tally : tallies) {
    std::printf("%s\n {\"specification\": %s, \"cases\": %zu, \"failed\": %zu",
                cases > 0 ? "," : "", quoted(tally.specification).c_str(), tally.cases,
                tally.failed);
    if (tally.failed > 0) {
      std::printf(", \"first_failure\": %s", quoted(tally.first_failure).c_str());
    }
    std::printf("}");
    cases += tally.cases;
    failed += tally.failed;
  }
  std::printf("],\n \"cases\": %zu, \"failed\": %zu}\n", cases, failed);
  return failed == 0 && cases > 0 ? kPassed : kFailed;
}

std::vector<Tally> all_tallies() {
  std::vector<Tally> tallies;
  for (const std::string& name : device_specifications())
    tallies.push_back({name, Kind::kCodec, 0, 0, ""});
  for (const std::string& name : projection_specifications())
    tallies.push_back({name, Kind::kProjection, 0, 0, ""});
  tallies.push_back({"gossip", Kind::kModels, 0, 0, ""});
  tallies.push_back({"scales", Kind::kScales, 0, 0, ""});
  return tallies;
}

/// Each specification once at least, then in turn until the time is up.
int check(Device& device, std::vector<Tally> tallies, double seconds, std::size_t most,
          std::uint32_t seed) {
  constexpr std::size_t kBytes = 256 << 20;
  auto memory = device.allocate(kBytes);
  if (!memory.is_ok()) return std::fprintf(stderr, "%s\n", memory.status().message().c_str()), 2;
  Checker checker(device, static_cast<std::byte*>(memory.value()), kBytes);
  std::mt19937 engine(seed);
  const auto begin = Clock::now();
  do {
    for (Tally& tally : tallies) checker.run(tally, most, engine);
  } while (seconds_since(begin) < seconds);
  device.free(memory.value());
  return print(tallies);
}

/// Arrays on the device for one element type.
struct Arrays {
  std::size_t count = 0;
  std::byte* values = nullptr;
  std::byte* decoded = nullptr;
  float* residual = nullptr;
  std::byte* wire = nullptr;
  std::byte* other_wire = nullptr;
  std::byte* scratch = nullptr;  // For the codec that takes most.
  std::uint8_t* codes = nullptr;
};

class Bench {
 public:
  explicit Bench(Device& device) : device_(device) {}

  /// Seconds of a call, as the least over some batches, and whether all went well.
  double seconds(const std::function<Status()>& call) {
    constexpr int kBatches = 5;
    constexpr int kCalls = 10;
    double least = 1e30;
    for (int batch = 0; batch <= kBatches; ++batch) {  // The first one warms up.
      wait();
      const auto begin = Clock::now();
      for (int i = 0; i < kCalls; ++i) note(call());
      wait();
      if (batch > 0) least = std::min(least, seconds_since(begin) / kCalls);
    }
    return least;
  }

  void* allocate(std::size_t bytes) {
    auto memory = device_.allocate(bytes);
    note(memory.is_ok() ? Status::ok() : memory.status());
    return memory.is_ok() ? memory.value() : nullptr;
  }
  void note(const Status& status) {
    if (!status.is_ok() && error_.empty()) error_ = status.message();
  }
  const std::string& error() const { return error_; }
  Device& device() { return device_; }

 private:
  /// A copy to ordinary memory of the host returns when all that was asked for is done.
  void wait() {
    if (word_ == nullptr) word_ = allocate(4);
    std::uint32_t word = 0;
    if (word_ != nullptr) note(device_.copy(nullptr, &word, word_, sizeof word));
  }

  Device& device_;
  void* word_ = nullptr;
  std::string error_;
};

constexpr std::string_view kUnfusedHop = "hop in three";

struct Row {
  const char* specification;
  const char* operation;
  DType dtype;
};

/// A specification, or one with "+scales" at its end.
Result<std::unique_ptr<DeviceCodec>> make_named(Device& device, const std::string& name,
                                                DType dtype) {
  constexpr std::string_view kScales = "+scales";
  if (!name.ends_with(kScales)) return device.make_codec(name, dtype, ReduceOp::kSum);
  return make_scaled_device_codec(device, name.substr(0, name.size() - kScales.size()), dtype,
                                  ReduceOp::kSum);
}

/// Bytes that a call reads and writes, and the call.
struct Work {
  double bytes = 0;
  std::function<Status()> call;
};

Work work_of(const Row& row, DeviceCodec& codec, const Arrays& arrays) {
  const double raw = static_cast<double>(arrays.count * dtype_size(row.dtype));
  const auto wire = static_cast<double>(codec.codec().wire_bytes(arrays.count));
  const std::string operation = row.operation;
  EncodeArgs encode;
  encode.values = arrays.values;
  encode.count = arrays.count;
  encode.wire = arrays.wire;
  encode.scales = arrays.codes;
  if (operation == "feedback") encode.residual = arrays.residual;
  DecodeArgs decode;
  decode.wire = arrays.wire;
  decode.count = arrays.count;
  decode.values = arrays.decoded;
  decode.scales = arrays.codes;
  if (operation == "decode") {
    return {raw + wire, [&codec, decode, arrays] {
              return codec.decode(nullptr, {&decode, 1}, arrays.scratch);
            }};
  }
  if (operation == "hop") {
    return {raw + 2 * wire, [&codec, arrays] {
              const std::byte* const part = arrays.wire;
              DecodeAddEncodeArgs hop;
              hop.wires = {&part, 1};
              hop.values = arrays.values;
              hop.count = arrays.count;
              hop.wire = arrays.other_wire;
              hop.scales = arrays.codes;
              return codec.decode_add_encode(nullptr, hop, arrays.scratch);
            }};
  }
  const double residual = encode.residual == nullptr ? 0 : 8.0 * static_cast<double>(arrays.count);
  return {raw + wire + residual, [&codec, encode, arrays] {
            return codec.encode(nullptr, {&encode, 1}, arrays.scratch);
          }};
}

/// A hop of bfloat16 values as three launches: decode, add (which the codec bf16 does, whose wire
/// bytes are such values), encode. Bytes are those of the hop in one, so rates can be compared.
Work unfused_hop(DeviceCodec& codec, DeviceCodec& adder, const Arrays& arrays) {
  const Work fused = work_of({"", "hop", DType::kBfloat16}, codec, arrays);
  return {fused.bytes, [&codec, &adder, arrays]() -> Status {
            auto* const sum = reinterpret_cast<std::byte*>(arrays.residual);
            DecodeArgs decode;
            decode.wire = arrays.wire;
            decode.count = arrays.count;
            decode.values = arrays.decoded;
            decode.scales = arrays.codes;
            RINGPRESS_RETURN_IF_ERROR(codec.decode(nullptr, {&decode, 1}, arrays.scratch));
            const std::byte* const part = arrays.decoded;
            DecodeAddEncodeArgs add;
            add.wires = {&part, 1};
            add.values = arrays.values;
            add.count = arrays.count;
            add.wire = sum;
            RINGPRESS_RETURN_IF_ERROR(adder.decode_add_encode(nullptr, add, nullptr));
            EncodeArgs encode;
            encode.values = sum;
            encode.count = arrays.count;
            encode.wire = arrays.other_wire;
            encode.scales = arrays.codes;
            return codec.encode(nullptr, {&encode, 1}, arrays.scratch);
          }};
}

/// Random values on the device: 16 MiB of them, again and again.
void fill(Bench& bench, const Arrays& arrays, DType dtype) {
  const std::size_t total = arrays.count * dtype_size(dtype);
  const std::vector<std::byte> some =
      draw_elements((16u << 20) / dtype_size(dtype), dtype, Values::kNormal, 1);
  for (std::size_t done = 0; done < total; done += some.size()) {
    const std::size_t size = std::min(some.size(), total - done);
    bench.note(bench.device().copy(nullptr, arrays.values + done, some.data(), size));
  }
  bench.note(bench.device().zero(nullptr, arrays.residual, arrays.count * sizeof(float)));
}

void print_rate(Bench& bench, const Row& row, const Arrays& arrays, double copy_rate) {
  auto codec = make_named(bench.device(), row.specification, row.dtype);
  bench.note(codec.is_ok() ? Status::ok() : codec.status());
  if (!codec.is_ok()) return;
  auto adder = bench.device().make_codec("bf16", DType::kBfloat16, ReduceOp::kSum);
  bench.note(adder.is_ok() ? Status::ok() : adder.status());
  if (!adder.is_ok()) return;
  const Work work = row.operation == kUnfusedHop
                        ? unfused_hop(*codec.value(), *adder.value(), arrays)
                        : work_of(row, *codec.value(), arrays);
  const double seconds = bench.seconds(work.call);
  const double rate = work.bytes / seconds / 1e9;
  std::printf(
      ",\n {\"codec\": %s, \"type\": \"%s\", \"operation\": \"%s\", \"seconds\": %.6g, "
      "\"gbytes_per_s\": %.6g, \"of_copy\": %.4g}",
      quoted(row.specification).c_str(), dtype_name(row.dtype), row.operation, seconds, rate,
      rate / copy_rate);
}

/// Gossip's pass over a model and what it was, which reads both.
void print_change_rate(Bench& bench, const Arrays& arrays, DType dtype, double copy_rate) {
  auto kernels = bench.device().make_models();
  bench.note(kernels.is_ok() ? Status::ok() : kernels.status());
  auto* const parts = static_cast<ChangePart*>(bench.allocate(kChangeParts * sizeof(ChangePart)));
  if (!bench.error().empty()) return;
  const ModelSpan model{arrays.values, arrays.count, dtype};
  const double seconds = bench.seconds(
      [&] { return kernels.value()->measure_change(nullptr, model, arrays.decoded, parts); });
  bench.device().free(parts);
  const double rate = 2.0 * static_cast<double>(arrays.count * dtype_size(dtype)) / seconds / 1e9;
  std::printf(
      ",\n {\"codec\": \"gossip\", \"type\": \"%s\", \"operation\": \"change\", \"seconds\": %.6g, "
      "\"gbytes_per_s\": %.6g, \"of_copy\": %.4g}",
      dtype_name(dtype), seconds, rate, rate / copy_rate);
}

constexpr const char* kBenchCodecs[] = {"q4",   "q4+scales", "q8",   "q4:grid=lloyd",    "fp8",
                                        "tern", "sign",      "qsgd", "topk:select=chunk"};

/// What the operations of any of them take, on `bytes` of elements of two bytes.
std::size_t scratch_bytes(Bench& bench, std::size_t bytes) {
  std::size_t most = 1;
  for (const char* specification : kBenchCodecs) {
    const auto codec = make_named(bench.device(), specification, DType::kBfloat16);
    if (codec.is_ok()) most = std::max(most, codec.value()->scratch_bytes(1, bytes / 2));
  }
  return most;
}

int bench(Device& device, std::size_t bytes) {
  Bench bench(device);
  Arrays arrays;
  arrays.values = static_cast<std::byte*>(bench.allocate(bytes));
  arrays.decoded = static_cast<std::byte*>(bench.allocate(bytes));
  arrays.residual = static_cast<float*>(bench.allocate(2 * bytes));
  arrays.wire = static_cast<std::byte*>(bench.allocate(bytes));
  arrays.other_wire = static_cast<std::byte*>(bench.allocate(bytes));
  arrays.scratch = static_cast<std::byte*>(bench.allocate(scratch_bytes(bench, bytes)));
  arrays.codes = static_cast<std::uint8_t*>(bench.allocate(bytes / 2));
  if (arrays.codes != nullptr) bench.note(device.zero(nullptr, arrays.codes, bytes / 2));
  if (!bench.error().empty()) return std::fprintf(stderr, "%s\n", bench.error().c_str()), 2;
  const double copy =
      bench.seconds([&] { return device.copy(nullptr, arrays.decoded, arrays.values, bytes); });
  const double copy_rate = 2.0 * static_cast<double>(bytes) / copy / 1e9;
  std::printf("{\"bytes\": %zu, \"rates\": [\n {\"codec\": \"copy\", \"gbytes_per_s\": %.6g}",
              bytes, copy_rate);
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
    arrays.count = bytes / dtype_size(dtype);
    fill(bench, arrays, dtype);
    print_change_rate(bench, arrays, dtype, copy_rate);
    for (const char* specification : kBenchCodecs) {
      for (const char* operation : {"encode", "decode", "hop", "feedback"}) {
        print_rate(bench, {specification, operation, dtype}, arrays, copy_rate);
      }
      if (dtype != DType::kBfloat16) continue;
      print_rate(bench, {specification, kUnfusedHop.data(), dtype}, arrays, copy_rate);
      bench.note(device.zero(nullptr, arrays.residual, arrays.count * sizeof(float)));
    }
  }
  std::printf("],\n \"error\": %s}\n", quoted(bench.error()).c_str());
  return bench.error().empty() ? kPassed : kFailed;
}

int run(const std::vector<std::string>& words) {
  const auto number = [&](std::size_t index, double otherwise) {
    return words.size() > index ? std::atof(words[index].c_str()) : otherwise;
  };
  if (words.empty() || (words[0] != "check" && words[0] != "scales" && words[0] != "bench")) {
    return std::fprintf(stderr, "usage: device_kernels check|scales|bench, see its source\n"), 2;
  }
  auto device = make_cuda_device(0);
  if (!device.is_ok()) {
    std::fprintf(stderr, "%s\n", device.status().message().c_str());
    return kNoDevice;
  }
  if (words[0] == "bench")
    return bench(*device.value(), static_cast<std::size_t>(number(1, 0x1p30)));
  std::vector<Tally> tallies = all_tallies();
  if (words[0] == "scales") tallies = {tallies.back()};
  return check(*device.value(), std::move(tallies), number(1, 60),
               static_cast<std::size_t>(number(2, 200000)),
               static_cast<std::uint32_t>(number(3, 1)));
}

}  // namespace
}  // namespace ringpress::compress_kernels::testing

int main(int count, char** words) {
  return ringpress::compress_kernels::testing::run({words + 1, words + count});
}
