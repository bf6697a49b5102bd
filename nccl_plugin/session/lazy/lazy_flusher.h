// ringpressLazyFlush() of communicators that are not the host library's: those of door A.
#ifndef NCCL_PLUGIN_SESSION_LAZY_LAZY_FLUSHER_H_
#define NCCL_PLUGIN_SESSION_LAZY_LAZY_FLUSHER_H_

#include <functional>

#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin {

/// Flushes a communicator, which the caller says is one.
using LazyFlusher = std::function<Status(void* comm)>;

/// Of this process, by what knows such communicators. Any thread.
void set_lazy_flusher(LazyFlusher flusher);
/// Empty if there is none.
LazyFlusher lazy_flusher();

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_LAZY_LAZY_FLUSHER_H_
