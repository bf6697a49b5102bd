// What a call of one shape would take with each codec and algorithm, and which of them it gets.
#ifndef NCCL_PLUGIN_COMMAND_EXPLAIN_EXPLANATION_H_
#define NCCL_PLUGIN_COMMAND_EXPLAIN_EXPLANATION_H_

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compress_kernels/factory.h"
#include "nccl_plugin/command/explain/decided.h"
#include "nccl_plugin/command/explain/explain.h"
#include "ringpress/internal/cost_model.h"
#include "ringpress/internal/settings.h"
#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin::command {

struct Explanation {
  CallShape shape;
  Links links;
  double budget = 0;  // Error.
  std::vector<CodecSpeed> codecs;
  std::vector<CallCost> calls;  // The quickest first.
  Decided decided;

  /// Why it is not chosen, however quick; empty if it may be.
  std::string objection(const CallCost& call, const std::string& budget_name) const;
  bool is_allowed(const CallCost& call) const { return objection(call, "").empty(); }
  /// The quickest that may be: an uncompressed call, or one with the codec that is decided on,
  /// always may.
  const CallCost& choice() const;
  /// The quickest without a codec.
  const CallCost& uncompressed() const;

 private:
  std::string algorithm_for(const std::string& codec) const;
  const CodecSpeed& speed_of(const std::string& codec) const;
};

/// Measures codecs on this machine, each once, however many calls are explained.
class Explainer {
 public:
  /// `options`: with a budget. Throws terminal::Error for what cannot be.
  explicit Explainer(const ExplainOptions& options);

  /// Of a call of so many bytes. Throws terminal::Error.
  Explanation explain(std::size_t bytes);
  const Settings& settings() const { return settings_; }

 private:
  CodecSpeed speed(const std::string& codec, std::size_t bytes);

  const Settings settings_;
  const DType dtype_;
  const CallShape shape_;  // But for its size.
  const Links links_;
  const std::vector<std::string> codecs_;  // `none` is among them.
  double budget_ = 0;
  using Measured = std::pair<std::string, compress_kernels::ValuesIn>;
  std::map<Measured, CodecSpeed> measured_;
};

/// Throws terminal::Error for a type that is never compressed.
DType parse_dtype(const std::string& name);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_EXPLAIN_EXPLANATION_H_
