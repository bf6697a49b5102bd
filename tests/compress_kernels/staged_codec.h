// A device's codec for arguments in host memory: they go to the device, with the same misalignment
// and between guards, and come back.
#ifndef TESTS_COMPRESS_KERNELS_STAGED_CODEC_H_
#define TESTS_COMPRESS_KERNELS_STAGED_CODEC_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ringpress/internal/codec.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels::testing {

/// Device memory that arrays of one operation lie in, and its copy on the host.
class StagingArea {
 public:
  StagingArea(Device& device, std::byte* memory, std::size_t bytes)
      : device_(device), memory_(memory), bytes_(bytes) {}

  /// Where an array goes, aligned as it is up to 64 bytes; what comes first is 256-byte aligned if
  /// it is that. Null stays null. An array that has a place keeps it.
  std::byte* put(const void* array, std::size_t bytes) {
    if (array == nullptr) return nullptr;
    for (const StagedArray& staged : staged_) {
      if (staged.array == array && staged.bytes == bytes) return memory_ + staged.offset;
    }
    const std::size_t offset = end_ + kAlignment + reinterpret_cast<std::uintptr_t>(array) % 64;
    end_ = (offset + bytes) / kAlignment * kAlignment + kAlignment;
    if (size() > bytes_) {
      is_full_ = true;
      return nullptr;
    }
    copy_.resize(size(), kGuard);
    std::memcpy(copy_.data() + offset, array, bytes);
    staged_.push_back({array, bytes, offset});
    return memory_ + offset;
  }

  Status send() {
    copy_.resize(size(), kGuard);
    if (is_full_) return Status(Code::kInvalidArgument, "the staging area is too small");
    return device_.copy(nullptr, memory_, copy_.data(), size());
  }
  /// Waits for the device.
  Status fetch() {
    RINGPRESS_RETURN_IF_ERROR(device_.copy(nullptr, copy_.data(), memory_, size()));
    std::size_t guarded = 0;
    for (const StagedArray& staged : staged_) {
      if (!is_guard(guarded, staged.offset)) return overrun();
      // What was const was not changed, or the comparison will find it.
      std::memcpy(const_cast<void*>(staged.array), copy_.data() + staged.offset, staged.bytes);
      guarded = staged.offset + staged.bytes;
    }
    return is_guard(guarded, size()) ? Status::ok() : overrun();
  }

 private:
  static constexpr std::size_t kAlignment = 256;
  static constexpr std::byte kGuard{0x5C};

  struct StagedArray {
    const void* array;
    std::size_t bytes;
    std::size_t offset;
  };

  std::size_t size() const { return end_ + kAlignment; }
  bool is_guard(std::size_t begin, std::size_t end) const {
    return std::all_of(copy_.begin() + static_cast<std::ptrdiff_t>(begin),
                       copy_.begin() + static_cast<std::ptrdiff_t>(end),
                       [](std::byte b) { return b == kGuard; });
  }
  static Status overrun() { return Status(Code::kInternal, "a kernel wrote beyond an end"); }

  Device& device_;
  std::byte* const memory_;
  const std::size_t bytes_;
  std::vector<std::byte> copy_;
  std::vector<StagedArray> staged_;
  std::size_t end_ = 0;
  bool is_full_ = false;
};

class StagedAgreement final : public DeviceAgreement {
 public:
  /// `memory`: `bytes` of the device.
  StagedAgreement(Device& device, DeviceCodec& codec, std::byte* memory, std::size_t bytes)
      : device_(device), codec_(codec), memory_(memory), bytes_(bytes) {}

  Status summarise_tensor(Stream stream, const SummariseArgs& args) override {
    return summarise_all(kTensor, {&args, 1}, [&](std::span<const SummariseArgs> staged) {
      return codec_.agreement()->summarise_tensor(stream, staged.front());
    });
  }
  Status summarise(Stream stream, int round, std::span<const SummariseArgs> shards) override {
    return summarise_all(round, shards, [&](std::span<const SummariseArgs> staged) {
      return codec_.agreement()->summarise(stream, round, staged);
    });
  }
  Status merge_tensor(Stream stream, std::span<const std::byte* const> from,
                      std::byte* into) override {
    return merge_all(from, into, agreement().tensor_bytes(), [&](auto staged, std::byte* to) {
      return codec_.agreement()->merge_tensor(stream, staged, to);
    });
  }
  Status merge(Stream stream, int round, std::size_t count, std::span<const std::byte* const> from,
               std::byte* into) override {
    const std::size_t bytes = agreement().round_bytes(round, count);
    return merge_all(from, into, bytes, [&](auto staged, std::byte* to) {
      return codec_.agreement()->merge(stream, round, count, staged, to);
    });
  }

 private:
  static constexpr int kTensor = -1;

  const Agreement& agreement() const { return *codec_.codec().agreement(); }

  template <typename Call>
  Status summarise_all(int round, std::span<const SummariseArgs> shards, Call&& call) {
    StagingArea area(device_, memory_, bytes_);
    std::vector<SummariseArgs> staged(shards.begin(), shards.end());
    for (SummariseArgs& args : staged) {
      const std::size_t bytes = round == kTensor ? agreement().tensor_bytes()
                                                 : agreement().round_bytes(round, args.count);
      const auto* const residual = reinterpret_cast<const std::byte*>(args.residual);
      args.values = area.put(args.values, args.count * dtype_size(codec_.codec().dtype()));
      args.residual = reinterpret_cast<float*>(area.put(residual, args.count * sizeof(float)));
      args.agreed.tensor = area.put(args.agreed.tensor, agreement().tensor_bytes());
      // Only what is agreed on already: this round's summary may lie behind it.
      args.agreed.chunk = area.put(
          args.agreed.chunk, round == kTensor ? 0 : agreement().round_offset(round, args.count));
      args.summary = area.put(args.summary, bytes);
    }
    RINGPRESS_RETURN_IF_ERROR(area.send());
    RINGPRESS_RETURN_IF_ERROR(call(staged));
    return area.fetch();
  }

  template <typename Call>
  Status merge_all(std::span<const std::byte* const> from, std::byte* into, std::size_t bytes,
                   Call&& call) {
    StagingArea area(device_, memory_, bytes_);
    std::vector<const std::byte*> staged;
    for (const std::byte* summary : from) staged.push_back(area.put(summary, bytes));
    std::byte* const to = area.put(into, bytes);
    RINGPRESS_RETURN_IF_ERROR(area.send());
    RINGPRESS_RETURN_IF_ERROR(call(std::span<const std::byte* const>(staged), to));
    return area.fetch();
  }

  Device& device_;
  DeviceCodec& codec_;
  std::byte* const memory_;
  const std::size_t bytes_;
};

class StagedCodec final : public DeviceCodec {
 public:
  /// `memory`: `bytes` of the device.
  StagedCodec(Device& device, std::unique_ptr<DeviceCodec> codec, std::byte* memory,
              std::size_t bytes)
      : device_(device),
        codec_(std::move(codec)),
        memory_(memory),
        bytes_(bytes),
        agreement_(device, *codec_, memory, bytes) {}

  const Codec& codec() const override { return codec_->codec(); }
  DeviceAgreement* agreement() override {
    return codec_->agreement() == nullptr ? nullptr : &agreement_;
  }
  Status supports(Contributions form, std::size_t wires) const override {
    return codec_->supports(form, wires);
  }

  std::size_t scratch_bytes(std::size_t shards, std::size_t count) const override {
    return codec_->scratch_bytes(shards, count);
  }
  Status encode(Stream stream, std::span<const EncodeArgs> shards, std::byte* scratch) override {
    StagingArea area(device_, memory_, bytes_);
    std::vector<EncodeArgs> staged(shards.begin(), shards.end());
    std::size_t most = 0;
    for (const EncodeArgs& args : shards) most = std::max(most, args.count);
    std::byte* const staged_scratch = area.put(scratch, scratch_bytes(shards.size(), most));
    for (EncodeArgs& args : staged) put_values(area, args);
    RINGPRESS_RETURN_IF_ERROR(area.send());
    RINGPRESS_RETURN_IF_ERROR(codec_->encode(stream, staged, staged_scratch));
    return area.fetch();
  }

  Status decode(Stream stream, std::span<const DecodeArgs> shards, std::byte* scratch) override {
    StagingArea area(device_, memory_, bytes_);
    std::vector<DecodeArgs> staged(shards.begin(), shards.end());
    std::size_t most = 0;
    for (const DecodeArgs& args : staged) most = std::max(most, args.count);
    std::byte* const staged_scratch = area.put(scratch, scratch_bytes(shards.size(), most));
    for (DecodeArgs& args : staged) {
      args.wire = area.put(args.wire, codec().wire_bytes(args.count, args.form));
      args.values = area.put(args.values, args.count * dtype_size(codec().dtype()));
      put_shared(area, args);
    }
    RINGPRESS_RETURN_IF_ERROR(area.send());
    RINGPRESS_RETURN_IF_ERROR(codec_->decode(stream, staged, staged_scratch));
    return area.fetch();
  }

  Status decode_add_encode(Stream stream, const DecodeAddEncodeArgs& args,
                           std::byte* scratch) override {
    StagingArea area(device_, memory_, bytes_);
    std::byte* const staged_scratch = area.put(scratch, scratch_bytes(1, args.count));
    DecodeAddEncodeArgs staged = args;
    std::vector<const std::byte*> wires;
    const Contributions part{args.wire_contributions, args.form.world};
    for (const std::byte* wire : args.wires) {
      wires.push_back(area.put(wire, codec().wire_bytes(args.count, part)));
    }
    staged.wires = wires;
    put_values(area, staged);
    RINGPRESS_RETURN_IF_ERROR(area.send());
    RINGPRESS_RETURN_IF_ERROR(codec_->decode_add_encode(stream, staged, staged_scratch));
    return area.fetch();
  }

 private:
  template <typename Args>
  void put_values(StagingArea& area, Args& args) const {
    const std::size_t bytes = args.count * dtype_size(codec().dtype());
    args.values = area.put(args.values, bytes);
    args.decoded = area.put(args.decoded, bytes);
    args.residual = reinterpret_cast<float*>(area.put(args.residual, args.count * sizeof(float)));
    args.wire = area.put(args.wire, codec().wire_bytes(args.count, args.form));
    put_shared(area, args);
  }

  /// What is equal on all ranks.
  template <typename Args>
  void put_shared(StagingArea& area, Args& args) const {
    args.scales = reinterpret_cast<const std::uint8_t*>(area.put(args.scales, args.count));
    const Agreement* const agreement = codec().agreement();
    if (agreement == nullptr) return;
    args.agreed.tensor = area.put(args.agreed.tensor, agreement->tensor_bytes());
    args.agreed.chunk = area.put(args.agreed.chunk, agreement->chunk_bytes(args.count));
  }

  Device& device_;
  std::unique_ptr<DeviceCodec> codec_;
  std::byte* const memory_;
  const std::size_t bytes_;
  StagedAgreement agreement_;
};

}  // namespace ringpress::compress_kernels::testing

#endif  // TESTS_COMPRESS_KERNELS_STAGED_CODEC_H_
