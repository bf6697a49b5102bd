// The operators that ncclRedOpCreatePreMulSum() makes for one communicator.
#ifndef NCCL_PLUGIN_HOST_OPERATORS_H_
#define NCCL_PLUGIN_HOST_OPERATORS_H_

#include <mutex>
#include <unordered_map>

#include "ringpress/internal/communicator.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin::host {

/// Reads one element as a double. kUnsupported: an integer that a double cannot hold.
Result<double> read_scalar(const void* scalar, DType dtype);

/// Thread-safe.
class UserOperators {
 public:
  /// An operator whose scale is fixed. Returns its ncclRedOp_t value, which no other communicator
  /// of this process has.
  int add(double scale, DType dtype);
  /// An operator whose scale is read from `scalar` by each call that uses it.
  int add_deferred(const void* scalar, DType dtype);
  /// kInvalidArgument if `op` is not one of these.
  Status remove(int op);
  /// What `op` means now, for a call on elements of type `dtype`.
  Result<Reduction> resolve(int op, DType dtype) const;

 private:
  struct Operator {
    DType dtype = DType::kFloat32;
    double scale = 1;
    const void* scalar = nullptr;  // Null when `scale` is fixed.
  };
  int insert(const Operator& user_operator);

  mutable std::mutex mutex_;
  std::unordered_map<int, Operator> operators_;
};

}  // namespace ringpress::nccl_plugin::host

#endif  // NCCL_PLUGIN_HOST_OPERATORS_H_
