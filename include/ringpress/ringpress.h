/* The C functions that ringpress adds to NCCL's. A program that wants to run with plain NCCL too
 * looks them up with dlsym. */
#ifndef RINGPRESS_RINGPRESS_H_
#define RINGPRESS_RINGPRESS_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a communicator did since it was made. Set `size` to sizeof(ringpressStatistics_t) before the
 * call: later versions append fields and fill only those that the caller knows. */
typedef struct {
  size_t size;
  uint64_t calls;
  uint64_t compressed_calls;
  uint64_t raw_bytes;          /* What this rank's sends would have been uncompressed. */
  uint64_t wire_bytes;         /* What this rank sent, headers included. */
  uint64_t residual_bytes;     /* Memory held for error feedback. */
  char codec[128];             /* Specification used by the last call. */
  char algorithm[16];          /* "ring" or "sra". */
  char reason[160];            /* Why the last call was not compressed, or empty. */
  uint64_t observed_calls;     /* RINGPRESS=observe: calls that would be compressed, */
  uint64_t observed_raw_bytes; /* and their part of raw_bytes. */
} ringpressStatistics_t;

/* Fills `statistics` for an ncclComm_t of the host backend. Returns an ncclResult_t. */
int ringpressGetStatistics(void* comm, ringpressStatistics_t* statistics);

/* "0.1.0" */
const char* ringpressVersion(void);

#ifdef __cplusplus
}
#endif

#endif /* RINGPRESS_RINGPRESS_H_ */
