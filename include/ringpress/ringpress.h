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
  uint64_t unsent_tensors;  /* RINGPRESS_LAZY, once finalized: tensors of which this rank had put */
  uint64_t unsent_elements; /* gradients off that were never sent, their elements, and the l2 */
  double unsent_norm;       /* norm of these gradients' sums. */
  uint64_t calibration_bytes; /* Of wire_bytes: what automatic mode sent to measure the links. */
} ringpressStatistics_t;

/* Fills `statistics` for an ncclComm_t of the host backend. Returns an ncclResult_t. */
int ringpressGetStatistics(void* comm, ringpressStatistics_t* statistics);

/* Options of one call. NCCL's nccl*Config() functions (2.31 and later) take a ncclCollConfig_t,
 * which has a list of options of any vendor. Those with this vendor id are for this library; plain
 * NCCL passes over them, and this library over those of others.
 *
 *   ncclConfigExt_t tensor = {NULL, {RINGPRESS_VENDOR_ID, RINGPRESS_OPTION_TENSOR}, {0}};
 *   ncclConfigExt_t codec = {&tensor, {RINGPRESS_VENDOR_ID, RINGPRESS_OPTION_CODEC}, {0}};
 *   ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
 *   tensor.val.s = "layer7.weight";
 *   codec.val.s = "q8";
 *   config.ext = &codec;
 *   ncclAllReduceConfig(send, receive, count, ncclFloat, ncclSum, comm, stream, &config);
 *
 * They are read before the call returns, by the host backend and where this library is preloaded
 * before NVIDIA's: there by all-reduces, reduce-scatters and all-gathers. One that is not known,
 * comes twice or has no such value is refused (ncclInvalidArgument), and ncclGetLastError() names
 * it. */
#define RINGPRESS_VENDOR_ID 0x9c4e17

typedef enum {
  /* val.s: a codec specification, as RINGPRESS_CODEC has them but for "auto"; or "exact". The call
   * has it whatever rules and settings say, and nothing else is tried. But calls that are always
   * exact stay so, as do all under RINGPRESS=off and those that a rule leaves exact;
   * RINGPRESS=lossless and =observe mean what they say. The same on all ranks: else it ends in an
   * error on all of them, as other calls do that differ. (Preloaded, the ranks then wait for each
   * other; and the codec is one of q2 to q8, or one that the settings name.) */
  RINGPRESS_OPTION_CODEC = 1,
  /* val.s: names the tensor. What error feedback has yet to send is kept by that name, and by the
   * tensor's size and type, instead of by what is found out from addresses and the order of calls:
   * two tensors of one communicator have two names. A name that is given up is forgotten in time.
   * It may differ from rank to rank.
   *
   * Without it, a userProfilerTag of the ncclCollConfig_t that is not 0 is taken for such a name
   * from its second call on, as long as no two tensors of a step are seen to have the same one. */
  RINGPRESS_OPTION_TENSOR = 2
} ringpressOption_t;

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

/* RINGPRESS_LAZY: the next all-reduce of each tensor is sent, with what has been put off of it. To
 * be called before the last step, by one rank or more, between its calls: gradients that are still
 * put off when the communicator ends are lost. Without RINGPRESS_LAZY it changes nothing. `comm` is
 * one of this library or, where that is preloaded before NVIDIA's NCCL, one of NVIDIA's. Returns an
 * ncclResult_t: ncclInvalidArgument for what is no communicator, ncclInvalidUsage for one that has
 * failed or, of this library, was finalized. */
int ringpressLazyFlush(void* comm);

/* Checkpoints. What a communicator keeps from call to call is part of what a program trains: what
 * error feedback has yet to send, what powersgd starts from, the numbers that random bits are drawn
 * by. Saved with the model and loaded again, training goes on as if it had not ended: bit for bit
 * on host memory, where the program makes the same calls on buffers anywhere. Layers
 * (ringpressSetLayers) are told anew.
 *
 * Both return an ncclResult_t: ncclInvalidUsage within ncclGroupStart(), and for a communicator of
 * NVIDIA's library that this one is preloaded before, as what is kept on a device is not saved yet.
 */

/* What became of a state that was to be loaded. */
typedef enum {
  RINGPRESS_STATE_LOADED = 0,
  RINGPRESS_STATE_MISSING = 1,       /* A rank has no such file. */
  RINGPRESS_STATE_UNREADABLE = 2,    /* The system refused it, or there was no memory for it. */
  RINGPRESS_STATE_CORRUPT = 3,       /* It is cut short, was changed, or is no state. */
  RINGPRESS_STATE_OTHER_VERSION = 4, /* Of the library. */
  RINGPRESS_STATE_OTHER_SIZE = 5,    /* It is of another number of ranks. */
  RINGPRESS_STATE_OTHER_JOB = 6,     /* It is of another rank, codec or other setting that has to be
                                      * equal on all ranks. */
  RINGPRESS_STATE_OTHER_STEP = 7     /* Ranks have states of different runs or steps. */
} ringpressStateOutcome_t;

/* Set `size` as in ringpressStatistics_t. */
typedef struct {
  size_t size;
  int outcome;      /* A ringpressStateOutcome_t, the same on all ranks. */
  int rank;         /* Whose file was the first that could not be loaded; -1: all were. */
  char reason[256]; /* Why, or empty. */
} ringpressStateLoad_t;

/* Writes this rank's state: each rank has a file of its own, and all ranks save between the same
 * two calls. It waits for no other rank. The file is there when it is whole, or the one before is:
 * ncclSystemError says why. */
int ringpressStateSave(void* comm, const char* path);

/* To be called by all ranks together, between the same two calls: best before the first all-reduce.
 * Where a rank's file cannot be loaded none is, nothing changes, training goes on without, and a
 * warning says why: that is ncclSuccess, and `load`, which may be NULL, tells. A state of the same
 * settings, but of a program that makes other calls, is dropped with a warning as soon as these
 * repeat. */
int ringpressStateLoad(void* comm, const char* path, ringpressStateLoad_t* load);

/* Gossip on model buffers, instead of all-reduces of gradients: each worker (rank of `comm`) trains
 * a model of its own and, when that has changed enough, takes the mean with the model of one other
 * worker, a random one at each step. Make one for each buffer that holds a model, or a part of one.
 */
typedef struct ringpressGossip* ringpressGossip_t;

/* When a worker asks for an exchange; two that meet exchange if one of them asks. Equal on all
 * ranks. */
typedef struct {
  size_t size;       /* sizeof(ringpressGossipConfig_t) */
  double theta;      /* Above so much change, ||x - x_ref|| / ||x_ref||, where x_ref is the worker's
                      * model as it was after its last exchange; 0: at every step. 0.03 is a start. */
  uint64_t t_min;    /* But not before so many steps after the last one: 1 or more, */
  uint64_t t_max;    /* and always after so many; 0: no limit. */
  uint64_t period;   /* Not 0: every so many steps instead, whatever has changed. */
  uint64_t seed;     /* Of who meets whom. */
  const char* codec; /* A codec specification: how far a model is from rank 0's at the start, or
                      * from what the last flush gave, is sent in it. NULL or "none": models are
                      * sent as they are. */
} ringpressGossipConfig_t;

/* What a step did. Set `size` as in ringpressStatistics_t. */
typedef struct {
  size_t size;
  double change;       /* As in theta, before the exchange. */
  int exchanged;       /* 0 or 1. */
  int peer;            /* Whom this worker met, exchange or not; -1: nobody. */
  uint64_t sent_bytes; /* By this worker. */
  int partial;         /* 1: some values were too far apart for the codec, and stay as they are. */
} ringpressGossipStep_t;

/* What a worker did since ringpressGossipInit(). `size` as above. */
typedef struct {
  size_t size;
  uint64_t steps;
  uint64_t asked; /* Steps in which this worker asked for an exchange. */
  uint64_t exchanges;
  uint64_t sent_bytes; /* In steps: headers, models. */
} ringpressGossipStatistics_t;

/* All ranks call each of the first three together, each in a thread of its own, on a communicator
 * that does nothing else meanwhile; take as many steps; and, of several on one communicator, call
 * them in the same order. `model`: `count` elements (float32, float16 or bfloat16), in host memory
 * for a communicator of the host backend, where `stream` is not used and may be NULL; on the
 * communicator's device for one of NVIDIA's library that this one is preloaded before. There it is
 * a cudaStream_t, the same at each call, and not captured: what is written to the model before, in
 * it, is seen, and what comes next in it sees what the call makes of the model. Not within
 * ncclGroupStart(). They return an ncclResult_t when it is known what happens.
 *
 * Init: `model` is the model before the first step, which may differ from rank to rank. Options
 * that differ are refused on every rank, which names the first, with both values
 * (ncclInvalidUsage). Step: after each step of training. Where one of two models that meet is not
 * finite both return ncclInvalidArgument, and ncclGetLastError() names rank, element and value;
 * nothing is exchanged. Flush: all models become their mean, added up in double precision and
 * rounded to their type, the same bytes everywhere. Destroy: the communicator goes on. A gossip
 * whose communicator has ended can only be destroyed.
 *
 * After other errors (of the system, of the device, of a stream that is captured or a group that is
 * open on one rank alone) the communicator is to be aborted, as after those of all-reduces: other
 * ranks may wait for this one. A step or a flush that fails, or was under way when the communicator
 * was aborted, has taken the mean of some of the model's elements, or of none.
 */
int ringpressGossipInit(ringpressGossip_t* gossip, const void* model, size_t count, int datatype,
                        const ringpressGossipConfig_t* config, void* comm, void* stream);
int ringpressGossipStep(ringpressGossip_t gossip, void* model, ringpressGossipStep_t* step,
                        void* stream);
int ringpressGossipFlush(ringpressGossip_t gossip, void* model, void* stream);
int ringpressGossipGetStatistics(ringpressGossip_t gossip, ringpressGossipStatistics_t* statistics);
int ringpressGossipDestroy(ringpressGossip_t gossip);

/* Text: major.minor.patch. */
const char* ringpressVersion(void);

#ifdef __cplusplus
}
#endif

#endif /* RINGPRESS_RINGPRESS_H_ */
