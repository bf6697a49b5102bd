// RINGPRESS_DUMP_SIGNAL: SIGUSR2 asks for a dump of what all communicators of the process do.
#ifndef NCCL_PLUGIN_SESSION_LIVE_DUMP_SIGNAL_H_
#define NCCL_PLUGIN_SESSION_LIVE_DUMP_SIGNAL_H_

#include <semaphore.h>

#include <string>

#include "ringpress/internal/communicator.h"

namespace ringpress::nccl_plugin {

/// Takes the signal, once a process, if nobody else has: else a warning says so. A program that
/// takes it later has it.
void take_dump_signal();
/// Posted by the signal: whoever waits for it looks at take_dump_request() then. Never destroyed.
void set_dump_semaphore(sem_t* awake);
/// Whether the signal has come since this was called last.
bool take_dump_request();

/// What a communicator did so far, for people.
std::string describe_totals(const Statistics& total);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_LIVE_DUMP_SIGNAL_H_
