// Where the sums of gradients that are put off lie (lazy_calls.h), and the arithmetic there.
#ifndef NCCL_PLUGIN_SESSION_LAZY_LAZY_MEMORY_H_
#define NCCL_PLUGIN_SESSION_LAZY_LAZY_MEMORY_H_

#include <cstddef>
#include <memory>

#include "nccl_plugin/session/calls/error_feedback.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin {

/// l2 norms; infinity where something is not finite.
struct Lengths {
  double values = 0;
  double total = 0;  // Of the values and a sum of former ones.
};
Lengths lengths_of(const LengthPart& squares);

/// What allocate() gives is a sum: one float for each element of a call. One thread at a time. An
/// error ends the communicator.
class LazyMemory : public ResidualMemory {
 public:
  /// `sum`: null without one; then the total is 0.
  virtual Result<Lengths> measure(const GradientSpan& gradient, const float* sum) = 0;
  /// sum += values.
  virtual Status add(const GradientSpan& gradient, float* sum) = 0;
  /// to = sum + values, rounded once to the gradient's type. `to` may be the values.
  virtual Status write_total(const GradientSpan& gradient, const float* sum, void* to) = 0;
  /// sum = 0.
  virtual Status clear(float* sum, std::size_t count) = 0;
};

struct FreeSum {
  LazyMemory* memory = nullptr;
  void operator()(float* sum) const { memory->free(sum); }
};
/// What allocate() has given.
using LazySum = std::unique_ptr<float[], FreeSum>;

/// That of the process, whose gradients have any alignment. Lives for ever.
LazyMemory& host_lazy_memory();

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_LAZY_LAZY_MEMORY_H_
