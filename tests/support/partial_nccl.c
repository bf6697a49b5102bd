/* An NCCL that lacks nearly everything. */
#include "ringpress/nccl.h"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}

EXPORTED const char* ncclGetLastError(ncclComm_t comm) {
  (void)comm;
  return "";
}
