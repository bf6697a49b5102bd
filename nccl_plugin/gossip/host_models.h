// Models in host memory.
#ifndef NCCL_PLUGIN_GOSSIP_HOST_MODELS_H_
#define NCCL_PLUGIN_GOSSIP_HOST_MODELS_H_

#include <memory>

#include "nccl_plugin/gossip/models.h"

namespace ringpress::nccl_plugin::gossip {

class HostModels final : public Models {
 public:
  Status prepare(const GossipOptions& options) override;
  const Codec& codec() const override { return *codec_; }
  std::size_t chunk_elements() const override { return 256 * 1024; }

  void use(Stream) override {}
  Status check_model(const void*) override { return Status::ok(); }
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

  Result<std::uint64_t> encode(const EncodeArgs& args) override;
  Status decode(const DecodeArgs& args) override;

 private:
  std::unique_ptr<Codec> codec_;
  bool has_lost_ = false;
};

}  // namespace ringpress::nccl_plugin::gossip

#endif  // NCCL_PLUGIN_GOSSIP_HOST_MODELS_H_
