// Models on a device: what gossip does with them is done in the caller's stream.
#ifndef NCCL_PLUGIN_GOSSIP_STREAM_MODELS_H_
#define NCCL_PLUGIN_GOSSIP_STREAM_MODELS_H_

#include <memory>

#include "nccl_plugin/gossip/models.h"
#include "ringpress/internal/device.h"

namespace ringpress::nccl_plugin::gossip {

/// A codec of differences, in a stream; and the same on the host, whose traits and sizes it has.
class StreamCodec {
 public:
  /// `scratch`: where its memory comes from.
  Status prepare(const GossipOptions& options, Device& device, Models& scratch);

  const Codec& on_host() const { return *on_host_; }
  /// Not of one that leaves differences as they are: models are sent then.
  Result<std::uint64_t> encode(Stream stream, const EncodeArgs& args);
  Status decode(Stream stream, const DecodeArgs& args);

 private:
  std::unique_ptr<Codec> on_host_;
  std::unique_ptr<DeviceCodec> on_device_;
  std::shared_ptr<std::byte> scratch_;  // Null: it needs none.
};

class StreamModels final : public Models {
 public:
  explicit StreamModels(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  Status prepare(const GossipOptions& options) override;
  const Codec& codec() const override { return codec_.on_host(); }
  /// A launch and an exchange cost more here than bytes do.
  std::size_t chunk_elements() const override { return 4 << 20; }

  /// kInvalidUsage: the stream is being captured, and whether to exchange is decided here.
  void use(Stream stream) override { stream_ = stream; }
  Status check_model(const void* model) override;
  Result<std::shared_ptr<std::byte>> allocate(std::size_t bytes) override;
  Status copy(void* to, const void* from, std::size_t bytes) override;
  Status read(void* to, const void* from, std::size_t bytes) override;

  Result<compress_kernels::Change> measure_change(const ModelSpan& model,
                                                  const void* reference) override;
  Status average(const ModelSpan& model, const void* theirs) override;
  Status take_difference(const ModelSpan& model, const float* base, float* difference) override;
  Status add_half_difference(const ModelSpan& model, const float* own,
                             const float* theirs) override;
  Status widen(const ModelSpan& model, double* wide) override;
  Status take_mean(const double* sums, double divisor, const ModelSpan& model) override;
  Result<bool> has_lost() override;

  Result<std::uint64_t> encode(const EncodeArgs& args) override {
    return codec_.encode(stream_, args);
  }
  Status decode(const DecodeArgs& args) override { return codec_.decode(stream_, args); }

 private:
  Result<std::size_t> find_non_finite(const ModelSpan& model);

  const std::shared_ptr<Device> device_;
  Stream stream_ = nullptr;
  StreamCodec codec_;
  std::unique_ptr<DeviceModels> kernels_;
  std::shared_ptr<std::byte> parts_;  // kChangeParts of a ChangePart.
  std::shared_ptr<std::byte> parts_on_host_;
  std::shared_ptr<std::byte> lost_;  // A word.
};

}  // namespace ringpress::nccl_plugin::gossip

#endif  // NCCL_PLUGIN_GOSSIP_STREAM_MODELS_H_
