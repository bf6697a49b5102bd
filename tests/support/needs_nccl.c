/* A library that was linked with NCCL, as a framework's are, and that knows where it lies. */
#include "ringpress/nccl.h"

__attribute__((visibility("default"))) ncclResult_t needs_nccl(int* version) {
  return ncclGetVersion(version);
}
