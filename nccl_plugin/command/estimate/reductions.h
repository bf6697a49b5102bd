// What an all-reduce takes at each door, by the tuner's cost model, and how far measurements were
// from that.
#ifndef NCCL_PLUGIN_COMMAND_ESTIMATE_REDUCTIONS_H_
#define NCCL_PLUGIN_COMMAND_ESTIMATE_REDUCTIONS_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "nccl_plugin/command/advice.h"
#include "nccl_plugin/command/estimate/gpus.h"
#include "nccl_plugin/command/explain/processors.h"
#include "ringpress/internal/cost_model.h"

namespace ringpress::nccl_plugin::command {

/// Who reduces, over what.
struct Machines {
  int ranks = 0;
  int per_host = 1;          // Divides `ranks`.
  double cores = 1;          // Of a host.
  const Gpu* gpu = nullptr;  // Null: none, and ranks work on host memory.
  Links links;
  DType dtype = DType::kFloat32;

  int hosts() const { return ranks / per_host; }
};

struct Reduction {
  Algorithm algorithm = Algorithm::kSra;
  double seconds = 0;
  double codec_seconds = 0;  // Of that, or beside the wire.
  double leaving_bytes = 0;  // Of a host, over its link.
  Factors range;             // Measured over predicted.
};

/// Where a codec's rates come from.
enum class Rates { kMeasuredThere, kPredicted, kMeasuredHere };

/// Codecs are measured here, each once.
class Reducer {
 public:
  explicit Reducer(const Machines& machines) : machines_(machines) {}

  /// Without a codec: NCCL's own on GPUs, the quickest of all algorithms.
  Reduction uncompressed(std::size_t bytes);
  /// Nothing: the door has no kernels of the codec whose speed is known. Throws terminal::Error for
  /// a codec that is none.
  std::optional<Reduction> compressed(Door door, const std::string& codec, std::size_t bytes);

  Rates rates(Door door) const;
  /// Of a codec of this door, for people and tests; of one that it has.
  CodecSpeed speed(Door door, const std::string& codec);

 private:
  const CodecSpeed& measured(const std::string& codec);
  Reduction by_kernels(const CodecSpeed& codec, std::size_t bytes);
  Reduction by_plugin(const CodecSpeed& codec, std::size_t bytes);
  Reduction on_host(const CodecSpeed& codec, std::size_t bytes);
  double leaving(const CodecSpeed& codec, Algorithm algorithm, std::size_t bytes) const;

  const Machines machines_;
  std::map<std::string, CodecSpeed> measured_;
};

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_ESTIMATE_REDUCTIONS_H_
