#include "compress_kernels/qsgd/qsgd_codec.h"

#include <utility>

#include "compress_kernels/isa.h"
#include "compress_kernels/qsgd/merge.h"
#include "compress_kernels/qsgd/tile_kernels.h"
#include "compress_kernels/qsgd/transcoder.h"

namespace ringpress::compress_kernels::qsgd {
namespace {

constexpr std::size_t kTensorBytes = 4;

/// What is agreed on, as qsgd.h says.
class QsgdAgreement final : public Agreement {
 public:
  explicit QsgdAgreement(const Transcoder& transcoder) : transcoder_(transcoder) {}

  std::size_t tensor_bytes() const override { return has_global_norm() ? kTensorBytes : 0; }
  void summarise_tensor(const SummariseArgs& args) const override {
    const std::uint32_t norm = norm_of_magnitude(transcoder_.measure_tensor(args));
    core::store_element(args.summary, 0, norm);
  }
  void merge_tensor(const std::byte* from, std::byte* into) const override {
    merge_norms(from, kTensorBytes, into);
  }

  int rounds() const override { return (has_global_norm() ? 0 : 1) + (has_levels() ? 1 : 0); }
  std::size_t round_bytes(int round, std::size_t count) const override {
    return is_norms(round) ? norm_bytes(transcoder_.parameters, count)
                           : level_bytes(transcoder_.parameters, count);
  }
  void summarise(int round, const SummariseArgs& args) const override {
    if (is_norms(round)) {
      transcoder_.measure_blocks(args);
    } else {
      transcoder_.choose_levels(args);
    }
  }
  void merge(int round, std::size_t count, const std::byte* from, std::byte* into) const override {
    const std::size_t bytes = round_bytes(round, count);
    if (is_norms(round)) {
      merge_norms(from, bytes, into);
    } else {
      merge_levels(from, bytes, level_bits(transcoder_.parameters), into);
    }
  }

 private:
  bool has_global_norm() const { return transcoder_.parameters.has_global_norm; }
  bool has_levels() const { return transcoder_.parameters.grids > 1; }
  bool is_norms(int round) const {
    return summary_of_round(transcoder_.parameters, round) == Summary::kBlockNorms;
  }

  const Transcoder& transcoder_;
};

class QsgdCodec final : public IdentifiedCodec {
 public:
  QsgdCodec(CodecIdentity identity, const Transcoder& transcoder)
      : IdentifiedCodec(std::move(identity)), transcoder_(transcoder), agreement_(transcoder_) {}

  std::size_t wire_bytes(std::size_t count, Contributions form) const override {
    return encoded_bytes(transcoder_.parameters, count, form);
  }
  const Agreement* agreement() const override { return &agreement_; }

  std::size_t encode(const EncodeArgs& args) const override {
    transcoder_.encode(args);
    return wire_bytes(args.count, args.form);
  }
  void decode(const DecodeArgs& args) const override { transcoder_.decode(args); }
  void decode_add(const DecodeAddArgs& args) const override { transcoder_.decode_add(args); }
  std::size_t decode_add_encode(const DecodeAddEncodeArgs& args) const override {
    transcoder_.decode_add_encode(args);
    return args.wire == nullptr ? 0 : wire_bytes(args.count, args.form);
  }

 private:
  Transcoder transcoder_;
  QsgdAgreement agreement_;
};

}  // namespace

std::unique_ptr<Codec> make_qsgd_codec(CodecIdentity identity, const Parameters& parameters) {
  const Transcoder transcoder{parameters, &selected_kernels(reference_kernels(), simd_kernels)};
  identity.traits.summable = true;
  identity.traits.deterministic = !parameters.is_stochastic;
  return std::make_unique<QsgdCodec>(std::move(identity), transcoder);
}

}  // namespace ringpress::compress_kernels::qsgd
