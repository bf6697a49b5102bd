/* What the files of preload_client share. */
#ifndef TESTS_NCCL_PLUGIN_PRELOAD_CLIENT_H_
#define TESTS_NCCL_PLUGIN_PRELOAD_CLIENT_H_

#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "ringpress/nccl.h"

/* The functions of NCCL, linked or looked up. */
/* clang-format off: it joins a line more each time. */
#define USED(X)           \
  X(GetUniqueId)          \
  X(CommInitRank)         \
  X(CommInitAll)          \
  X(CommSplit)            \
  X(CommDestroy)          \
  X(CommAbort)            \
  X(AllReduce)            \
  X(ReduceScatter)        \
  X(Broadcast)            \
  X(Bcast)                \
  X(GroupStart)           \
  X(GroupEnd)             \
  X(GetVersion)           \
  X(RedOpCreatePreMulSum) \
  X(RedOpDestroy)         \
  X(GetLastError)         \
  X(CommCount)            \
  X(CommInitRankConfig)   \
  X(CommGetAsyncError)
/* clang-format on */
#define POINTER(name) extern __typeof__(nccl##name)* call_##name;
USED(POINTER)

#define CHECK(call)                                                                                \
  do {                                                                                             \
    const ncclResult_t result_ = (call);                                                           \
    if (result_ != ncclSuccess) {                                                                  \
      fprintf(stderr, "rank %d: %s: %d %s\n", rank, #call, (int)result_, call_GetLastError(NULL)); \
      _exit(4);                                                                                    \
    }                                                                                              \
  } while (0)

extern int rank, ranks;

/* Values that differ by rank, place and salt, from -1 to 1. */
void fill(float* values, size_t count, unsigned salt);
void print(const char* label, const void* data, size_t bytes, double error);
/* Of elements [first, first + count) of the sum, each divided by `divisor`. */
double error_of(const float* got, size_t first, size_t count, unsigned salt, double divisor);

/* Scenarios: preload_scenarios.c. */
void fork_workers(ncclComm_t comm, const int pipe_ends[2]);
/* Returns in a child of this process, which had used NCCL; the parent ends as the child does. */
void go_on_in_a_child(void);
void time_calls(ncclComm_t comm);
void abort_calls(ncclComm_t comm);
/* Calls while a thread ends; those while the program ends come later, and destroy it. */
void call_late(ncclComm_t comm);
/* Gossip by the functions of the library at CLIENT_RINGPRESS. */
void gossip(ncclComm_t comm);
/* Calls of the same values, the last of which is flushed by the library at CLIENT_RINGPRESS. */
void put_off(ncclComm_t comm);
void nonblocking_calls(const ncclUniqueId* id);
/* What a process does that has no communicator; they return its exit status. */
int call_groups_only(void);
int call_what_is_missing(void);

#endif /* TESTS_NCCL_PLUGIN_PRELOAD_CLIENT_H_ */
