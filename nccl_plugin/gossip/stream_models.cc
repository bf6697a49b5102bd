#include "nccl_plugin/gossip/stream_models.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ringpress::nccl_plugin::gossip {
namespace {

constexpr std::size_t kPartsBytes = kChangeParts * sizeof(ChangePart);
constexpr std::uint32_t kMark = 1;

}  // namespace

Status StreamCodec::prepare(const GossipOptions& options, Device& device, Models& scratch) {
  const std::string specification = compress_kernels::stream_specification(options.codec);
  RINGPRESS_ASSIGN_OR_RETURN(
      on_host_, compress_kernels::make_codec(specification, DType::kFloat32, ReduceOp::kSum));
  if (on_host_->traits().identity) return Status::ok();
  RINGPRESS_ASSIGN_OR_RETURN(on_device_,
                             device.make_codec(specification, DType::kFloat32, ReduceOp::kSum));
  const std::size_t chunk = std::min(options.count, scratch.chunk_elements());
  const std::size_t bytes = on_device_->scratch_bytes(1, chunk);
  if (bytes == 0) return Status::ok();
  RINGPRESS_ASSIGN_OR_RETURN(scratch_, scratch.allocate(bytes));
  return Status::ok();
}

Result<std::uint64_t> StreamCodec::encode(Stream stream, const EncodeArgs& args) {
  RINGPRESS_RETURN_IF_ERROR(on_device_->encode(stream, {&args, 1}, scratch_.get()));
  return std::uint64_t{on_host_->wire_bytes(args.count)};
}

Status StreamCodec::decode(Stream stream, const DecodeArgs& args) {
  return on_device_->decode(stream, {&args, 1}, scratch_.get());
}

Status StreamModels::prepare(const GossipOptions& options) {
  RINGPRESS_ASSIGN_OR_RETURN(kernels_, device_->make_models());
  RINGPRESS_RETURN_IF_ERROR(codec_.prepare(options, *device_, *this));
  RINGPRESS_ASSIGN_OR_RETURN(parts_, allocate(kPartsBytes));
  RINGPRESS_ASSIGN_OR_RETURN(lost_, allocate(sizeof(std::uint32_t)));
  RINGPRESS_ASSIGN_OR_RETURN(void* const on_host, device_->allocate_host(kPartsBytes));
  parts_on_host_ = {static_cast<std::byte*>(on_host),
                    [device = device_](std::byte* memory) { device->free_host(memory); }};
  return Status::ok();
}

/// Else a kernel would end all of the process's work on the device.
Status StreamModels::check_model(const void* model) {
  return device_->check_reachable(model);
}

Result<std::shared_ptr<std::byte>> StreamModels::allocate(std::size_t bytes) {
  RINGPRESS_ASSIGN_OR_RETURN(void* const memory, device_->allocate(bytes));
  std::shared_ptr<std::byte> made(static_cast<std::byte*>(memory),
                                  [device = device_](std::byte* old) { device->free(old); });
  RINGPRESS_RETURN_IF_ERROR(device_->zero(stream_, memory, bytes));
  return made;
}

Status StreamModels::copy(void* to, const void* from, std::size_t bytes) {
  return device_->copy(stream_, to, from, bytes);
}

Status StreamModels::read(void* to, const void* from, std::size_t bytes) {
  RINGPRESS_RETURN_IF_ERROR(device_->copy(stream_, to, from, bytes));
  return device_->synchronize(stream_);
}

Result<compress_kernels::Change> StreamModels::measure_change(const ModelSpan& model,
                                                              const void* reference) {
  auto* const parts = reinterpret_cast<ChangePart*>(parts_.get());
  RINGPRESS_RETURN_IF_ERROR(kernels_->measure_change(stream_, model, reference, parts));
  RINGPRESS_RETURN_IF_ERROR(read(parts_on_host_.get(), parts, kPartsBytes));
  compress_kernels::Change change;
  for (const ChangePart& part :
       std::span(reinterpret_cast<const ChangePart*>(parts_on_host_.get()), kChangeParts)) {
    change.difference_squares += part.difference_squares;
    change.reference_squares += part.reference_squares;
  }
  change.first_non_finite = model.count;
  if (std::isfinite(change.difference_squares)) return change;
  RINGPRESS_ASSIGN_OR_RETURN(change.first_non_finite, find_non_finite(model));
  return change;
}

/// On the host: it is rare.
Result<std::size_t> StreamModels::find_non_finite(const ModelSpan& model) {
  constexpr std::size_t kElements = 1 << 20;
  const std::size_t size = dtype_size(model.dtype);
  std::vector<float> chunk(std::min(model.count, kElements));  // As aligned as any type.
  for (std::size_t first = 0; first < model.count; first += kElements) {
    const std::size_t count = std::min(kElements, model.count - first);
    const auto* const from = static_cast<const std::byte*>(model.values) + first * size;
    RINGPRESS_RETURN_IF_ERROR(read(chunk.data(), from, count * size));
    const std::size_t bad =
        compress_kernels::measure_change(chunk.data(), chunk.data(), count, model.dtype)
            .first_non_finite;
    if (bad < count) return first + bad;
  }
  return model.count;
}

Status StreamModels::average(const ModelSpan& model, const void* theirs) {
  return kernels_->average(stream_, model, theirs);
}

Status StreamModels::take_difference(const ModelSpan& model, const float* base, float* difference) {
  return kernels_->take_difference(stream_, model, base, difference);
}

Status StreamModels::add_half_difference(const ModelSpan& model, const float* own,
                                         const float* theirs) {
  auto* const word = reinterpret_cast<std::uint32_t*>(lost_.get());
  return kernels_->add_half_difference(stream_, model, own, theirs, {word, kMark});
}

Status StreamModels::widen(const ModelSpan& model, double* wide) {
  return kernels_->widen(stream_, model, wide);
}

Status StreamModels::take_mean(const double* sums, double divisor, const ModelSpan& model) {
  return kernels_->take_mean(stream_, sums, divisor, model);
}

Result<bool> StreamModels::has_lost() {
  std::uint32_t word = 0;
  RINGPRESS_RETURN_IF_ERROR(read(&word, lost_.get(), sizeof word));
  if (word != 0) RINGPRESS_RETURN_IF_ERROR(device_->zero(stream_, lost_.get(), sizeof word));
  return word != 0;
}

}  // namespace ringpress::nccl_plugin::gossip
