// Cluster files: where jobs may run, as JSON.
//
//   {"name": "two racks", "note": "free text",            may be left out
//    "resources": ["gpus", "memory_gb"],                  1 to 4; the first is packed tightly
//    "racks":   [{"name": "r0", "gigabits_per_second": 400}, ...],      uplinks, each way
//    "servers": [{"name": "s0", "rack": "r0", "gigabits_per_second": 100,
//                 "has": {"gpus": 8, "memory_gb": 256}}, ...]}
//
// Servers are named as mpirun, Slurm and torchrun know them.
#ifndef NCCL_PLUGIN_COMMAND_SCHEDULE_CLUSTER_FILE_H_
#define NCCL_PLUGIN_COMMAND_SCHEDULE_CLUSTER_FILE_H_

#include <map>
#include <string>
#include <string_view>

#include "nccl_plugin/command/plan/json_reader.h"
#include "ringpress/internal/gadget.h"

namespace ringpress::nccl_plugin::command {

/// An error begins with the line, then names the key and what is allowed there, as "4:
/// servers[3].rack: there is no rack "r9"; maybe "r1"?".
Result<gadget::Cluster> parse_cluster(std::string_view text);

/// What has been named so far, and where it is in its list.
using NameIndex = std::map<std::string, std::size_t, std::less<>>;

/// The member "name", which goes into lists of hosts and paths of files, and must be new.
std::string read_new_name(JsonReader* reader, NameIndex* index);

inline constexpr Range kAmount = {0, 2147483648.0, true, "a whole number from 0 to 2^31"};

/// An object of whole numbers of the range, one of each resource of the cluster at most: 0 where
/// none is given.
gadget::Amounts read_amounts(JsonReader reader, const gadget::Cluster& cluster, const Range& range);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_SCHEDULE_CLUSTER_FILE_H_
