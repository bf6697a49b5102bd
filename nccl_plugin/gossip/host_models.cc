#include "nccl_plugin/gossip/host_models.h"

#include <cstring>
#include <utility>

namespace ringpress::nccl_plugin::gossip {

Status HostModels::prepare(const GossipOptions& options) {
  RINGPRESS_ASSIGN_OR_RETURN(
      codec_, compress_kernels::make_codec(options.codec, DType::kFloat32, ReduceOp::kSum));
  return Status::ok();
}

Result<std::shared_ptr<std::byte>> HostModels::allocate(std::size_t bytes) {
  return std::shared_ptr<std::byte>(new std::byte[bytes](), std::default_delete<std::byte[]>());
}

Status HostModels::copy(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
  return Status::ok();
}

Status HostModels::read(void* to, const void* from, std::size_t bytes) {
  return copy(to, from, bytes);
}

Result<compress_kernels::Change> HostModels::measure_change(const ModelSpan& model,
                                                            const void* reference) {
  return compress_kernels::measure_change(model.values, reference, model.count, model.dtype);
}

Status HostModels::average(const ModelSpan& model, const void* theirs) {
  compress_kernels::average_models(model.values, theirs, model.count, model.dtype);
  return Status::ok();
}

Status HostModels::take_difference(const ModelSpan& model, const float* base, float* difference) {
  compress_kernels::take_difference(model.values, base, model.count, model.dtype, difference);
  return Status::ok();
}

Status HostModels::add_half_difference(const ModelSpan& model, const float* own,
                                       const float* theirs) {
  has_lost_ |=
      !compress_kernels::add_half_difference(model.values, own, theirs, model.count, model.dtype);
  return Status::ok();
}

Status HostModels::widen(const ModelSpan& model, double* wide) {
  compress_kernels::widen_values(model.values, model.count, model.dtype, wide);
  return Status::ok();
}

Status HostModels::take_mean(const double* sums, double divisor, const ModelSpan& model) {
  compress_kernels::take_mean(sums, divisor, model.count, model.dtype, model.values);
  return Status::ok();
}

Result<bool> HostModels::has_lost() {
  return std::exchange(has_lost_, false);
}

Result<std::uint64_t> HostModels::encode(const EncodeArgs& args) {
  return std::uint64_t{codec_->encode(args)};
}

Status HostModels::decode(const DecodeArgs& args) {
  codec_->decode(args);
  return Status::ok();
}

}  // namespace ringpress::nccl_plugin::gossip
