/* An NCCL program that knows nothing of ringpress. Its ranks are processes. Each result is printed
 * as one line, "rank LABEL hash error", so that runs with and without the shim can be compared:
 *   hash    of all bytes of the result
 *   error   the root of the squared error over that of the exact sum
 *
 * usage: preload_client RANKS SCENARIO
 *   all|fork|forked|gossip|lazy|time|abort|late|nonblocking|one_without|one_other|launcher|grouped|
 *   no_rank|missing
 * CLIENT_RANKS_PER_HOST: how many ranks share a host; 1 if not set. */
#define _GNU_SOURCE
#include "tests/nccl_plugin/preload/client.h"

#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define DEFINE(name) __typeof__(nccl##name)* call_##name;
USED(DEFINE)
int rank, ranks;

static void bind_functions(void) {
#ifdef CLIENT_OPENS_NCCL
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(3);
  }
#define BIND(name) *(void**)&call_##name = dlsym(library, "nccl" #name);
#else
#define BIND(name) call_##name = nccl##name;
#endif
  USED(BIND)
}

static float value_of(int of_rank, size_t index, unsigned salt) {
  uint32_t x = (uint32_t)index * 2654435761u ^ (uint32_t)(of_rank * 977 + (int)salt) * 40503u;
  x ^= x >> 15;
  x *= 2246822519u;
  x ^= x >> 13;
  return (float)((double)x / 4294967296.0 * 2 - 1);
}

void fill(float* values, size_t count, unsigned salt) {
  for (size_t i = 0; i < count; ++i) values[i] = value_of(rank, i, salt);
}

void print(const char* label, const void* data, size_t bytes, double error) {
  uint64_t hash = 1469598103934665603u;
  for (size_t i = 0; i < bytes; ++i)
    hash = (hash ^ ((const unsigned char*)data)[i]) * 1099511628211u;
  char line[160];
  const int length = snprintf(line, sizeof line, "%d %s %016llx %.3g\n", rank, label,
                              (unsigned long long)hash, error);
  if (write(STDOUT_FILENO, line, (size_t)length) != length) _exit(5);
}

double error_of(const float* got, size_t first, size_t count, unsigned salt, double divisor) {
  double squared = 0, norm = 0;
  for (size_t i = 0; i < count; ++i) {
    double sum = 0;
    for (int r = 0; r < ranks; ++r) sum += value_of(r, first + i, salt);
    sum /= divisor;
    squared += (got[i] - sum) * (got[i] - sum);
    norm += sum * sum;
  }
  return sqrt(squared / norm);
}

static void reduce_in_steps(ncclComm_t comm, const char* label, size_t count, ncclRedOp_t op) {
  float* send = malloc(count * sizeof(float));
  float* receive = malloc(count * sizeof(float));
  for (unsigned step = 0; step < 4; ++step) {
    fill(send, count, step);
    if (step == 3) memcpy(receive, send, count * sizeof(float));
    CHECK(call_AllReduce(step == 3 ? receive : send, receive, count, ncclFloat, op, comm, NULL));
    print(label, receive, count * sizeof(float),
          error_of(receive, 0, count, step, op == ncclAvg ? ranks : 1));
  }
  free(send);
  free(receive);
}

static void exact_calls(ncclComm_t comm) {
  enum { kCount = 50000 };
  static float values[kCount], other[kCount];
  static int32_t integers[kCount];
  fill(values, kCount, 7);
  for (size_t i = 0; i < kCount; ++i) integers[i] = (int32_t)i * (rank + 1);
  CHECK(call_AllReduce(values, other, kCount, ncclFloat, ncclMax, comm, NULL));
  print("exact-max", other, sizeof other, 0);
  CHECK(call_AllReduce(integers, integers, kCount, ncclInt32, ncclSum, comm, NULL));
  print("exact-int", integers, sizeof integers, 0);
  CHECK(call_AllReduce(values, other, 100, ncclFloat, ncclSum, comm, NULL));
  print("exact-small", other, 400, 0);
  CHECK(call_AllReduce(NULL, NULL, 0, ncclFloat, ncclSum, comm, NULL));
  CHECK(call_Broadcast(values, values, kCount, ncclFloat, 1, comm, NULL));
  print("exact-broadcast", values, sizeof values, 0);
  fill(values, kCount, 9);
  CHECK(call_Bcast(values, kCount, ncclFloat, 0, comm, NULL));
  print("exact-bcast", values, sizeof values, 0);
  ncclRedOp_t op;
  float scale = 0.5f;
  CHECK(call_RedOpCreatePreMulSum(&op, &scale, ncclFloat, ncclScalarHostImmediate, comm));
  CHECK(call_AllReduce(values, other, kCount, ncclFloat, op, comm, NULL));
  CHECK(call_RedOpDestroy(op, comm));
  print("exact-premul", other, sizeof other, 0);
}

static void grouped_calls(ncclComm_t comm) {
  enum { kCount = 60000 };
  static float a[kCount], b[kCount], c[kCount];
  fill(a, kCount, 20);
  fill(b, kCount, 21);
  fill(c, kCount, 22);
  CHECK(call_GroupStart());
  CHECK(call_AllReduce(a, a, kCount, ncclFloat, ncclSum, comm, NULL));
  CHECK(call_GroupStart());
  CHECK(call_Broadcast(c, c, kCount, ncclFloat, 0, comm, NULL));
  CHECK(call_GroupEnd());
  CHECK(call_AllReduce(b, b, kCount, ncclFloat, ncclSum, comm, NULL));
  CHECK(call_GroupEnd());
  print("lossy-group", a, sizeof a, error_of(a, 0, kCount, 20, 1));
  print("lossy-group", b, sizeof b, error_of(b, 0, kCount, 21, 1));
  print("exact-group", c, sizeof c, 0);
}

static void scatter_call(ncclComm_t comm) {
  enum { kCount = 40000 };
  float* send = malloc(sizeof(float) * (size_t)ranks * kCount);
  float* own = malloc(sizeof(float) * kCount);
  fill(send, (size_t)ranks * kCount, 30);
  CHECK(call_ReduceScatter(send, own, kCount, ncclFloat, ncclSum, comm, NULL));
  print("each-scatter", own, sizeof(float) * kCount,
        error_of(own, (size_t)rank * kCount, kCount, 30, 1));
  free(send);
  free(own);
}

static void split_calls(ncclComm_t comm) {
  enum { kCount = 70000 };
  static float values[kCount];
  ncclComm_t child = NULL;
  CHECK(call_CommSplit(comm, 0, ranks - rank, &child, NULL));
  fill(values, kCount, 40);
  CHECK(call_AllReduce(values, values, kCount, ncclFloat, ncclAvg, child, NULL));
  print("lossy-split", values, sizeof values, error_of(values, 0, kCount, 40, ranks));
  CHECK(call_CommDestroy(child));
}

static int run_rank(const char* scenario, int ends[2]) {
  char host[32];
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  pid_t launcher = -1; /* A process that makes the id and is no rank. */
  const char* per_host = getenv("CLIENT_RANKS_PER_HOST");
  snprintf(host, sizeof host, "host%d", per_host != NULL ? rank / atoi(per_host) : rank);
  setenv("NCCL_HOSTID", host, 1);
  if (strcmp(scenario, "one_without") == 0 && rank == 1) setenv("RINGPRESS", "off", 1);
  if (strcmp(scenario, "one_other") == 0 && rank == 1) setenv("RINGPRESS_CODEC", "q8", 1);
  if (strcmp(scenario, "one_lost") == 0 && rank == 1)
    setenv("RINGPRESS_SOCKET_IFNAME", "nosuch0", 1);
  bind_functions();
  if (strcmp(scenario, "no_rank") == 0) return call_groups_only();
  if (strcmp(scenario, "missing") == 0) return call_what_is_missing();
  if (strcmp(scenario, "forked") == 0) go_on_in_a_child();
  if (rank == 0 && strcmp(scenario, "launcher") == 0) launcher = fork();
  if (rank == 0 && launcher <= 0) {
    CHECK(call_GetUniqueId(&id));
    if (launcher == 0 && write(ends[1], &id, sizeof id) != (ssize_t)sizeof id) return 7;
    for (int i = 1; i < ranks; ++i) {
      if (write(ends[1], &id, sizeof id) != (ssize_t)sizeof id) return 7;
    }
    if (launcher == 0) pause(); /* The real library serves the ranks from here. */
  } else if (read(ends[0], &id, sizeof id) != (ssize_t)sizeof id) {
    return 7;
  }
  if (strcmp(scenario, "nonblocking") == 0) {
    nonblocking_calls(&id);
    return 0;
  }
  const int is_grouped = strcmp(scenario, "grouped") == 0;
  if (is_grouped) CHECK(call_GroupStart()); /* For all but rank 0 the first call. */
  CHECK(call_CommInitRank(&comm, ranks, id, rank));
  if (is_grouped) CHECK(call_GroupEnd());
  if (strcmp(scenario, "abort") == 0) {
    abort_calls(comm);
    return 0;
  }
  if (strcmp(scenario, "late") == 0) {
    call_late(comm);
    return 0;
  }
  if (strcmp(scenario, "time") == 0) {
    time_calls(comm);
  } else if (strcmp(scenario, "fork") == 0) {
    fork_workers(comm, ends);
  } else if (strcmp(scenario, "gossip") == 0) {
    gossip(comm);
  } else if (strcmp(scenario, "lazy") == 0) {
    put_off(comm);
  } else {
    reduce_in_steps(comm, "lossy-sum", 100003, ncclSum);
    reduce_in_steps(comm, "lossy-avg", 1200000, ncclAvg);
    exact_calls(comm);
    grouped_calls(comm);
    scatter_call(comm);
    split_calls(comm);
  }
  CHECK(call_CommDestroy(comm));
  if (launcher > 0) {
    kill(launcher, SIGKILL);
    waitpid(launcher, NULL, 0);
  }
  return 0;
}

int main(int count, char** arguments) {
  int ends[2], failed = 0;
  if (count < 3 || pipe(ends) != 0) return 2;
  ranks = atoi(arguments[1]);
  for (rank = 0; rank < ranks; ++rank) {
    const pid_t process = fork();
    if (process == 0) exit(run_rank(arguments[2], ends));
  }
  for (int i = 0; i < ranks; ++i) {
    int status = 0;
    wait(&status);
    failed |= status != 0;
  }
  return failed;
}
