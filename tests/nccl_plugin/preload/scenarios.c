/* What preload_client does but for all-reduces that all succeed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "ringpress/ringpress.h"
#include "tests/nccl_plugin/preload/client.h"

/* What a worker would hand on to a program that it starts: sockets, but for standard streams, this
 * program's pipe, and what it was started with itself, which are files and pipes. */
static int has_inheritable_descriptors(const int pipe_ends[2]) {
  for (int descriptor = 3; descriptor < 256; ++descriptor) {
    const int flags = fcntl(descriptor, F_GETFD);
    if (flags < 0 || (flags & FD_CLOEXEC) != 0) continue;
    if (descriptor == pipe_ends[0] || descriptor == pipe_ends[1]) continue;
    char link[64], target[256] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    if (readlink(link, target, sizeof target - 1) < 0) continue;
    if (target[0] == 's' || target[0] == 'a') return 1; /* socket:[...], anon_inode:... */
  }
  return 0;
}

/* Workers as a data loader forks them; they may call what needs no communicator. */
void fork_workers(ncclComm_t comm, const int pipe_ends[2]) {
  enum { kCount = 30000 };
  static float values[kCount];
  for (int round = 0; round < 5; ++round) {
    pid_t workers[4];
    for (int i = 0; i < 4; ++i) {
      workers[i] = fork();
      if (workers[i] == 0) {
        int version = 0;
        ncclResult_t result = call_GetVersion(&version);
        if (result == ncclSuccess) result = call_GroupStart();
        if (result == ncclSuccess) result = call_GroupEnd();
        usleep((useconds_t)(i * 7919 % 4) * 1000); /* They end in another order. */
        if (has_inheritable_descriptors(pipe_ends)) exit(2);
        exit(result == ncclSuccess && version > 0 ? 0 : 1);
      }
    }
    fill(values, kCount, 50);
    CHECK(call_AllReduce(values, values, kCount, ncclFloat, ncclSum, comm, NULL));
    for (int i = 0; i < 4; ++i) {
      int status = 0;
      if (waitpid(workers[i], &status, 0) != workers[i] || status != 0) _exit(6);
    }
  }
  print("lossy-fork", values, sizeof values, error_of(values, 0, kCount, 50, 1));
}

void go_on_in_a_child(void) {
  ncclUniqueId unused;
  int status = 0;
  CHECK(call_GetUniqueId(&unused));
  const pid_t child = fork();
  if (child == 0) return;
  exit(waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 7);
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Calls that are forwarded: perf/interposer_overhead.py. */
typedef struct {
  const char* name;
  size_t count;
  ncclDataType_t dtype;
} TimedCall;
static const TimedCall kTimed[] = {
    {"nothing", 0, ncclFloat}, {"one-integer", 1, ncclInt32}, {"one-float", 1, ncclFloat}};
enum { kTimedCalls = 2000, kTimedKinds = sizeof kTimed / sizeof *kTimed };

/* Seconds of one call. Within a group, so that nothing is sent yet. */
static double time_kind(ncclComm_t comm, const TimedCall* kind) {
  float value = 1;
  CHECK(call_GroupStart());
  const double start = seconds();
  for (int i = 0; i < kTimedCalls; ++i) {
    CHECK(call_AllReduce(&value, &value, kind->count, kind->dtype, ncclSum, comm, NULL));
  }
  const double taken = seconds() - start;
  CHECK(call_GroupEnd());
  return taken / kTimedCalls;
}

static double time_query(ncclComm_t comm) {
  int count = 0;
  const double start = seconds();
  for (int i = 0; i < kTimedCalls; ++i) CHECK(call_CommCount(comm, &count));
  return (seconds() - start) / kTimedCalls;
}

/* Prints the least of many rounds, in nanoseconds. */
void time_calls(ncclComm_t comm) {
  double query = 1, least[kTimedKinds] = {1, 1, 1};
  for (int round = 0; round < 50; ++round) {
    query = fmin(query, time_query(comm));
    for (int i = 0; i < kTimedKinds; ++i) least[i] = fmin(least[i], time_kind(comm, &kTimed[i]));
  }
  printf("%d query %.1f\n", rank, query * 1e9);
  for (int i = 0; i < kTimedKinds; ++i) {
    printf("%d %s %.1f\n", rank, kTimed[i].name, least[i] * 1e9);
  }
  fflush(stdout);
}

void gossip(ncclComm_t comm) {
  enum { kCount = 20000 };
  static float model[kCount];
  void* library = dlopen(getenv("CLIENT_RINGPRESS"), RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    _exit(3);
  }
  __typeof__(ringpressGossipInit)* init = NULL;
  __typeof__(ringpressGossipStep)* step = NULL;
  __typeof__(ringpressGossipFlush)* flush = NULL;
  __typeof__(ringpressGossipDestroy)* destroy = NULL;
  *(void**)&init = dlsym(library, "ringpressGossipInit");
  *(void**)&step = dlsym(library, "ringpressGossipStep");
  *(void**)&flush = dlsym(library, "ringpressGossipFlush");
  *(void**)&destroy = dlsym(library, "ringpressGossipDestroy");
  ringpressGossip_t handle = NULL;
  ringpressGossipConfig_t config = {sizeof config, 0, 1, 0, 0, 5, "none"};
  ringpressGossipStep_t done = {.size = sizeof done};
  fill(model, kCount, 60);
  CHECK((ncclResult_t)init(&handle, model, kCount, ncclFloat, &config, comm, NULL));
  CHECK((ncclResult_t)step(handle, model, &done, NULL));
  print(done.exchanged ? "exact-exchanged" : "exact-alone", &done.sent_bytes,
        sizeof done.sent_bytes, 0);
  /* What is refused leaves a text where NCCL's are. */
  if (init(&handle, model, 0, ncclFloat, &config, comm, NULL) != ncclInvalidArgument ||
      strstr(call_GetLastError(comm), "count is 0") == NULL) {
    fprintf(stderr, "%s\n", call_GetLastError(comm));
    _exit(6);
  }
  handle = NULL;
  fill(model, kCount, 60);
  CHECK((ncclResult_t)init(&handle, model, kCount, ncclFloat, &config, comm, NULL));
  CHECK((ncclResult_t)flush(handle, model, NULL));
  CHECK((ncclResult_t)destroy(handle));
  print("lossy-gossip", model, sizeof model, error_of(model, 0, kCount, 60, ranks));
}

void put_off(ncclComm_t comm) {
  enum { kCount = 20000, kSteps = 20 };
  static float values[kCount], sum[kCount], total[kCount];
  void* library = dlopen(getenv("CLIENT_RINGPRESS"), RTLD_NOW | RTLD_LOCAL);
  __typeof__(ringpressLazyFlush)* flush = NULL;
  __typeof__(ringpressStateSave)* save = NULL;
  if (library != NULL) *(void**)&flush = dlsym(library, "ringpressLazyFlush");
  if (library != NULL) *(void**)&save = dlsym(library, "ringpressStateSave");
  if (flush == NULL || save == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    _exit(3);
  }
  /* What is kept on a device is not saved. */
  const int saved = save(comm, "state");
  if (saved != ncclInvalidUsage) {
    fprintf(stderr, "a state was saved: %d\n", saved);
    _exit(6);
  }
  int zeros = 0;
  fill(values, kCount, 70);
  for (int step = 0; step < kSteps; ++step) {
    if (rank == 0 && step == kSteps - 1) CHECK((ncclResult_t)flush(comm));
    CHECK(call_AllReduce(values, sum, kCount, ncclFloat, ncclSum, comm, NULL));
    zeros += sum[1] == 0;
    for (int i = 0; i < kCount; ++i) total[i] += sum[i];
  }
  print("exact-zeros", &zeros, sizeof zeros, 0);
  print("lossy-total", total, sizeof total, error_of(total, 0, kCount, 70, 1.0 / kSteps));
}

static void* abort_soon(void* comm) {
  usleep(300 * 1000);
  call_CommAbort(comm);
  return NULL;
}

/* Rank 0 is inside a call that its peers never make when another thread gives up. */
void abort_calls(ncclComm_t comm) {
  enum { kCount = 100000 };
  static float values[kCount];
  fill(values, kCount, 60);
  CHECK(call_AllReduce(values, values, kCount, ncclFloat, ncclSum, comm, NULL));
  pthread_t watchdog;
  if (pthread_create(&watchdog, NULL, abort_soon, comm) != 0) _exit(8);
  ncclResult_t result = ncclRemoteError;
  if (rank == 0) {
    result = call_AllReduce(values, values, kCount, ncclFloat, ncclSum, comm, NULL);
  }
  pthread_join(watchdog, NULL);
  print(result == ncclSuccess ? "aborted-not" : "aborted", values, 0, 0);
}

static ncclComm_t late_comm;
static void reduce_late(const char* label) {
  enum { kCount = 100000 };
  static float values[kCount];
  fill(values, kCount, 70);
  CHECK(call_GroupStart());
  CHECK(call_AllReduce(values, values, kCount, ncclFloat, ncclSum, late_comm, NULL));
  CHECK(call_GroupEnd());
  print(label, values, sizeof values, error_of(values, 0, kCount, 70, 1));
}
static void as_thread_ends(void* unused) {
  (void)unused;
  reduce_late("lossy-thread-end");
}
static void as_program_ends(void) {
  reduce_late("lossy-program-end");
  CHECK(call_CommDestroy(late_comm));
}
static void* end_soon(void* key) {
  reduce_late("lossy-thread");
  return pthread_setspecific(*(pthread_key_t*)key, key) == 0 ? NULL : key;
}

/* As the destructors of a program's objects may. */
void call_late(ncclComm_t comm) {
  pthread_key_t key;
  pthread_t thread;
  void* failed = NULL;
  late_comm = comm;
  if (pthread_key_create(&key, as_thread_ends) != 0) _exit(8);
  if (pthread_create(&thread, NULL, end_soon, &key) != 0) _exit(8);
  if (pthread_join(thread, &failed) != 0 || failed != NULL) _exit(8);
  reduce_late("lossy-main");
  if (atexit(as_program_ends) != 0) _exit(8);
}

static void settle(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    CHECK(call_CommGetAsyncError(comm, &state));
    usleep(200);
  }
  CHECK(state);
}

/* They are left to plain NCCL. */
void nonblocking_calls(const ncclUniqueId* id) {
  enum { kCount = 100000 };
  static float values[kCount];
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = NULL;
  config.blocking = 0;
  ncclResult_t result = call_CommInitRankConfig(&comm, ranks, *id, rank, &config);
  if (result != ncclInProgress) CHECK(result);
  settle(comm);
  for (unsigned step = 0; step < 3; ++step) {
    fill(values, kCount, step);
    if (step == 2) CHECK(call_GroupStart());
    result = call_AllReduce(values, values, kCount, ncclFloat, ncclSum, comm, NULL);
    if (step == 2) result = call_GroupEnd();
    if (result != ncclInProgress) CHECK(result);
    settle(comm);
    print("nonblocking", values, sizeof values, error_of(values, 0, kCount, step, 1));
  }
  CHECK(call_CommAbort(comm));
}

/* True if a library with such a name is in this process. */
static int is_loaded(const char* name) {
  char line[4096];
  int found = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
    found |= strstr(line, name) != NULL;
  if (maps != NULL) fclose(maps);
  return found;
}

int call_groups_only(void) {
  int version = 0;
  CHECK(call_GetVersion(&version));
  CHECK(call_GroupStart());
  CHECK(call_GroupEnd());
  print(is_loaded("libringpress.so") ? "engine" : "no-engine", &version, sizeof version, 0);
  return 0;
}

/* With an NCCL that lacks nearly all of its functions. */
int call_what_is_missing(void) {
  int version = 0;
  ncclUniqueId id;
  CHECK(call_GetVersion(&version));
  const ncclResult_t result = call_GetUniqueId(&id);
  printf("%d %d %s\n", rank, (int)result, call_GetLastError(NULL));
  fflush(stdout);
  return 0;
}
