// One call of each operation of a DeviceCodec beside the scalar reference, and what differs. Knows
// nothing of GoogleTest: tests/gpu/ runs it where there is none.
#ifndef TESTS_COMPRESS_KERNELS_DEVICE_CASE_H_
#define TESTS_COMPRESS_KERNELS_DEVICE_CASE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "compress_kernels/factory.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/device.h"
#include "tests/compress_kernels/agreed_chunk.h"
#include "tests/compress_kernels/codec_data.h"
#include "tests/compress_kernels/device_shard.h"

namespace ringpress::compress_kernels::testing {

/// Casts may differ in the bits of a NaN, which a sum made.
inline bool same_wire(const Codec& codec, const Case& c, const Shard& a, const Shard& b) {
  if (std::memcmp(a.wire.data(), b.wire.data(), a.wire.bytes()) == 0) return true;
  const std::string& name = codec.specification();
  if (name != "fp16" && name != "bf16") return false;
  std::vector<std::byte> values[2];
  for (const Shard* shard : {&a, &b}) {
    auto& decoded = values[shard == &b];
    decoded.resize(a.count * dtype_size(c.dtype));
    codec.decode({.wire = shard->wire.data(), .count = a.count, .values = decoded.data()});
  }
  return first_difference(values[0].data(), values[1].data(), a.count, c.dtype) == a.count;
}

/// The scalar reference of a case.
inline std::unique_ptr<Codec> make_reference(const Case& c) {
  static_cast<void>(force_isa("scalar"));
  auto codec = make_codec(c.specification, c.dtype, ReduceOp::kSum);
  static_cast<void>(force_isa(""));
  return std::move(codec).value();
}

/// Scratch memory of a device's codec, with anything in it.
class ScratchMemory {
 public:
  template <typename Args>
  ScratchMemory(const DeviceCodec& codec, std::span<const Args> shards) {
    std::size_t most = 0;
    for (const Args& args : shards) most = std::max(most, args.count);
    bytes_ = codec.scratch_bytes(shards.size(), most);
    memory_.assign(bytes_ == 0 ? 0 : bytes_ + kAlignment, std::byte{0xC7});
  }
  ScratchMemory(const DeviceCodec& codec, const std::vector<EncodeArgs>& shards)
      : ScratchMemory(codec, std::span<const EncodeArgs>(shards)) {}
  ScratchMemory(const DeviceCodec& codec, const DecodeAddEncodeArgs& args)
      : ScratchMemory(codec, std::span<const DecodeAddEncodeArgs>(&args, 1)) {}

  /// Null if there is none.
  std::byte* data() {
    if (bytes_ == 0) return nullptr;
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    return memory_.data() + (kAlignment - address % kAlignment);
  }

 private:
  static constexpr std::size_t kAlignment = 256;
  std::vector<std::byte> memory_;
  std::size_t bytes_ = 0;
};

/// Holds a device's codec to the scalar reference. Every function gives "" or what differs.
class DeviceComparison {
 public:
  DeviceComparison(const Case& c, DeviceCodec& device)
      : case_(c), reference_(make_reference(c)), device_(device) {}

  /// Encodes, decodes that, and makes a hop.
  std::string run() {
    const Shards encoded = make_shards(*reference_, case_);
    std::string wrong = encode(encoded);
    wrong += decode(encoded);
    return wrong + hop();
  }

  /// `expected` gets what the reference makes.
  std::string encode(const Shards& expected) {
    const Shards actual = make_shards(*reference_, case_);
    std::vector<EncodeArgs> all;
    agreed_.clear();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      agreed_.push_back(agree({expected[i].get()}));
      EncodeArgs args = expected[i]->arguments<EncodeArgs>(case_);
      args.form = {1, case_.world};
      args.agreed = agreed_.back().get();
      reference_->encode(args);
      all.push_back(actual[i]->arguments<EncodeArgs>(case_));
      all.back().form = args.form;
      all.back().agreed = args.agreed;
    }
    ScratchMemory scratch(device_, all);
    return judge("encode", device_.encode(nullptr, all, scratch.data()), actual, expected);
  }

  /// Decodes what `encoded` holds, by what its ranks have agreed on in encode(), into `decoded` of
  /// other shards.
  std::string decode(const Shards& encoded) {
    const Shards expected = make_shards(*reference_, case_);
    const Shards actual = make_shards(*reference_, case_);
    std::vector<DecodeArgs> all;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      DecodeArgs args;
      args.wire = encoded[i]->wire.data();
      args.count = expected[i]->count;
      args.values = expected[i]->decoded.data();
      args.form = {1, case_.world};
      if (reference_->traits().summable) args.divisor = case_.divisor;
      if (i < agreed_.size()) args.agreed = agreed_[i].get();
      reference_->decode(args);
      args.values = actual[i]->decoded.data();
      all.push_back(args);
    }
    ScratchMemory scratch(device_, std::span<const DecodeArgs>(all));
    return judge("decode", device_.decode(nullptr, all, scratch.data()), actual, expected);
  }

  /// On the first shard; from then on there is no other.
  std::string hop() {
    case_.counts.resize(1);
    const std::vector<Shards> parts = make_parts();
    const Shards expected = make_shards(*reference_, case_);
    const Shards actual = make_shards(*reference_, case_);
    std::vector<const Shard*> ranks{expected[0].get()};
    for (const Shards& part : parts) ranks.push_back(part[0].get());
    const AgreedChunk agreed = agree(ranks);
    const std::string wrong = judge_summaries(agreed, ranks);
    std::vector<const std::byte*> wires;
    for (const Shards& part : parts) wires.push_back(encode_part(*part[0], agreed.get()));
    DecodeAddEncodeArgs args = hop_arguments(expected, wires, agreed.get());
    reference_->decode_add_encode(args);
    args = hop_arguments(actual, wires, agreed.get());
    ScratchMemory scratch(device_, args);
    const Status status = device_.decode_add_encode(nullptr, args, scratch.data());
    return wrong + judge("hop", status, actual, expected);
  }

 private:
  AgreedChunk agree(const std::vector<const Shard*>& ranks) const {
    if (reference_->agreement() == nullptr) return {};
    const auto of_host = make_host_agreement(*reference_->agreement());
    return AgreedChunk(*reference_->agreement(), *of_host, ranks);
  }

  /// What the device makes of the same ranks.
  std::string judge_summaries(const AgreedChunk& expected,
                              const std::vector<const Shard*>& ranks) const {
    if (reference_->agreement() == nullptr) return "";
    const AgreedChunk actual(*reference_->agreement(), *device_.agreement(), ranks);
    std::ostringstream text;
    if (!actual.status().is_ok()) text << actual.status().message() << ": " << case_ << '\n';
    if (!actual.has_bytes_of(expected)) text << "they agree on other bytes: " << case_ << '\n';
    return text.str();
  }

  std::vector<Shards> make_parts() const {
    std::vector<Shards> parts;
    for (std::size_t k = 0; k < case_.parts; ++k) {
      Case part = case_;
      part.seed = case_.seed + 10 + static_cast<std::uint32_t>(k);
      part.residual = false;
      parts.push_back(make_shards(*reference_, part));
    }
    return parts;
  }

  const std::byte* encode_part(Shard& part, const Agreed& agreed) const {
    Case plain = case_;
    plain.residual = plain.decoded = false;
    auto args = part.arguments<EncodeArgs>(plain);
    args.form = {case_.part_summed, case_.world};
    args.agreed = agreed;
    reference_->encode(args);
    return args.wire;
  }

  DecodeAddEncodeArgs hop_arguments(const Shards& shards,
                                    const std::vector<const std::byte*>& wires,
                                    const Agreed& agreed) const {
    auto args = shards[0]->arguments<DecodeAddEncodeArgs>(case_);
    args.wires = wires;
    args.own_position = case_.own_position;
    args.divisor = case_.divisor;
    args.form = case_.hop_form();
    args.wire_contributions = case_.part_summed;
    args.agreed = agreed;
    if (!case_.is_encoded) args.wire = nullptr;
    return args;
  }

  std::string judge(const char* what, const Status& status, const Shards& actual,
                    const Shards& expected) const {
    std::ostringstream text;
    if (!status.is_ok()) text << what << ": " << status.message() << ": " << case_ << '\n';
    for (std::size_t i = 0; i < actual.size(); ++i) {
      const std::string differs = difference(*actual[i], *expected[i]);
      if (!differs.empty()) text << what << ", shard " << i << ": " << differs << case_ << '\n';
    }
    return text.str();
  }

  std::string difference(const Shard& a, const Shard& b) const {
    const auto same_elements = [&](const GuardedBuffer& x, const GuardedBuffer& y) {
      return first_difference(x.data(), y.data(), a.count, case_.dtype) == a.count;
    };
    std::string text;
    if (!a.guards_intact()) text += "written beyond an end; ";
    if (!same_wire(*reference_, case_, a, b)) text += "other bytes; ";
    if (!same_elements(a.values, b.values)) text += "other values; ";
    if (!same_elements(a.decoded, b.decoded)) text += "other decoded values; ";
    if (std::memcmp(a.residual.data(), b.residual.data(), a.residual.bytes()) != 0) {
      text += "another residual; ";
    }
    return text;
  }

  Case case_;
  std::unique_ptr<Codec> reference_;
  DeviceCodec& device_;
  std::vector<AgreedChunk> agreed_;  // Of the shards that encode() took.
};

}  // namespace ringpress::compress_kernels::testing

#endif  // TESTS_COMPRESS_KERNELS_DEVICE_CASE_H_
