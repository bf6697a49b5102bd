// What starts the jobs of one slot as they were planned, with engines that exist.
#ifndef NCCL_PLUGIN_COMMAND_SCHEDULE_LAUNCH_FILES_H_
#define NCCL_PLUGIN_COMMAND_SCHEDULE_LAUNCH_FILES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "ringpress/internal/gadget.h"

namespace ringpress::nccl_plugin::command {

// Each worker is a rank, and ranks are numbered as the ring visits them.

/// For `mpirun --rankfile FILE` of Open MPI, which binds a rank to the core of its slot;
/// RINGPRESS_TOPOLOGY reads it too. `taken`: slots of each server that other jobs have.
std::string mpi_rank_file(const gadget::Cluster& cluster, const gadget::Ring& ring,
                          const std::vector<std::size_t>& taken);

/// For `SLURM_HOSTFILE=FILE srun --distribution=arbitrary`: a host for each rank.
std::string slurm_host_list(const gadget::Cluster& cluster, const gadget::Ring& ring);

/// The devices of a ring's workers: those of a server come one after another from the first that no
/// other job has.
struct RingDevices {
  std::size_t each = 0;            // Of a worker.
  std::vector<std::size_t> taken;  // Of each server, by other jobs.
};

/// A line for each server, to be run there with the program behind it. `port`: of no other job. The
/// program sees `devices` alone, if given, numbered from 0: LOCAL_RANK i has each * i and on.
std::string torchrun_lines(const gadget::Cluster& cluster, const gadget::Ring& ring, int port,
                           const RingDevices* devices);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_SCHEDULE_LAUNCH_FILES_H_
