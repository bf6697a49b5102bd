// Checks of the arguments of the API. Each error names the argument.
#ifndef NCCL_PLUGIN_HOST_ARGUMENTS_H_
#define NCCL_PLUGIN_HOST_ARGUMENTS_H_

#include <cstddef>
#include <cstring>

#include "ringpress/internal/communicator.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"
#include "ringpress/nccl.h"

namespace ringpress::nccl_plugin::host {

/// The value of an enumeration that C code filled, which may be none of the enumerators: reading
/// such a one as the enumeration is undefined.
template <typename Enum>
int enum_value(const Enum& value) {
  static_assert(sizeof(Enum) == sizeof(int));
  int number = 0;
  std::memcpy(&number, &value, sizeof number);
  return number;
}

Status check_pointer(const void* pointer, const char* name);
/// 0 <= value < size.
Status check_rank(int value, int size, const char* name);
Result<DType> to_dtype(int value);
/// The bytes of `blocks` runs of `count` elements must be addressable.
Status check_bytes(std::size_t count, DType dtype, int blocks);
/// What `op` means on `comm`, now.
Result<Reduction> to_reduction(ncclComm& comm, int op, DType dtype);

}  // namespace ringpress::nccl_plugin::host

#endif  // NCCL_PLUGIN_HOST_ARGUMENTS_H_
