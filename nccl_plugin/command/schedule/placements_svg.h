// The picture of a schedule: what runs on each server in each slot.
#ifndef NCCL_PLUGIN_COMMAND_SCHEDULE_PLACEMENTS_SVG_H_
#define NCCL_PLUGIN_COMMAND_SCHEDULE_PLACEMENTS_SVG_H_

#include <string>
#include <vector>

#include "ringpress/internal/gadget.h"

namespace ringpress::nccl_plugin::command {

/// An SVG file: a row for each server, rack by rack, and time to the right. A job's box is as high
/// as its part of the server's first resource, and names job and slots when pointed at.
std::string draw_placements(const gadget::Cluster& cluster, const std::vector<gadget::Job>& jobs,
                            const gadget::Schedule& schedule);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_SCHEDULE_PLACEMENTS_SVG_H_
