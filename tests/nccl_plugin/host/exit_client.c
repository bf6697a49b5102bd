/* An NCCL program whose ranks are processes that end in many ways, most of them without
 * ncclCommDestroy(). exit_test.py reads what they leave behind.
 *
 * usage: exit_client RANKS ENDING     where ENDING is a name in `endings`. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ringpress/nccl.h"

#define CHECK(call) check(call, #call)
enum { MOST_RANKS = 8, LARGEST = 70000 };

static int rank, ranks;
static int id_pipes[MOST_RANKS][2];
static int ended[2];                   /* Closed for writing when rank 0 ends. */
static int arrivals[2], departures[2]; /* Of barrier(). */
static ncclComm_t comm;
static float values[LARGEST];

static void check(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  fprintf(stderr, "rank %d: %s: %d\n", rank, call, (int)result);
  _exit(4);
}

static void pass(int end, void* bytes, size_t count, int is_write) {
  const ssize_t done = is_write ? write(end, bytes, count) : read(end, bytes, count);
  if (done != (ssize_t)count) _exit(5);
}

static ncclUniqueId agree_on_id(void) {
  ncclUniqueId id;
  if (rank == 0) {
    CHECK(ncclGetUniqueId(&id));
    for (int other = 1; other < ranks; ++other) pass(id_pipes[other][1], &id, sizeof id, 1);
  } else {
    pass(id_pipes[rank][0], &id, sizeof id, 0);
  }
  return id;
}

static void barrier(void) {
  char byte = 0;
  pass(arrivals[1], &byte, 1, 1);
  for (int other = 0; rank == 0 && other < ranks; ++other) pass(arrivals[0], &byte, 1, 0);
  for (int other = 0; rank == 0 && other < ranks; ++other) pass(departures[1], &byte, 1, 1);
  pass(departures[0], &byte, 1, 0);
}

static void wait_for_end_of_rank_0(void) {
  char byte;
  if (read(ended[0], &byte, 1) != 0) _exit(5);
}

static void reduce_in(ncclComm_t one, size_t count) {
  for (size_t i = 0; i < count; ++i) values[i] = (float)((i * 37 + (size_t)rank * 11) % 101) - 50;
  CHECK(ncclAllReduce(values, values, count, ncclFloat, ncclSum, one, NULL));
}

static void finish_nonblocking(ncclComm_t one) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) CHECK(ncclCommGetAsyncError(one, &state));
  CHECK(state);
}

/* Steps, as training has them. */
static void train(ncclComm_t one) {
  static const size_t kCounts[] = {300, LARGEST, 20000};
  for (int step = 0; step < 8; ++step) {
    usleep(2000);
    for (int i = 0; i < 3; ++i) reduce_in(one, kCounts[i]);
  }
}

static void make_and_train(void) {
  CHECK(ncclCommInitRank(&comm, ranks, agree_on_id(), rank));
  train(comm);
  barrier();
}

static void destroy(void) {
  CHECK(ncclCommDestroy(comm));
}
static void nothing(void) {}
static void call_exit(void) {
  exit(0);
}
static void call_underscore_exit(void) {
  _exit(0);
}
static void finalize(void) {
  CHECK(ncclCommFinalize(comm));
}
static void call_revoke(void) {
  CHECK(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
}
static void call_abort(void) {
  CHECK(ncclCommAbort(comm));
}

static void* exit_in_thread(void* unused) {
  exit(0);
  return unused;
}
static void thread_exit(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, exit_in_thread, NULL);
  for (;;) pause();
}

static void* reduce_in_thread(void* unused) {
  ncclAllReduce(values, values, LARGEST, ncclFloat, ncclSum, comm, NULL);
  return unused;
}
/* Rank 0 ends in the middle of a call that no other rank makes. */
static void under_way(void) {
  if (rank != 0) return wait_for_end_of_rank_0();
  pthread_t thread;
  pthread_create(&thread, NULL, reduce_in_thread, NULL);
  usleep(100000);
}

/* Until it fails, as it does when another rank ends. */
static void* reduce_on_and_on(void* unused) {
  for (size_t i = 0;; ++i) {
    const size_t count = i % 3 == 0 ? 300 : 20000;
    if (ncclAllReduce(values, values, count, ncclFloat, ncclSum, comm, NULL) != ncclSuccess) break;
  }
  return unused;
}
/* Each rank ends somewhere in the calls of another thread. */
static void busy(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, reduce_on_and_on, NULL);
  usleep(50000);
}

static void exit_of_signal(int signal_number) {
  (void)signal_number;
  exit(0);
}
/* The same, in the thread of the call. */
static void signaled(void) {
  if (rank != 0) return wait_for_end_of_rank_0();
  signal(SIGALRM, exit_of_signal);
  ualarm(100000, 0);
  reduce_in_thread(NULL);
}

/* A communicator that rank 0 alone has begun to make. */
static void in_the_making(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclUniqueId id;
  ncclComm_t other;
  if (rank != 0) return wait_for_end_of_rank_0();
  CHECK(ncclGetUniqueId(&id));
  const ncclResult_t begun = ncclCommInitRankConfig(&other, ranks, id, rank, &config);
  if (begun != ncclInProgress) _exit(6);
}

/* A process that was forked, and knows the communicator of the one that it came from. */
static void forked(void) {
  const pid_t process = fork();
  if (process == 0) exit(0);
  int status = 0;
  if (waitpid(process, &status, 0) != process || status != 0) _exit(7);
}
/* It has a communicator of its own, too. */
static void forked_with_its_own(void) {
  const pid_t process = fork();
  if (process == 0) {
    ncclUniqueId id;
    ncclComm_t alone;
    CHECK(ncclGetUniqueId(&id));
    CHECK(ncclCommInitRank(&alone, 1, id, 0));
    reduce_in(alone, 300);
    exit(0);
  }
  int status = 0;
  if (waitpid(process, &status, 0) != process || status != 0) _exit(7);
}

/* Handlers of the program, one before the first communicator and one after it. */
static void register_destroy(void) {
  atexit(destroy);
}

static ncclComm_t child;
static void make_two_and_train(void) {
  make_and_train();
  CHECK(ncclCommSplit(comm, 0, rank, &child, NULL));
  train(child);
  barrier();
}
static void destroy_two(void) {
  CHECK(ncclCommDestroy(child));
  destroy();
}

static void make_nonblocking_and_train(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclResult_t begun = ncclCommInitRankConfig(&comm, ranks, agree_on_id(), rank, &config);
  if (begun != ncclInProgress && begun != ncclSuccess) CHECK(begun);
  finish_nonblocking(comm);
  for (int i = 0; i < 5; ++i) {
    const ncclResult_t result =
        ncclAllReduce(values, values, 20000, ncclFloat, ncclSum, comm, NULL);
    if (result != ncclInProgress) CHECK(result);
    finish_nonblocking(comm);
  }
  barrier();
}
static void destroy_nonblocking(void) {
  const ncclResult_t result = ncclCommDestroy(comm);
  if (result != ncclInProgress) CHECK(result);
}

static const struct {
  const char* name;
  void (*before)(void);
  void (*work)(void);
  void (*end)(void);
} endings[] = {{"destroy", nothing, make_and_train, destroy},
               {"return", nothing, make_and_train, nothing},
               {"exit", nothing, make_and_train, call_exit},
               {"_exit", nothing, make_and_train, call_underscore_exit},
               {"finalize", nothing, make_and_train, finalize},
               {"revoke", nothing, make_and_train, call_revoke},
               {"abort", nothing, make_and_train, call_abort},
               {"thread_exit", nothing, make_and_train, thread_exit},
               {"under_way", nothing, make_and_train, under_way},
               {"busy", nothing, make_and_train, busy},
               {"signaled", nothing, make_and_train, signaled},
               {"in_the_making", nothing, make_and_train, in_the_making},
               {"forked", nothing, make_and_train, forked},
               {"forked_with_its_own", nothing, make_and_train, forked_with_its_own},
               {"earlier_handler", register_destroy, make_and_train, nothing},
               {"later_handler", nothing, make_and_train, register_destroy},
               {"two", nothing, make_two_and_train, nothing},
               {"two_destroy", nothing, make_two_and_train, destroy_two},
               {"nonblocking", nothing, make_nonblocking_and_train, nothing},
               {"nonblocking_destroy", nothing, make_nonblocking_and_train, destroy_nonblocking}};

static int run_rank(const char* name) {
  char host[16];
  snprintf(host, sizeof host, "host%d", rank);
  setenv("NCCL_HOSTID", host, 1);
  if (rank != 0) close(ended[1]);
  for (size_t i = 0; i < sizeof endings / sizeof endings[0]; ++i) {
    if (strcmp(endings[i].name, name) != 0) continue;
    endings[i].before();
    endings[i].work();
    endings[i].end();
    return 0;
  }
  return 2;
}

static int wait_for_ranks(const pid_t* children) {
  int failures = 0;
  for (int i = 0; i < ranks; ++i) {
    int status = 0;
    failures += waitpid(children[i], &status, 0) != children[i] || status != 0;
    if (status != 0) fprintf(stderr, "rank %d ends with status %d\n", i, status);
  }
  return failures != 0;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  ranks = atoi(argv[1]);
  if (ranks < 1 || ranks > MOST_RANKS) return 2;
  if (pipe(ended) != 0 || pipe(arrivals) != 0 || pipe(departures) != 0) return 2;
  pid_t children[MOST_RANKS];
  for (int i = 0; i < ranks; ++i) {
    if (pipe(id_pipes[i]) != 0) return 2;
  }
  for (rank = 0; rank < ranks; ++rank) {
    children[rank] = fork();
    if (children[rank] == 0) return run_rank(argv[2]);
  }
  close(ended[1]);
  return wait_for_ranks(children);
}
