/* An NCCL program on GPU memory that knows nothing of ringpress: several ranks, each a process of
 * one host by name, share one GPU. Each result is a line, "rank LABEL hash error": the hash of all
 * bytes, and the root of the squared error over that of the exact sum.
 *
 * usage: stream_client RANKS group|lazy|steps|streams|graph... */
#include <cuda.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ringpress/nccl.h"

enum { kCount = 300000, kTensors = 3, kReplays = 4 };

#define CHECK(call, good)                                               \
  do {                                                                  \
    const int result_ = (int)(call);                                    \
    if (result_ != (int)(good)) {                                       \
      fprintf(stderr, "rank %d: %s: error %d\n", rank, #call, result_); \
      _exit(4);                                                         \
    }                                                                   \
  } while (0)
#define NCCL(call) CHECK(call, ncclSuccess)
#define CUDA(call) CHECK(call, CUDA_SUCCESS)

static int rank, ranks;
static CUdeviceptr tensors[kTensors];
static CUstream streams[2];
static float host[kCount];

static float value_of(int of_rank, size_t index, unsigned salt) {
  uint32_t x = (uint32_t)index * 2654435761u ^ (uint32_t)(of_rank * 977 + (int)salt) * 40503u;
  x ^= x >> 15;
  x *= 2246822519u;
  x ^= x >> 13;
  return (float)((double)x / 4294967296.0 * 2 - 1);
}

static float* values_at(int tensor) {
  return (float*)(size_t)tensors[tensor];
}

static void fill(int tensor, unsigned salt) {
  for (size_t i = 0; i < kCount; ++i) host[i] = value_of(rank, i, salt);
  CUDA(cuMemcpyHtoD(tensors[tensor], host, sizeof host));
}

static void print(const char* label, uint64_t hash, double error) {
  char line[160];
  const int length = snprintf(line, sizeof line, "%d %s %016llx %.4g\n", rank, label,
                              (unsigned long long)hash, error);
  if (write(STDOUT_FILENO, line, (size_t)length) != length) _exit(5);
}

/* Compares what `host` holds with so many times the sum of what all ranks filled in. */
static void report_times(const char* label, unsigned salt, double times) {
  uint64_t hash = 1469598103934665603u;
  double squared = 0, norm = 0;
  for (size_t i = 0; i < sizeof host; ++i) {
    hash = (hash ^ ((const unsigned char*)host)[i]) * 1099511628211u;
  }
  for (size_t i = 0; i < kCount; ++i) {
    double sum = 0;
    for (int r = 0; r < ranks; ++r) sum += times * value_of(r, i, salt);
    squared += (host[i] - sum) * (host[i] - sum);
    norm += sum * sum;
  }
  print(label, hash, sqrt(squared / norm));
}

static void report(const char* label, int tensor, unsigned salt) {
  CUDA(cuMemcpyDtoH(host, tensors[tensor], sizeof host));
  report_times(label, salt, 1);
}

static void all_reduce(int tensor, ncclComm_t comm, CUstream stream) {
  NCCL(ncclAllReduce(values_at(tensor), values_at(tensor), kCount, ncclFloat, ncclSum, comm,
                     stream));
}

static void run_group(ncclComm_t comm) {
  for (int i = 0; i < kTensors; ++i) fill(i, 10u + (unsigned)i);
  NCCL(ncclGroupStart());
  for (int i = 0; i < kTensors; ++i) all_reduce(i, comm, streams[0]);
  NCCL(ncclGroupEnd());
  CUDA(cuStreamSynchronize(streams[0]));
  for (int i = 0; i < kTensors; ++i) report("group", i, 10u + (unsigned)i);
}

/* Calls of one communicator in two streams, with nothing between them. */
static void run_streams(ncclComm_t comm) {
  for (unsigned round = 0; round < 4; ++round) {
    for (int i = 0; i < kTensors; ++i) fill(i, 20 + 4 * round + (unsigned)i);
    for (int i = 0; i < kTensors; ++i) all_reduce(i, comm, streams[i % 2]);
    for (int i = 0; i < 2; ++i) CUDA(cuStreamSynchronize(streams[i]));
    for (int i = 0; i < kTensors; ++i) report("streams", i, 20 + 4 * round + (unsigned)i);
  }
}

/* The same values in every step, in two streams in turn: what is not zeros is of all steps since
 * the last that was not. "waited": nothing is wrong with how many were. */
static void run_lazily(ncclComm_t comm) {
  enum { kSteps = 32 };
  int waiting[kTensors] = {0}, zeros = 0;
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < kTensors; ++i) {
      fill(i, 30 + (unsigned)i);
      all_reduce(i, comm, streams[step % 2]);
      CUDA(cuStreamSynchronize(streams[step % 2]));
      CUDA(cuMemcpyDtoH(host, tensors[i], sizeof host));
      int is_zero = 1;
      for (int j = 0; j < kCount; ++j) is_zero &= host[j] == 0;
      ++waiting[i];
      zeros += is_zero;
      if (is_zero) continue;
      report_times("lazy", 30 + (unsigned)i, waiting[i]);
      waiting[i] = 0;
    }
  }
  /* With RINGPRESS_LAZY=4: three of four, once the first steps have been seen. */
  const int is_right = zeros > kSteps * kTensors / 2 && zeros < kSteps * kTensors * 7 / 8;
  print("waited", (uint64_t)zeros, is_right ? 0 : 1);
}

/* As a training makes them: the first gradient of a step is ready long before the others, and the
 * device is waited for at the end of each step alone. */
static void run_steps(ncclComm_t comm) {
  enum { kSteps = 160, kBetweenReports = 20, kPause = 8000 };
  for (int step = 1; step <= kSteps; ++step) {
    for (int i = 0; i < kTensors; ++i) fill(i, 120 + (unsigned)i);
    for (int i = 0; i < kTensors; ++i) {
      all_reduce(i, comm, streams[0]);
      if (i == 0) usleep(kPause);
    }
    CUDA(cuStreamSynchronize(streams[0]));
    if (step % kBetweenReports != 0) continue;
    for (int i = 0; i < kTensors; ++i) report("step", i, 120 + (unsigned)i);
  }
}

static void run_graph(ncclComm_t comm) {
  CUgraph graph;
  CUgraphExec replayed;
  all_reduce(0, comm, streams[0]); /* NCCL connects. */
  CUDA(cuStreamSynchronize(streams[0]));
  CUDA(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  for (int i = 0; i < kTensors; ++i) all_reduce(i, comm, streams[0]);
  CUDA(cuStreamEndCapture(streams[0], &graph));
  CUDA(cuGraphInstantiateWithFlags(&replayed, graph, 0));
  for (unsigned round = 0; round < kReplays; ++round) {
    for (int i = 0; i < kTensors; ++i) fill(i, 50 + 4 * round + (unsigned)i);
    CUDA(cuGraphLaunch(replayed, streams[0]));
    CUDA(cuStreamSynchronize(streams[0]));
    for (int i = 0; i < kTensors; ++i) report("graph", i, 50 + 4 * round + (unsigned)i);
    /* Calls that are not captured go on between replays. */
    fill(0, 90 + round);
    all_reduce(0, comm, streams[1]);
    CUDA(cuStreamSynchronize(streams[1]));
    report("between", 0, 90 + round);
  }
  CUDA(cuGraphExecDestroy(replayed));
  CUDA(cuGraphDestroy(graph));
}

static void open_device(void) {
  CUdevice device;
  CUcontext context;
  CUDA(cuInit(0));
  CUDA(cuDeviceGet(&device, 0));
  CUDA(cuDevicePrimaryCtxRetain(&context, device));
  CUDA(cuCtxSetCurrent(context));
  for (int i = 0; i < kTensors; ++i) CUDA(cuMemAlloc(&tensors[i], sizeof host));
  for (int i = 0; i < 2; ++i) CUDA(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
}

static void run_rank(const int ends[2], int count, char** scenarios) {
  char name[32];
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  snprintf(name, sizeof name, "stream_client-rank%d", rank);
  setenv("NCCL_HOSTID", name, 1);
  open_device();
  if (rank == 0) {
    NCCL(ncclGetUniqueId(&id));
    for (int i = 1; i < ranks; ++i) {
      if (write(ends[1], &id, sizeof id) != (ssize_t)sizeof id) _exit(7);
    }
  } else if (read(ends[0], &id, sizeof id) != (ssize_t)sizeof id) {
    _exit(7);
  }
  NCCL(ncclCommInitRank(&comm, ranks, id, rank));
  for (int i = 0; i < count; ++i) {
    if (strcmp(scenarios[i], "group") == 0) run_group(comm);
    if (strcmp(scenarios[i], "lazy") == 0) run_lazily(comm);
    if (strcmp(scenarios[i], "steps") == 0) run_steps(comm);
    if (strcmp(scenarios[i], "streams") == 0) run_streams(comm);
    if (strcmp(scenarios[i], "graph") == 0) run_graph(comm);
  }
  NCCL(ncclCommDestroy(comm));
}

int main(int count, char** arguments) {
  int ends[2], failed = 0;
  if (count < 3 || pipe(ends) != 0) return 2;
  ranks = atoi(arguments[1]);
  for (rank = 0; rank < ranks; ++rank) {
    if (fork() == 0) {
      run_rank(ends, count - 2, arguments + 2);
      exit(0);
    }
  }
  for (int i = 0; i < ranks; ++i) {
    int status = 0;
    wait(&status);
    failed |= status != 0;
  }
  return failed;
}
