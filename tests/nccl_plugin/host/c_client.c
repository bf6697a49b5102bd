/* A client in plain C: the header must compile, the library must link and answer. With an argument,
 * the library of that name is loaded and must answer, too. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "ringpress/nccl.h"
#include "ringpress/ringpress.h"

#define CHECK(condition)                                                                        \
  if (!(condition)) {                                                                           \
    fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, ncclGetLastError(NULL)); \
    return 1;                                                                                   \
  }

static int reduce_alone(void) {
  ncclUniqueId id;
  ncclComm_t comm = NCCL_COMM_NULL;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  double values[3] = {1, 2, 3};
  double sums[3] = {0, 0, 0};
  ringpressCall_t call = {sizeof(ringpressCall_t), 60, ncclFloat, NULL};
  ringpressLayer_t layers[2] = {{10, 50, 5, 10, 0}, {0, 10, 0, 0, RINGPRESS_LAYER_EXACT}};
  CHECK(ncclGetUniqueId(&id) == ncclSuccess);
  CHECK(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclSuccess);
  CHECK(pncclAllReduce(values, sums, 3, ncclDouble, ncclSum, comm, NULL) == ncclSuccess);
  CHECK(memcmp(values, sums, sizeof sums) == 0);
  CHECK(ringpressSetLayers(comm, &call, layers, 2) == ncclSuccess);
  CHECK(ringpressSetLayers(comm, &call, layers, 0) == ncclSuccess);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
  return 0;
}

static int load(const char* name) {
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  int version = 0;
  ncclResult_t (*get_version)(int*);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  *(void**)(&get_version) = dlsym(library, "ncclGetVersion");
  CHECK(get_version != NULL);
  CHECK(get_version(&version) == ncclSuccess);
  CHECK(version == NCCL_VERSION_CODE);
  CHECK(dlsym(library, "ringpressVersion") != NULL);
  return 0;
}

int main(int argc, char** argv) {
  CHECK(strlen(ringpressVersion()) > 0);
  CHECK(reduce_alone() == 0);
  return argc > 1 ? load(argv[1]) : 0;
}
