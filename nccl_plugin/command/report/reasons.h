// Why calls were not compressed, in plain words.
#ifndef NCCL_PLUGIN_COMMAND_REPORT_REASONS_H_
#define NCCL_PLUGIN_COMMAND_REPORT_REASONS_H_

#include <optional>
#include <string>
#include <string_view>

#include "ringpress/internal/decision.h"

namespace ringpress::nccl_plugin::command::report {

struct Explanation {
  const char* meaning;     // A sentence or two.
  const char* what_to_do;  // A sentence; empty: nothing is to be done.
};

/// kNone has none.
Explanation explanation_of(ExactReason reason);

/// The reason whose text (to_text() of decision.h) that is. No value: it may be an error's, of
/// kCannotBegin, or of another version.
std::optional<ExactReason> find_reason(std::string_view text);

/// Whatever is set, such calls are never compressed: counts, other collectives, a single rank's.
bool is_by_nature(ExactReason reason);

/// Of a text that statistics have; one that is not known is an error's.
Explanation explanation_of(std::string_view text);

}  // namespace ringpress::nccl_plugin::command::report

#endif  // NCCL_PLUGIN_COMMAND_REPORT_REASONS_H_
