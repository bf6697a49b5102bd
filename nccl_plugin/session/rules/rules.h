// RINGPRESS_RULES: a file of rules, in the columns of the file of NCCL's example tuner plugin and
// some more:
//
//   collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,
//   regBuff,codec,comm_match,dtype
//
// -1, * or nothing: any. A line may end after any column from algorithm on. A first line that
// begins with collective_type names the columns, in any order. Fields may be quoted ("q4:block=64,
// round=nearest"); # begins a comment. What NCCL's tuner alone could do (protocol, channels, its
// own algorithms) is checked and makes no difference here.
#ifndef NCCL_PLUGIN_SESSION_RULES_RULES_H_
#define NCCL_PLUGIN_SESSION_RULES_RULES_H_

#include <string>
#include <string_view>
#include <vector>

#include "ringpress/internal/rules.h"
#include "ringpress/internal/settings.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin {

/// The rules of a text, in order; codecs are not looked at. kInvalidArgument names line, field and
/// what is allowed there.
Result<std::vector<Rule>> parse_rules(std::string_view text);

/// Reads settings->rules, if there is such a file, once a process: a file that changes makes no
/// rank differ from itself. What is wrong with it becomes the settings' mistake, unless there is
/// one already.
void load_rules(Settings* settings);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_RULES_RULES_H_
