// A device's codec around another of its codecs, whose values have coordinate scales. What is said
// in scaled_codec.h of units holds here too, but a form is whole.
//
// Scratch memory: that of the inner codec; values of all shards in scaled units, which then are
// what they are decoded to; their residuals.
#include <algorithm>
#include <utility>
#include <vector>

#include "compress_kernels/factory.h"

namespace ringpress::compress_kernels {
namespace {

// A shard begins where vectors may: at whole tiles of floats.
constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

class ScaledDeviceCodec final : public DeviceCodec {
 public:
  /// `inner`: of float32, without an agreement or a projection.
  ScaledDeviceCodec(std::unique_ptr<Codec> plain, std::unique_ptr<DeviceCodec> inner,
                    std::unique_ptr<DeviceScales> scales)
      : plain_(std::move(plain)), inner_(std::move(inner)), scales_(std::move(scales)) {}

  const Codec& codec() const override { return *plain_; }
  Status supports(Contributions form, std::size_t wires) const override {
    return inner_->supports(form, wires);
  }
  std::size_t scratch_bytes(std::size_t shards, std::size_t count) const override {
    const std::size_t floats = shards * whole_tiles(count);
    return aligned(inner_->scratch_bytes(shards, count)) + 2 * floats * sizeof(float);
  }

  Status encode(Stream stream, std::span<const EncodeArgs> shards, std::byte* scratch) override {
    begin(shards, scratch);
    std::vector<EncodeArgs>& inner = arguments_.encodes;
    inner.assign(shards.begin(), shards.end());
    for (std::size_t i = 0; i < shards.size(); ++i) take(shards[i], i, &inner[i]);
    RINGPRESS_RETURN_IF_ERROR(scales_->divide(stream, plain_->dtype(), arguments_.divided));
    RINGPRESS_RETURN_IF_ERROR(inner_->encode(stream, inner, scratch));
    return give_back(stream);
  }

  Status decode_add_encode(Stream stream, const DecodeAddEncodeArgs& args,
                           std::byte* scratch) override {
    begin(std::span(&args, 1), scratch);
    DecodeAddEncodeArgs inner = args;
    take(args, 0, &inner);
    RINGPRESS_RETURN_IF_ERROR(scales_->divide(stream, plain_->dtype(), arguments_.divided));
    RINGPRESS_RETURN_IF_ERROR(inner_->decode_add_encode(stream, inner, scratch));
    return give_back(stream);
  }

  Status decode(Stream stream, std::span<const DecodeArgs> shards, std::byte* scratch) override {
    begin(shards, scratch);
    std::vector<DecodeArgs>& inner = arguments_.decodes;
    inner.assign(shards.begin(), shards.end());
    for (std::size_t i = 0; i < shards.size(); ++i) {
      inner[i].values = values_of(i);
      inner[i].scales = nullptr;
      MultipliedPart part;
      part.scaled = values_of(i);
      part.codes = shards[i].scales;
      part.count = shards[i].count;
      part.values = shards[i].values;
      arguments_.multiplied.push_back(part);
    }
    RINGPRESS_RETURN_IF_ERROR(inner_->decode(stream, inner, scratch));
    return give_back(stream);
  }

 private:
  float* values_of(std::size_t shard) const { return arguments_.values + shard * stride_; }
  float* residual_of(std::size_t shard) const { return arguments_.residuals + shard * stride_; }

  template <typename Args>
  void begin(std::span<const Args> shards, std::byte* scratch) {
    std::size_t most = 0;
    for (const Args& args : shards) most = std::max(most, args.count);
    stride_ = whole_tiles(most);
    const std::size_t own = aligned(inner_->scratch_bytes(shards.size(), most));
    arguments_.values = reinterpret_cast<float*>(scratch + own);
    arguments_.residuals = arguments_.values + shards.size() * stride_;
    arguments_.divided.clear();
    arguments_.multiplied.clear();
  }

  /// A shard's own values and residual go through scratch memory on both ways.
  template <typename Args>
  void take(const Args& args, std::size_t shard, Args* inner) {
    const bool has_residual = args.residual != nullptr;
    DividedPart in;
    in.values = args.values;
    in.residual = args.residual;
    in.codes = args.scales;
    in.count = args.count;
    in.scaled = values_of(shard);
    in.scaled_residual = residual_of(shard);
    arguments_.divided.push_back(in);
    inner->values = values_of(shard);
    inner->residual = has_residual ? residual_of(shard) : nullptr;
    inner->decoded = args.decoded == nullptr ? nullptr : values_of(shard);
    inner->scales = nullptr;
    if (!has_residual && args.decoded == nullptr) return;
    MultipliedPart out;
    out.scaled = values_of(shard);
    out.scaled_residual = residual_of(shard);
    out.codes = args.scales;
    out.count = args.count;
    out.values = args.decoded;
    out.residual = args.residual;
    arguments_.multiplied.push_back(out);
  }

  Status give_back(Stream stream) {
    if (arguments_.multiplied.empty()) return Status::ok();
    return scales_->multiply(stream, plain_->dtype(), arguments_.multiplied);
  }

  const std::unique_ptr<Codec> plain_;
  const std::unique_ptr<DeviceCodec> inner_;
  const std::unique_ptr<DeviceScales> scales_;
  std::size_t stride_ = 0;  // Floats of a shard in scratch memory.
  struct {                  // Of one operation at a time.
    float* values = nullptr;
    float* residuals = nullptr;
    std::vector<EncodeArgs> encodes;
    std::vector<DecodeArgs> decodes;
    std::vector<DividedPart> divided;
    std::vector<MultipliedPart> multiplied;
  } arguments_;
};

}  // namespace

Result<std::unique_ptr<DeviceCodec>> make_scaled_device_codec(Device& device,
                                                              const std::string& specification,
                                                              DType dtype, ReduceOp op) {
  RINGPRESS_RETURN_IF_ERROR(make_scaled_codec(specification, dtype, op).status());
  RINGPRESS_ASSIGN_OR_RETURN(std::unique_ptr<Codec> plain, make_codec(specification, dtype, op));
  RINGPRESS_ASSIGN_OR_RETURN(std::unique_ptr<DeviceCodec> inner,
                             device.make_codec(specification, DType::kFloat32, op));
  RINGPRESS_ASSIGN_OR_RETURN(std::unique_ptr<DeviceScales> scales, device.make_scales());
  return std::unique_ptr<DeviceCodec>(
      std::make_unique<ScaledDeviceCodec>(std::move(plain), std::move(inner), std::move(scales)));
}

}  // namespace ringpress::compress_kernels
