#include "nccl_plugin/command/schedule/launch_files.h"

#include <fmt/core.h>

namespace ringpress::nccl_plugin::command {
namespace {

/// The setting that shows a program the devices of its workers on a server and no other ones.
std::string visible_devices(const gadget::Share& share, const RingDevices& devices) {
  std::string text = "CUDA_VISIBLE_DEVICES=";
  for (std::size_t i = 0; i < share.workers * devices.each; ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ",", devices.taken[share.server] + i);
  }
  return text + " ";
}

}  // namespace

std::string mpi_rank_file(const gadget::Cluster& cluster, const gadget::Ring& ring,
                          const std::vector<std::size_t>& taken) {
  std::string text;
  std::size_t rank = 0;
  for (const gadget::Share& share : ring.shares) {
    for (std::size_t slot = 0; slot < share.workers; ++slot) {
      text += fmt::format("rank {}={} slot={}\n", rank++, cluster.servers[share.server].name,
                          taken[share.server] + slot);
    }
  }
  return text;
}

std::string slurm_host_list(const gadget::Cluster& cluster, const gadget::Ring& ring) {
  std::string text;
  for (const gadget::Share& share : ring.shares) {
    for (std::size_t i = 0; i < share.workers; ++i) {
      text += cluster.servers[share.server].name + "\n";
    }
  }
  return text;
}

/// Underscores: PyTorch before 2.0 knows no hyphens there.
std::string torchrun_lines(const gadget::Cluster& cluster, const gadget::Ring& ring, int port,
                           const RingDevices* devices) {
  std::string text;
  const std::string& first = cluster.servers[ring.shares[0].server].name;
  for (std::size_t node = 0; node < ring.shares.size(); ++node) {
    const gadget::Share& share = ring.shares[node];
    text += fmt::format(
        "# on {}\n{}torchrun --nnodes={} --node_rank={} --nproc_per_node={} --master_addr={} "
        "--master_port={} \"$@\"\n",
        cluster.servers[share.server].name,
        devices == nullptr ? "" : visible_devices(share, *devices), ring.shares.size(), node,
        share.workers, first, port);
  }
  return text;
}

}  // namespace ringpress::nccl_plugin::command
