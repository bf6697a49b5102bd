// A communicator without NCCL's C types: what the doors, the tests and other frameworks call.
//
// A call returns when the result is in the caller's memory (host memory has no streams).
// Threads: one call at a time per communicator; abort(), failure() and the const queries may be
// used from any thread at any time.
#ifndef RINGPRESS_INTERNAL_COMMUNICATOR_H_
#define RINGPRESS_INTERNAL_COMMUNICATOR_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ringpress/internal/call_phases.h"
#include "ringpress/internal/projection.h"
#include "ringpress/internal/rendezvous.h"
#include "ringpress/internal/report_time.h"
#include "ringpress/internal/settings.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress {

/// Opens the bootstrap socket in this process and returns its id. The socket serves one
/// communicator; it closes when that has formed or the timeout has passed.
Result<UniqueId> make_unique_id(const Settings& settings);

/// The same in two steps, for callers that learn later which rank's socket will serve.
Result<std::unique_ptr<Rendezvous>> prepare_unique_id(const Settings& settings);

/// The id of a communicator whose rank 0 opens its bootstrap socket, when it makes the
/// communicator, at an address that all ranks know before: that of NCCL_COMM_ID, "192.0.2.7:4711",
/// "[fd00::7]:4711" or "host:4711". It has no secret but RINGPRESS_SECRET. kInvalidArgument for
/// what is no such address. May ask a name server.
Result<UniqueId> known_unique_id(const Settings& settings);

/// A reduction with the scale that ncclRedOpCreatePreMulSum puts on the inputs.
struct Reduction {
  ReduceOp op = ReduceOp::kSum;
  double input_scale = 1;       // May differ from rank to rank.
  bool pre_multiplied = false;  // Inputs are scaled, whatever the scale: equal on all ranks.
};

/// One half of a point-to-point exchange.
struct Transfer {
  bool is_send = false;
  void* data = nullptr;  // Only read when is_send.
  std::size_t count = 0;
  DType dtype = DType::kFloat32;
  int peer = 0;  // May be this rank itself, if a send and a receive of it are both there.
};

/// A tensor whose sum is taken in pieces, one call each: all ranks' pieces are the same.
struct PiecewiseTensor {
  /// What is known of it; equal on all ranks. It decides how a piece may be compressed.
  enum class Known {
    kNothing,  // Where it ends neither, so `count` is 0: it stays exact, for what lies behind its
               // end must not share a scale with it.
    kPadded,   // Nothing, but behind its end are zeros: compressed as with kExtent, if the piece,
               // of `whole_count` elements, is worth it.
    kExtent,   // Which tensor of an earlier step it is, is not certain: it is compressed without
               // bias and without error feedback, or not at all.
    kTensor,   // A call like any other.
  };
  Known known = Known::kNothing;
  std::size_t count = 0;        // Elements of all its pieces.
  std::size_t whole_count = 0;  // Elements of the tensor, where others have pieces of it too: it
                                // decides whether they are worth compressing. 0: `count`.
  std::uint64_t layout = 0;     // Names how it is cut: cut anew, its elements are at other places.
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;   // Sum or average.
  const void* address = nullptr;  // Of the tensor; only compared.
};

/// Which all-reduces something is known of.
struct HintedCall {
  std::size_t count = 0;
  DType dtype = DType::kFloat32;
  const void* send = nullptr;  // Of the send buffer; null: any.

  auto operator<=>(const HintedCall&) const = default;
};

/// How far sums of one shape of all-reduces were from exact ones, by samples: relative, in the l2
/// norm, of one call each.
struct MeasuredError {
  std::size_t count = 0;  // Elements.
  DType dtype = DType::kFloat32;
  std::uint64_t looks = 0;
  double last = 0;
  double mean = 0;  // The root of the mean square.
  double worst = 0;
  int more_bits = 0;  // That such calls have now, for what was measured.
};

/// Of the calls that had one codec.
struct CodecCalls {
  std::uint64_t calls = 0;
  std::uint64_t raw_bytes = 0;   // As in Statistics.
  std::uint64_t wire_bytes = 0;  // What this rank sent during these calls.
};

/// What a communicator did, since it was made.
struct Statistics {
  std::uint64_t calls = 0;
  std::uint64_t compressed_calls = 0;   // Lossily or not: what was sent were not the elements.
  std::uint64_t raw_bytes = 0;          // What this rank's sends would have been uncompressed.
  std::uint64_t wire_bytes = 0;         // What this rank sent, headers included.
  std::uint64_t calibration_bytes = 0;  // Of wire_bytes: automatic mode's, to measure the links.
  std::uint64_t residual_bytes = 0;     // Memory held for error feedback.
  std::string last_codec;               // Specification used by the last call.
  std::string last_algorithm;
  std::string last_reason;  // Why the last call was not compressed, or empty.
  std::map<std::string, std::uint64_t> exact_calls;  // Calls that were not compressed, by reason.
  std::uint64_t unbiased_calls = 0;   // Compressed without error feedback as a tensor was not
                                      // known for certain; of compressed_calls.
  std::uint64_t scaled_calls = 0;     // With coordinate scales; of compressed_calls.
  std::vector<MeasuredError> errors;  // Of compressed all-reduces.
  std::uint64_t nanoseconds = 0;      // Spent in collective calls.
  // Preloaded: the longest that a thread which made a call waited for what ranks decide together.
  std::uint64_t longest_wait_nanoseconds = 0;
  std::uint64_t observed_calls = 0;      // RINGPRESS=observe: calls that would be compressed.
  std::uint64_t observed_raw_bytes = 0;  // Their part of raw_bytes.
  // RINGPRESS_LAZY: what this rank had put off and never sent when the communicator was finalized
  // or destroyed. 0 until then.
  std::uint64_t unsent_tensors = 0;
  std::uint64_t unsent_elements = 0;  // Of these tensors.
  double unsent_norm = 0;             // l2, of all that was added up in them.
  // Where calls are followed while they run (RINGPRESS_LIVE and the like); else empty.
  std::map<std::string, CodecCalls> by_codec;  // By specification, none for exact ones.
  std::optional<PhaseTimes> phases;            // On host memory.
  // l2, of all residuals, as samples say that were taken not long ago.
  std::optional<double> residual_norm;
};

/// Memory that a communicator holds, in bytes.
struct MemoryUse {
  std::uint64_t spare = 0;  // Of earlier calls, kept for later ones.
  std::uint64_t kept = 0;   // What later calls are to know: residuals and the like.
};

/// What became of a state that was to be loaded; the same on all ranks. The numbers are those of
/// ringpressStateOutcome_t.
enum class StateOutcome : std::uint8_t {
  kLoaded = 0,
  kMissing = 1,       // A rank has no such file.
  kUnreadable = 2,    // The system refused it to a rank, or had no memory for it.
  kCorrupt = 3,       // It is cut short, was changed, or is no state.
  kOtherVersion = 4,  // It is of another version of the library.
  kOtherSize = 5,     // It is of another number of ranks.
  kOtherJob = 6,      // It is of another rank, codec or other settings that ranks compare.
  kOtherStep = 7,     // Ranks have states of different runs or steps.
};
inline constexpr int kStateOutcomeCount = 8;

struct StateLoad {
  StateOutcome outcome = StateOutcome::kLoaded;
  int rank = -1;       // Whose file it was, the first of them; -1: it was loaded.
  std::string reason;  // What is wrong with it, or empty.
};

/// All-reduces of a tensor whose pieces come one after the other.
class PiecewiseAllReduce {
 public:
  virtual ~PiecewiseAllReduce() = default;

  /// The next pieces are of this tensor. Each is a call of its own for the other ranks, and is
  /// compressed whatever its own size if the tensor is eligible.
  virtual Status start(const PiecewiseTensor& tensor) = 0;
  /// All-reduces the elements [first, first + count) of the tensor. Pieces of one tensor do not
  /// overlap and, unless nothing is known of it, stay within its count.
  virtual Status run(const void* send, void* receive, std::size_t first, std::size_t count) = 0;
};

/// What a communicator keeps from call to call: residuals, the sequence of calls and their numbers,
/// and memory.
class CommunicatorState {
 public:
  virtual ~CommunicatorState() = default;

  /// Writes it. To be called between the same two calls on all ranks, each with a file of its own.
  /// Not collective. kSystem: it cannot be written, and what was there before is as it was.
  virtual Status save(const std::string& path) const = 0;
  /// The communicator goes on as the one whose state was saved would have gone on: all ranks, or
  /// none if one of them has no state for that, which is no error. Then nothing has changed.
  /// Collective.
  virtual Result<StateLoad> load(const std::string& path) = 0;
  /// Before the first call, on all ranks: goes on with what `parent`, of which these are some
  /// ranks, keeps of tensors and has tuned. Null: this rank has none, so nobody goes on. Where
  /// calls of the parent have ended on some ranks only, residuals are all that is taken. `parent`
  /// is making no call, and stays as it is. Collective.
  virtual Status inherit(const CommunicatorState* parent) = 0;
  /// The counterpart of inherit() on a rank that `parent` did not have: residuals are all that the
  /// others take then. Collective.
  virtual Status begin_among_heirs() = 0;

  /// Between calls: frees spare memory. The next calls make it anew.
  virtual void give_back_memory() = 0;
  virtual MemoryUse memory_use() const = 0;
};

class Communicator {
 public:
  /// Joins the communicator that `id` names. Every rank of it must call; returns when all have, or
  /// with an error on every rank (within the timeout) that names what differed or who is missing.
  /// `join_timeout`: for this call alone; 0: that of the settings.
  static Result<std::unique_ptr<Communicator>> create(
      const UniqueId& id, int rank, int size, const Settings& settings,
      std::chrono::milliseconds join_timeout = std::chrono::milliseconds(0));
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// From now on a call fails that makes no progress for so long; at first that is what the
  /// settings say. Any thread.
  virtual void set_timeout(std::chrono::milliseconds timeout) = 0;

  virtual Status all_reduce(const void* send, void* receive, std::size_t count, DType dtype,
                            Reduction reduction) = 0;
  virtual PiecewiseAllReduce& pieces() = 0;
  virtual Status reduce_scatter(const void* send, void* receive, std::size_t receive_count,
                                DType dtype, Reduction reduction) = 0;
  virtual Status all_gather(const void* send, void* receive, std::size_t send_count,
                            DType dtype) = 0;
  virtual Status broadcast(const void* send, void* receive, std::size_t count, DType dtype,
                           int root) = 0;
  virtual Status reduce(const void* send, void* receive, std::size_t count, DType dtype,
                        Reduction reduction, int root) = 0;
  /// All transfers of one group, in the order of the caller; they progress together.
  virtual Status exchange(std::span<const Transfer> transfers) = 0;

  /// Tells of what layers the tensors of later calls consist: in any order, none overlapping
  /// another. No layers: forgets what was known. Not collective, but of use only once all ranks
  /// know the same of a call; until then, and in calls that no codec makes use of it, nothing
  /// changes.
  virtual Status set_layers(const HintedCall& call, std::span<const Layer> layers) = 0;

  /// RINGPRESS_LAZY: what has been put off is sent with the next call of each tensor. Not
  /// collective: one rank is enough. Else it changes nothing.
  virtual Status flush_lazy() = 0;

  /// Null: this door keeps none yet.
  virtual CommunicatorState* state() { return nullptr; }

  /// The id of a communicator of those ranks that outlive this one, once it has failed or was
  /// aborted, numbered in this order: they come whatever has become of the others. Equal on ranks
  /// that have asked equally often and name the same ranks. Any thread.
  virtual Result<UniqueId> survivors_id(std::span<const int> survivors) {
    static_cast<void>(survivors);
    return Status(Code::kUnsupported, "this communicator has no connections to be made anew");
  }

  /// Ends the use of this communicator: later calls are kInvalidUsage. Connections close, with a
  /// goodbye to the peers, when the object is destroyed.
  virtual Status finalize() = 0;
  /// Ends a call that is under way in another thread, here and on every connected rank, which all
  /// fail with it.
  enum class End { kAborted, kRevoked };
  virtual void abort(End end) = 0;
  virtual Status failure() const = 0;
  /// failure(), after looking at what the other ranks have said meanwhile: where nothing is under
  /// way nobody else looks. Not collective; never blocks.
  virtual Status check() = 0;
  Statistics statistics() const { return *statistics_at(ReportTime::kEnd); }
  /// At the exit nothing, where that takes a lock that somebody keeps, as the thread that exits may
  /// in a handler of a signal.
  virtual std::optional<Statistics> statistics_at(ReportTime time) const = 0;
};

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_COMMUNICATOR_H_
