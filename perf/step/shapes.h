// Programs of several shapes that train: what a step is made of, and who waits for whom.
#ifndef PERF_STEP_SHAPES_H_
#define PERF_STEP_SHAPES_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "perf/all_reduce/device_memory.h"
#include "ringpress/nccl.h"

namespace ringpress::perf {

enum class Shape {
  kWaits,             // One thread: the compute of a gradient, then its call, and so on.
  kEnd,               // One thread: all of the compute, then one call after the other.
  kGroup,             // One thread: all of the compute, then all calls in one group.
  kThread,            // One thread computes, another one makes the calls.
  kNonblocking,       // The next gradient is computed while a nonblocking call is under way.
  kNonblockingWaits,  // A nonblocking call is waited for before anything else is done.
};

enum class Compute {
  kSleeps,  // As a thread that waits for a device does.
  kBurns,   // On a core.
};

/// Throws terminal::Error if there is none of that name.
Shape shape_of(const std::string& name);
Compute compute_of(const std::string& name);
/// Those that the options of a program name.
std::vector<std::string> shape_names();
std::vector<std::string> compute_names();

/// What a step is made of.
struct ProgramParts {
  Shape shape = Shape::kWaits;
  Compute compute = Compute::kSleeps;
  double forward_seconds = 0;
  double backward_seconds = 0;  // Of each tensor.
  std::vector<std::size_t> tensor_bytes;
};

/// A program on one communicator.
class Program {
 public:
  /// `parts` outlives this. `comm` is nonblocking if is_nonblocking(shape).
  Program(const ProgramParts& parts, ncclComm_t comm);

  static bool is_nonblocking(Shape shape);

  /// One step: seconds from its begin to the end of its last call.
  double run();

 private:
  void compute(double seconds) const;
  void reduce(std::size_t tensor);
  void reduce_when_computed();
  void reduce_all();
  void reduce_aside();
  void reduce_without_blocking();
  void await() const;

  const ProgramParts& parts_;
  ncclComm_t comm_;
  DeviceStream stream_;
  std::vector<DeviceBuffer> tensors_;
};

}  // namespace ringpress::perf

#endif  // PERF_STEP_SHAPES_H_
