// What a call of one shape would take with each codec and algorithm, and which of them it gets.
#ifndef NCCL_PLUGIN_COMMAND_EXPLAIN_EXPLANATION_H_
#define NCCL_PLUGIN_COMMAND_EXPLAIN_EXPLANATION_H_

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compress_kernels/factory.h"
#include "nccl_plugin/command/explain/decided.h"
#include "nccl_plugin/command/explain/explain.h"
#include "ringpress/internal/cost_model.h"
#include "ringpress/internal/settings.h"
#include "ringpress/internal/tuning.h"
#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin::command {

struct Explanation {
  CallShape shape;
  Links links;
  std::vector<CodecSpeed> codecs;
  std::vector<CallCost> calls;  // The quickest first.
  Decided decided;
  // Of automatic mode: why it never takes a codec; and, on host memory, what it tries.
  std::map<std::string, std::string> objections;
  std::set<std::pair<std::string, Algorithm>> tried;
  // Exact calls are NCCL's, by what it likes: on GPUs.
  bool is_exact_of_nccl = false;

  /// Why it is not chosen, however quick; empty if it may be.
  std::string objection(const CallCost& call) const;
  bool is_allowed(const CallCost& call) const { return objection(call).empty(); }
  /// The quickest that may be: an uncompressed call, or one with the codec that is decided on,
  /// always may.
  const CallCost& choice() const;
  /// The quickest without a codec.
  const CallCost& uncompressed() const;

 private:
  std::string algorithm_for(const std::string& codec) const;
};

/// Measures codecs on this machine, each once, however many calls are explained.
class Explainer {
 public:
  /// `settings`: with `options.budget`, if that is given. Throws terminal::Error for what cannot
  /// be.
  Explainer(const ExplainOptions& options, const Settings& settings);

  /// Of a call of so many bytes. Throws terminal::Error.
  Explanation explain(std::size_t bytes);

 private:
  CodecSpeed speed(const std::string& codec, std::size_t bytes);
  std::string objection_to(const CodecSpeed& codec, std::size_t bytes);
  void ask_automatic_mode(Explanation* explanation);
  void note_scales(const CallShape& shape, const Calibration& calibration,
                   const std::vector<Candidate>& candidates, Explanation* explanation);

  const Settings settings_;
  const DType dtype_;
  const CallShape shape_;  // But for its size.
  const Links links_;
  const std::vector<std::string> codecs_;  // `none` is among them.
  const std::string budget_;               // As it is written among them, if it is.
  std::map<std::string, double> excess_;   // Of a codec's error, over the budget's.
  using Measured = std::pair<std::string, compress_kernels::ValuesIn>;
  std::map<Measured, CodecSpeed> measured_;
};

/// Throws terminal::Error for a type that is never compressed.
DType parse_dtype(const std::string& name);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_EXPLAIN_EXPLANATION_H_
