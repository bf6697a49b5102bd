// The options of a call that are for this library: in the list of a ncclCollConfig_t, as
// ringpress.h has them.
#ifndef NCCL_PLUGIN_SESSION_CALLS_OPTION_LIST_H_
#define NCCL_PLUGIN_SESSION_CALLS_OPTION_LIST_H_

#include "ringpress/internal/call_options.h"
#include "ringpress/internal/status.h"
#include "ringpress/nccl.h"

namespace ringpress::nccl_plugin {

/// Adds to `options` what the list says. Options of other vendors are passed over. kInvalidArgument
/// names the option that is not known, comes twice or has no such value, or says that the list does
/// not end. Nothing of the list is read later.
Status read_options(const ncclConfigExt_t* first, CallOptions* options);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_OPTION_LIST_H_
