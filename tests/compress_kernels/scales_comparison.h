// Coordinate scales on a device beside those of host memory: what is learnt, and codecs that have
// them. Knows nothing of GoogleTest.
#ifndef TESTS_COMPRESS_KERNELS_SCALES_COMPARISON_H_
#define TESTS_COMPRESS_KERNELS_SCALES_COMPARISON_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "compress_kernels/factory.h"
#include "compress_kernels/scales/scales.h"
#include "ringpress/internal/device.h"
#include "tests/compress_kernels/codec_data.h"
#include "tests/compress_kernels/host_memory_device.h"

namespace ringpress::compress_kernels::testing {

/// Codecs of the host, the scalar reference's, as a device's.
class HostCodecDevice : public HostMemoryDevice {
 public:
  Result<std::unique_ptr<DeviceCodec>> make_codec(const std::string& specification, DType dtype,
                                                  ReduceOp op) override {
    static_cast<void>(force_isa("scalar"));
    auto codec = compress_kernels::make_codec(specification, dtype, op);
    static_cast<void>(force_isa(""));
    RINGPRESS_RETURN_IF_ERROR(codec.status());
    return std::unique_ptr<DeviceCodec>(std::make_unique<HostCodec>(std::move(codec).value()));
  }

 private:
  class HostCodec final : public DeviceCodec {
   public:
    explicit HostCodec(std::unique_ptr<Codec> codec) : codec_(std::move(codec)) {}
    const Codec& codec() const override { return *codec_; }
    Status supports(Contributions, std::size_t) const override { return Status::ok(); }
    Status encode(Stream, std::span<const EncodeArgs> shards, std::byte*) override {
      for (const EncodeArgs& args : shards) codec_->encode(args);
      return Status::ok();
    }
    Status decode_add_encode(Stream, const DecodeAddEncodeArgs& args, std::byte*) override {
      codec_->decode_add_encode(args);
      return Status::ok();
    }
    Status decode(Stream, std::span<const DecodeArgs> shards, std::byte*) override {
      for (const DecodeArgs& args : shards) codec_->decode(args);
      return Status::ok();
    }

   private:
    std::unique_ptr<Codec> codec_;
  };
};

struct ScalesCase {
  std::string specification = "q4";
  DType dtype = DType::kFloat32;
  std::size_t count = 1;   // Of the first shard and of what is learnt from.
  std::size_t shards = 1;  // Those after the first are smaller.
  std::size_t offset = 0;  // Elements in front of arrays of values: 16 bytes need not divide that.
  std::uint32_t seed = 1;
  bool has_lost = false;  // Some values are no finite numbers.
  bool has_codes = true;  // Or they are all 0.
};

/// An array that a device makes, to be compared.
struct MadeArray {
  std::string what;
  DType dtype = DType::kUint8;
  std::vector<std::byte> bytes;
};

/// Runs one case on a device.
class ScalesRun {
 public:
  ScalesRun(Device& device, const ScalesCase& c) : device_(device), case_(c) {}
  ~ScalesRun() {
    for (void* memory : memory_) device_.free(memory);
  }
  ScalesRun(const ScalesRun&) = delete;
  ScalesRun& operator=(const ScalesRun&) = delete;

  /// Four results are learnt from, and after two of them it is measured whether scales help.
  void learn() {
    auto made = device_.make_scales();
    if (!note(made.status())) return;
    DeviceScales& scales = *made.value();
    const std::size_t count = case_.count;
    KeptScales tensor;
    tensor.count = count;
    tensor.block = block_of_scales(case_.specification).value();
    tensor.squares = static_cast<float*>(put(std::vector<float>(count)));
    tensor.codes = static_cast<std::uint8_t*>(put(std::vector<std::uint8_t>(count, 77)));
    tensor.use = static_cast<std::uint64_t*>(put(std::vector<std::uint64_t>(1)));
    auto* const parts =
        static_cast<ScaleErrorPart*>(put(std::vector<ScaleErrorPart>(kScaleErrorParts, {-1, -1})));
    note(scales.find(nullptr, tensor));
    for (std::uint32_t call = 1; call <= 4; ++call) {
      const GradientSpan result{put_elements(results(count, call)), count, case_.dtype};
      if (call % 2 == 0) note(scales.measure(nullptr, tensor, result, call, parts));
      note(scales.learn(nullptr, tensor, result, call == 3 ? 0.1F : 1.0F / 3));
      const std::string which = " after call " + std::to_string(call);
      take("squares" + which, DType::kFloat32, tensor.squares, count * sizeof(float));
      take("codes" + which, DType::kUint8, tensor.codes, count);
      take("use" + which, DType::kUint64, tensor.use, sizeof(std::uint64_t));
    }
    tensor.block = 32;
    note(scales.find(nullptr, tensor));
    take("codes of other blocks", DType::kUint8, tensor.codes, count);
  }

  /// Each operation of the codec `codec`. `codes`: of the tensor; null: it has none.
  void run_codec(DeviceCodec& codec, const std::vector<std::uint8_t>* codes) {
    std::vector<EncodeArgs> shards;
    for (std::size_t i = 0; i < case_.shards; ++i) {
      const std::size_t count = i == 0 ? case_.count : case_.count * 3 / (3 + i);
      EncodeArgs args;
      args.values = put_elements(results(count, 10 + static_cast<std::uint32_t>(i)));
      args.residual = static_cast<float*>(put(draw_floats(count, Values::kNormal, case_.seed + 5)));
      args.count = count;
      args.form = {1, 3};
      args.random = {1, 2, 3, 4096};
      args.wire = put_bytes(codec.codec().wire_bytes(count, args.form));
      args.decoded = i % 2 == 0 ? put_elements(std::vector<float>(count)) : nullptr;
      args.scales = put_codes(codes, i, count);
      shards.push_back(args);
    }
    std::byte* const scratch = put_bytes(codec.scratch_bytes(case_.shards, case_.count));
    note(codec.encode(nullptr, shards, scratch));
    std::vector<DecodeArgs> decodes;
    for (const EncodeArgs& args : shards) {
      take_values("encode", codec, args.form, args);
      DecodeArgs decode;
      decode.wire = args.wire;
      decode.count = args.count;
      decode.wire_size = codec.codec().wire_bytes(args.count, args.form);
      decode.values = put_elements(std::vector<float>(args.count));
      decode.form = args.form;
      decode.scales = args.scales;
      decodes.push_back(decode);
    }
    note(codec.decode(nullptr, decodes, scratch));
    for (const DecodeArgs& args : decodes) take_elements("decode", args.values, args.count);
    hop(codec, shards[0], scratch, false);
    hop(codec, shards[0], scratch, true);
  }

  const Status& status() const { return status_; }
  const std::vector<MadeArray>& made() const { return made_; }

 private:
  bool note(const Status& status) {
    if (status_.is_ok()) status_ = status;
    return status.is_ok();
  }

  /// Of which each coordinate has a size of its own, from 1 to some 20.
  std::vector<float> results(std::size_t count, std::uint32_t salt) const {
    std::vector<float> values = draw_floats(count, Values::kNormal, case_.seed + salt);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] *= std::exp2(static_cast<float>(i * 37 % 10) / 2);
    }
    if (!case_.has_lost || count == 0) return values;
    values[case_.seed % count] = std::numeric_limits<float>::quiet_NaN();
    values[(case_.seed + salt) % count] = -std::numeric_limits<float>::infinity();
    values[(case_.seed + 2 * salt) % count] = 0x1p-120F;
    return values;
  }

  template <typename T>
  void* put(const std::vector<T>& values) {
    const std::size_t bytes = values.size() * sizeof(T);
    std::byte* const memory = put_bytes(bytes);
    if (memory != nullptr) note(device_.copy(nullptr, memory, values.data(), bytes));
    note(device_.synchronize(nullptr));
    return memory;
  }
  std::byte* put_bytes(std::size_t bytes) {
    auto memory = device_.allocate(bytes + 64);
    if (!note(memory.status())) return nullptr;
    memory_.push_back(memory.value());
    return static_cast<std::byte*>(memory.value());
  }
  void* put_elements(const std::vector<float>& values) {
    std::vector<std::byte> elements(case_.offset * dtype_size(case_.dtype));
    const std::vector<std::byte> own = to_elements(values, case_.dtype);
    elements.insert(elements.end(), own.begin(), own.end());
    return static_cast<std::byte*>(put(elements)) + case_.offset * dtype_size(case_.dtype);
  }
  /// Those of a shard begin at a tile.
  const std::uint8_t* put_codes(const std::vector<std::uint8_t>* codes, std::size_t shard,
                                std::size_t count) {
    if (codes == nullptr) return nullptr;
    const auto first = codes->begin() + static_cast<std::ptrdiff_t>(shard);
    return static_cast<const std::uint8_t*>(
        put(std::vector<std::uint8_t>(first, first + static_cast<std::ptrdiff_t>(count))));
  }

  void take(const std::string& what, DType dtype, const void* from, std::size_t bytes) {
    MadeArray made{what, dtype, std::vector<std::byte>(bytes)};
    if (from != nullptr) note(device_.copy(nullptr, made.bytes.data(), from, bytes));
    note(device_.synchronize(nullptr));
    made_.push_back(std::move(made));
  }
  void take_elements(const std::string& what, const void* from, std::size_t count) {
    if (from != nullptr)
      take(what + ": values", case_.dtype, from, count * dtype_size(case_.dtype));
  }
  template <typename Args>
  void take_values(const std::string& what, const DeviceCodec& codec, Contributions form,
                   const Args& args) {
    if (args.wire != nullptr) {
      take(what + ": wire", DType::kUint8, args.wire, codec.codec().wire_bytes(args.count, form));
    }
    if (args.residual != nullptr) {
      take(what + ": residual", DType::kFloat32, args.residual, args.count * sizeof(float));
    }
    take_elements(what, args.decoded, args.count);
  }

  /// Of the shard that was encoded twice and of own values, in their place; `ends`: nothing is
  /// encoded again.
  void hop(DeviceCodec& codec, const EncodeArgs& encoded, std::byte* scratch, bool ends) {
    const std::byte* const wires[] = {encoded.wire, encoded.wire};
    const std::size_t bytes = codec.codec().wire_bytes(encoded.count, encoded.form);
    const std::size_t sizes[] = {bytes, bytes};
    void* const values = put_elements(results(encoded.count, 30));
    DecodeAddEncodeArgs hop;
    hop.wires = wires;
    hop.wire_sizes = sizes;
    hop.own_position = 1;
    hop.values = values;
    hop.decoded = values;
    hop.count = encoded.count;
    hop.divisor = 3;
    hop.residual = ends ? nullptr : encoded.residual;
    hop.random = encoded.random;
    hop.form = {3, 3};
    if (!ends) hop.wire = put_bytes(codec.codec().wire_bytes(hop.count, hop.form));
    hop.scales = encoded.scales;
    note(codec.decode_add_encode(nullptr, hop, scratch));
    take_values(ends ? "last hop" : "hop", codec, hop.form, hop);
  }

  Device& device_;
  const ScalesCase case_;
  Status status_;
  std::vector<void*> memory_;
  std::vector<MadeArray> made_;
};

/// "" or what differs, and where. NaNs are equal.
inline std::string compare_runs(const ScalesRun& run, const ScalesRun& expected) {
  for (const ScalesRun* one : {&run, &expected}) {
    if (!one->status().is_ok()) return one->status().message();
  }
  if (run.made().size() != expected.made().size()) return "other arrays";
  for (std::size_t i = 0; i < run.made().size(); ++i) {
    const MadeArray& found = run.made()[i];
    const MadeArray& wanted = expected.made()[i];
    if (found.bytes.size() != wanted.bytes.size()) return found.what + ": another size";
    const std::size_t count = found.bytes.size() / dtype_size(found.dtype);
    const std::size_t at =
        first_difference(found.bytes.data(), wanted.bytes.data(), count, found.dtype);
    if (at != count) return found.what + " differ at " + std::to_string(at);
  }
  return "";
}

inline std::string to_text(const ScalesCase& c) {
  return c.specification + " " + dtype_name(c.dtype) + " count " + std::to_string(c.count) +
         " shards " + std::to_string(c.shards) + " offset " + std::to_string(c.offset) + " seed " +
         std::to_string(c.seed) + (c.has_lost ? " lost" : "") + (c.has_codes ? "" : " no codes");
}

/// "" or what differs.
inline std::string compare_scales(const ScalesCase& c, Device& device) {
  HostCodecDevice host;
  ScalesRun run(device, c), expected(host, c);
  run.learn();
  expected.learn();
  std::string wrong = compare_runs(run, expected);
  auto codec = make_scaled_device_codec(device, c.specification, c.dtype, ReduceOp::kSum);
  if (!codec.is_ok()) return codec.status().message();
  const auto reference =
      make_scaled_device_codec(host, c.specification, c.dtype, ReduceOp::kSum).value();
  std::vector<std::uint8_t> codes(c.count + c.shards);
  std::mt19937 engine(c.seed);
  for (std::uint8_t& code : codes) {
    code = c.has_codes ? static_cast<std::uint8_t>(engine() % (scales::kLargestScale + 1U)) : 0;
  }
  run.run_codec(*codec.value(), &codes);
  expected.run_codec(*reference, &codes);
  if (wrong.empty()) wrong = compare_runs(run, expected);
  return wrong.empty() ? "" : to_text(c) + ": " + wrong;
}

/// Those that are the same on a device and on hosts.
inline constexpr const char* kScaledSpecifications[] = {"q2",
                                                        "q3",
                                                        "q4",
                                                        "q5",
                                                        "q6",
                                                        "q7",
                                                        "q8",
                                                        "q2:block=32",
                                                        "q4:block=64",
                                                        "q3:block=1024",
                                                        "q4:grid=lloyd",
                                                        "q2:grid=lloyd,rotate=0",
                                                        "q4:round=stochastic",
                                                        "q4:partial=same"};

inline ScalesCase random_scales_case(std::size_t most, std::mt19937& engine) {
  constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};
  ScalesCase c;
  c.specification = kScaledSpecifications[engine() % std::size(kScaledSpecifications)];
  c.dtype = kTypes[engine() % 3];
  c.count = 1 + engine() % most;
  c.shards = engine() % 8 == 0 ? 45 : 1 + engine() % 4;
  c.offset = engine() % 2 == 0 ? 0 : engine() % 9;
  c.seed = engine() % 1000000;
  c.has_lost = engine() % 4 == 0;
  c.has_codes = engine() % 4 != 0;
  return c;
}

}  // namespace ringpress::compress_kernels::testing

#endif  // TESTS_COMPRESS_KERNELS_SCALES_COMPARISON_H_
