// What this process's settings and rules decide of a call, whatever would be quicker.
#ifndef NCCL_PLUGIN_COMMAND_EXPLAIN_DECIDED_H_
#define NCCL_PLUGIN_COMMAND_EXPLAIN_DECIDED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ringpress/internal/cost_model.h"
#include "ringpress/internal/decision.h"
#include "ringpress/internal/settings.h"
#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin::command {

/// A WhyExact that outlives the planner and the codecs, whose names it has a copy of.
class KeptReason {
 public:
  KeptReason() = default;
  explicit KeptReason(const WhyExact& why)
      : reason_(why.reason), number_(why.number), codec_(why.codec) {}

  bool is_exact() const { return reason_ != ExactReason::kNone; }
  /// Lives as long as this.
  WhyExact why() const { return {reason_, number_, codec_}; }

 private:
  ExactReason reason_ = ExactReason::kNone;
  std::uint32_t number_ = 0;
  std::string codec_;
};

struct Decided {
  bool is_by_rule = false;         // A rule names its codec.
  KeptReason left_exact;           // Or it is compressed.
  std::string codec;               // Empty: automatic mode chooses.
  std::string codec_by;            // Which setting has decided on it, or a rule.
  std::string algorithm;           // Of compressed calls; empty: the quickest.
  std::string algorithm_by;        // RINGPRESS_ALGO or a rule; empty: it is not by those.
  std::vector<std::string> notes;  // What else settings make of such calls.
};

/// On host memory, if RINGPRESS_BACKEND=host says so; else calls are before NCCL on GPUs.
inline bool is_on_host(const Settings& settings) {
  return settings.backend == Backend::kHost;
}

/// Those of this process, but for RINGPRESS_BUDGET where `budget` is not empty, with which the
/// library would make a communicator that has no name. Throws terminal::Error where it would not.
Settings good_settings(const std::string& budget);

/// A codec as calls name it here: as it is written among them, or `specification` itself.
std::string name_among(const std::vector<std::string>& names, const std::string& specification);

/// Of a call that has recurred. Codecs are named as they are written in `codecs`, if they are
/// there.
Decided decide(const Settings& given, const CallShape& shape, DType dtype,
               const std::vector<std::string>& codecs);

/// Why the call is left exact, with what the user would change. For people; empty: it is not.
std::string describe_exact(const KeptReason& left_exact, const Settings& settings);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_EXPLAIN_DECIDED_H_
