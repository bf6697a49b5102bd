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

/* All-reduces that something is known of: of so many elements of such a type. */
typedef struct {
  size_t size;          /* sizeof(ringpressCall_t) */
  size_t count;         /* Elements. */
  int datatype;         /* An ncclDataType_t. */
  const void* sendbuff; /* From this buffer alone; NULL: any that has no layers of its own. */
} ringpressCall_t;

/* powersgd sends its elements as they are: such as those of a normalisation. */
#define RINGPRESS_LAYER_EXACT 1u

/* Elements [offset, offset + count) of the tensor: a matrix, stored row by row, or a vector. */
typedef struct {
  size_t offset;
  size_t count;
  size_t rows; /* rows * columns is count, or both are 0: a vector. */
  size_t columns;
  unsigned flags; /* RINGPRESS_LAYER_EXACT or 0; other bits are reserved. */
} ringpressLayer_t;

/* Tells of what layers the tensors of later calls consist: in any order, none overlapping another.
 * Elements in none of them count as a vector. layer_count 0 forgets them. Codecs that work on
 * matrices (powersgd) make use of it, and RINGPRESS_ADJUST_STEPS, which gives each layer a level of
 * compression; to all others it makes no difference. Each rank calls it by
 * itself, at any time between its calls: as long as not all ranks know the same of a call, it goes
 * as if nothing was known. Hints last until they are set again or the communicator ends; those that
 * are split from it start without. Returns an ncclResult_t. */
int ringpressSetLayers(void* comm, const ringpressCall_t* call, const ringpressLayer_t* layers,
                       size_t layer_count);

/* "0.1.0" */
const char* ringpressVersion(void);

#ifdef __cplusplus
}
#endif

#endif /* RINGPRESS_RINGPRESS_H_ */
