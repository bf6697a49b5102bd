// What this process's settings and rules decide of a call, whatever would be quicker.
#ifndef NCCL_PLUGIN_COMMAND_EXPLAIN_DECIDED_H_
#define NCCL_PLUGIN_COMMAND_EXPLAIN_DECIDED_H_

#include <string>
#include <vector>

#include "ringpress/internal/cost_model.h"
#include "ringpress/internal/settings.h"
#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin::command {

struct Decided {
  std::string left_exact;    // Why; empty: it is not.
  std::string codec;         // Empty: automatic mode chooses.
  std::string codec_by;      // Which setting has decided on it, or a rule.
  std::string algorithm;     // Empty: the quickest.
  std::string algorithm_by;  // RINGPRESS_ALGO; empty: it is not by that.
};

/// False on host memory, where `hier` is sra: if RINGPRESS_BACKEND=host says so.
bool has_hier(const Settings& settings);

/// Those of this process, with which the library would make a communicator. Throws terminal::Error
/// where it would not.
Settings good_settings();

/// Of a call that has recurred. Codecs are named as they are written in `codecs`, if they are
/// there.
Decided decide(const Settings& settings, const CallShape& shape, DType dtype,
               const std::vector<std::string>& codecs);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_EXPLAIN_DECIDED_H_
