// The Codec of topk: see topk.h for what it does.
#ifndef COMPRESS_KERNELS_TOPK_TOPK_CODEC_H_
#define COMPRESS_KERNELS_TOPK_TOPK_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "compress_kernels/core/encode_output.h"
#include "compress_kernels/kernel_codec.h"
#include "compress_kernels/topk/kernels.h"
#include "compress_kernels/topk/topk.h"
#include "ringpress/internal/codec.h"

namespace ringpress::compress_kernels::topk {

struct Workspace;

class TopkCodec final : public IdentifiedCodec, private Agreement {
 public:
  TopkCodec(CodecIdentity identity, const TopkParameters& parameters, const Kernels& kernels)
      : IdentifiedCodec(std::move(identity)), parameters_(parameters), kernels_(kernels) {}

  std::size_t wire_bytes(std::size_t count, Contributions) const override {
    return largest_bytes(parameters_.value_bits, count);
  }
  const Agreement* agreement() const override { return this; }

  std::size_t encode(const EncodeArgs& args) const override;
  void decode(const DecodeArgs& args) const override;
  void decode_add(const DecodeAddArgs& args) const override;
  std::size_t decode_add_encode(const DecodeAddEncodeArgs& args) const override;

  std::size_t tensor_bytes() const override { return sizeof(std::uint64_t); }
  bool tensor_is_shared() const override { return false; }
  void summarise_tensor(const SummariseArgs& args) const override;

 private:
  Source source_of(const void* values, std::size_t count, const float* residual,
                   std::uint64_t first_element) const;
  std::uint64_t threshold_of(const Source& source, const Agreed& agreed) const;
  std::size_t encode_source(const Source& source, std::uint64_t threshold,
                            const core::EncodeOutput& output) const;
  std::size_t sum_sent(const DecodeAddEncodeArgs& args) const;
  std::size_t sum_all(const DecodeAddEncodeArgs& args) const;
  std::size_t finish_sums(const DecodeAddEncodeArgs& args, const Part& part, std::byte* wire,
                          Workspace& work) const;

  const TopkParameters parameters_;
  const Kernels& kernels_;
};

}  // namespace ringpress::compress_kernels::topk

#endif  // COMPRESS_KERNELS_TOPK_TOPK_CODEC_H_
