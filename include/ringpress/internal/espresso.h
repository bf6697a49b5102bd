// What to compress in a training step, where, and by which collectives: the choice for every tensor
// that makes the whole step shortest. Wang, Lin, Zhu and Ng, "Hi-Speed DNN Training with Espresso",
// EuroSys 2023; tuner/espresso/README.md says what is done differently.
//
// Pure functions of plain values: nothing here measures, sends, reads a clock or draws a random
// number, and equal arguments give equal results. All times are in seconds.
#ifndef RINGPRESS_INTERNAL_ESPRESSO_H_
#define RINGPRESS_INTERNAL_ESPRESSO_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ringpress/internal/cost_model.h"
#include "ringpress/internal/status.h"

namespace ringpress::espresso {

// ---- The job.

struct Link {
  double latency_seconds = 0;   // Of one message.
  double bytes_per_second = 0;  // `between`: of the network card of a whole machine.
};

struct Cluster {
  std::size_t machines = 1;
  std::size_t gpus_per_machine = 1;
  Link inside;   // From GPU to GPU of one machine.
  Link between;  // From machine to machine.
};

/// Takes start_seconds + seconds_per_byte * (bytes of values, uncompressed).
struct CodecCost {
  double start_seconds = 0;
  double seconds_per_byte = 0;
};

struct DeviceCosts {
  CodecCost compress;
  CodecCost decompress;
};

struct Compressor {
  std::string name;
  double ratio = 1;  // Compressed bytes over uncompressed ones.
  DeviceCosts gpu;
  std::optional<DeviceCosts> cpu;  // None: never on the CPU. The part of it that one GPU may have.
};

/// What an all-reduce takes as a whole, in seconds.
struct CallPrice {
  double exact = 0;
  double compressed = 0;

  auto operator<=>(const CallPrice&) const = default;
};

struct Tensor {
  std::string name;
  std::size_t bytes = 0;
  double backward_seconds = 0;  // Of its own layer; the gradient is there when it has passed.
  std::optional<CallPrice> call = {};  // For call_options(); none: as Job::calls say of its size.
  /// For call_options(): after backward_seconds the program waits until the call of the tensor
  /// before has ended, then computes for so long, and only then is the gradient there. None: it
  /// does not wait. Not looked at of the first tensor.
  std::optional<double> after_seconds = {};
};

/// What an all-reduce of one size takes as a whole.
struct CallSeconds {
  std::size_t bytes = 0;
  double exact = 0;
  double compressed = 0;
};

struct Job {
  std::string name;
  Cluster cluster;
  Compressor compressor;
  double forward_seconds = 0;      // Before the first tensor's backward.
  std::vector<Tensor> tensors;     // In the order in which backward makes them.
  std::vector<CallSeconds> calls;  // For call_options(): one of each size of a tensor that has no
                                   // price of its own.
  std::string note;                // What whoever made it says of it.
};

/// Ok, or which value cannot be: counts of 0, negative or infinite times, a ratio outside (0, 1].
Status check(const Job& job);

// ---- What may be done with a tensor.

enum class Device : std::uint8_t { kGpu = 0, kCpu = 1 };

enum class Operation : std::uint8_t {
  kCompress,
  kDecompress,     // All copies received, which are added.
  kRecode,         // Every encoding and hop of the first half of a compressed ring.
  kAllReduce,      // Whole, in one: a ring.
  kTree,           // The same, up and down a tree that reaches into each machine once.
  kReduceScatter,  // The first half, each rank keeps a part ...
  kAllToAll,       // ... and so, of compressed values.
  kAllGather,      // The second half of both; also in one: every rank gets whole tensors, and adds.
  kSendToAll,      // As kAllGather, from each rank straight to each other: no ring.
  kReduce,         // The first half, one rank has all ...
  kGather,         // ... and so, of compressed values.
  kBroadcast,      // The second half of both.
  kCall,           // All of an all-reduce, its codec's work too: as Tensor::call or Job::calls say.
};

/// Work of a codec, not a collective.
bool is_codec(Operation operation);

/// Among which ranks: all; those of one machine; those of equal place on all machines.
enum class Phase : std::uint8_t { kFlat, kInside, kBetween };

struct Step {
  Operation operation = Operation::kAllReduce;
  Phase phase = Phase::kFlat;
  bool compressed = false;       // What a collective carries.
  bool second = false;           // The second half of a collective that has two.
  Device device = Device::kGpu;  // Of a codec's work.
};

/// A way to all-reduce one tensor.
struct Option {
  std::string name;
  std::vector<Step> steps;

  bool compresses() const;
};

/// All paths of the paper's decision tree: 174 where codecs run on GPUs alone, 4341 where each
/// codec step may run on the CPU too.
std::vector<Option> tree_options(bool with_cpu);

/// What the paper's tree lacks, though all of it compresses to it if the codec costs nothing and
/// its ratio is 1: every rank, or every machine, sends the others all that it has, without a codec.
std::vector<Option> exchange_options();

/// What this library runs, codecs on GPUs: `sra`, `ring` and, where several machines have several
/// GPUs each, `hier`, compressed; and what may be done instead without a codec. Between `none`, in
/// a ring, and `none, in a tree` NCCL chooses by itself. `none, hier` is for several machines of
/// several GPUs too: a reduce-scatter and an all-gather inside machines, a ring or a tree between
/// them, as NCCL's NVLSTree and frameworks that shard inside a machine have it. This library leaves
/// it to them: its own exact calls are NCCL's.
std::vector<Option> engine_options(const Cluster& cluster);

/// What it runs on host memory: `none` and `compressed`. A thread of its own makes a call, moves
/// its bytes and does its codec's work, chunk by chunk; backward goes on meanwhile, and the next
/// call waits. For jobs that say what calls take: Tensor::call, or Job::calls.
std::vector<Option> call_options();

/// What scatter-reduce-allgather takes with `exact` and with `codec`, whose ratio, costs and name
/// become those of the job: fills Job::calls for the tensors and the cluster that are there, each
/// rank behind a link of its own, `between`, and drops what tensors had of their own. By
/// predict_call(), in as many chunks as the engine cuts a tensor of float32 into. Tensors of less
/// than `minimum_bytes` are never compressed. Errors are those of predict_call().
Status price_calls(const CodecSpeed& exact, const CodecSpeed& codec, std::size_t minimum_bytes,
                   Job* job);

// ---- The timeline of a step.

/// Codecs on the GPU stop backward, which goes on after them; the CPU and the wire are resources of
/// their own. Each resource does one thing at a time, first come, first served.
enum class Resource : std::uint8_t { kWire = 0, kGpu = 1, kCpu = 2, kCompute = 3 };
inline constexpr int kLaneCount = 4;

struct Box {
  Resource resource = Resource::kCompute;
  std::size_t tensor = 0;
  std::size_t step = 0;  // Of the tensor's option; on kCompute 0.
  double begin_seconds = 0;
  double end_seconds = 0;
};

struct Timeline {
  double seconds = 0;      // From the begin of forward to the end of the last box.
  std::vector<Box> boxes;  // Of each resource in order of time; on kCompute without forward.
};

// ---- The plan.

/// What one tensor does: an option by its index, and where all its codecs run.
struct Choice {
  std::size_t option = 0;
  Device device = Device::kGpu;

  bool operator==(const Choice&) const = default;
};

struct Plan {
  std::vector<Choice> choices;  // One a tensor.
  double seconds = 0;           // Of the step, predicted.
};

enum class Search : std::uint8_t {
  kPaper,     // One sweep over the tensors, on GPUs; then some codecs are moved to the CPU.
  kRepeated,  // Sweeps until nothing changes, from the paper's result and from other strategies.
};

// In all that follows, `options` are some with codecs on GPUs (a choice moves them to the CPU, if
// the job has a price for that), at least one of which does not compress. Else, or if check(job)
// fails, std::logic_error is thrown.

/// The best plan that was found. What kRepeated compresses gains by that: the step would be longer
/// if it were not; by 0.1 % at least where compression itself takes no less of any resource, and
/// only makes way for other tensors.
Plan plan(const Job& job, const std::vector<Option>& options, Search search = Search::kRepeated);

/// Nothing is compressed: of the options that do not, every tensor takes the one with the least
/// time on the wire.
Plan plan_nothing(const Job& job, const std::vector<Option>& options);

/// Everything is compressed, on the GPU: every tensor takes the option that takes least alone.
Plan plan_everything(const Job& job, const std::vector<Option>& options);

/// What the step would take if codecs took no time: no plan of these options takes less.
double free_compression_seconds(const Job& job, const std::vector<Option>& options);

/// What becomes of a step if its tensors take these choices, one each.
Timeline predict(const Job& job, const std::vector<Option>& options,
                 const std::vector<Choice>& choices);

}  // namespace ringpress::espresso

#endif  // RINGPRESS_INTERNAL_ESPRESSO_H_
