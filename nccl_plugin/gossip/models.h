// Where models lie, and what gossip does with them there.
#ifndef NCCL_PLUGIN_GOSSIP_MODELS_H_
#define NCCL_PLUGIN_GOSSIP_MODELS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "compress_kernels/factory.h"
#include "nccl_plugin/gossip/options.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::gossip {

/// Of one gossip. One thread at a time. What is asked for is done in this order, and all of it
/// before peers send or after they have received what it is about; `read` and `measure_change` wait
/// for it.
class Models {
 public:
  virtual ~Models() = default;

  /// Before all else, once: what the options' codec needs. kUnsupported: it cannot be used here.
  virtual Status prepare(const GossipOptions& options) = 0;
  /// Of differences in float32.
  virtual const Codec& codec() const = 0;
  /// Elements that are best exchanged at a time.
  virtual std::size_t chunk_elements() const = 0;

  /// The stream of what comes next; host memory has none.
  virtual void use(Stream stream) = 0;
  /// kInvalidArgument: no memory that models can lie in here.
  virtual Status check_model(const void* model) = 0;
  /// Zeros, beside the models.
  virtual Result<std::shared_ptr<std::byte>> allocate(std::size_t bytes) = 0;
  virtual Status copy(void* to, const void* from, std::size_t bytes) = 0;
  /// To host memory.
  virtual Status read(void* to, const void* from, std::size_t bytes) = 0;

  virtual Result<compress_kernels::Change> measure_change(const ModelSpan& model,
                                                          const void* reference) = 0;
  virtual Status average(const ModelSpan& model, const void* theirs) = 0;
  virtual Status take_difference(const ModelSpan& model, const float* base, float* difference) = 0;
  virtual Status add_half_difference(const ModelSpan& model, const float* own,
                                     const float* theirs) = 0;
  virtual Status widen(const ModelSpan& model, double* wide) = 0;
  virtual Status take_mean(const double* sums, double divisor, const ModelSpan& model) = 0;
  /// Whether any add_half_difference() since the last question has left values as they were.
  virtual Result<bool> has_lost() = 0;

  /// The bytes of the wire.
  virtual Result<std::uint64_t> encode(const EncodeArgs& args) = 0;
  virtual Status decode(const DecodeArgs& args) = 0;
};

}  // namespace ringpress::nccl_plugin::gossip

#endif  // NCCL_PLUGIN_GOSSIP_MODELS_H_
