// What starts the jobs of one slot as they were planned, with engines that exist.
#ifndef PERF_RINGPRESS_SCHEDULE_LAUNCH_FILES_H_
#define PERF_RINGPRESS_SCHEDULE_LAUNCH_FILES_H_

#include <string>

#include "ringpress/gadget.h"

namespace ringpress::perf {

// Each worker is a rank, and ranks are numbered as the ring visits them.

/// For `mpirun --rankfile FILE` of Open MPI; RINGPRESS_TOPOLOGY reads it too.
std::string mpi_rank_file(const gadget::Cluster& cluster, const gadget::Ring& ring);

/// For `SLURM_HOSTFILE=FILE srun --distribution=arbitrary`: a host for each rank.
std::string slurm_host_list(const gadget::Cluster& cluster, const gadget::Ring& ring);

/// A line for each server, to be run there with the program behind it.
std::string torchrun_lines(const gadget::Cluster& cluster, const gadget::Ring& ring);

}  // namespace ringpress::perf

#endif  // PERF_RINGPRESS_SCHEDULE_LAUNCH_FILES_H_
