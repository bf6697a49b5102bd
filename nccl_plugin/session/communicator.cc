// The composition root: makes a communicator of what the settings ask for.
#include "ringpress/communicator.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "compress_kernels/factory.h"
#include "nccl_plugin/session/calls/budget.h"
#include "nccl_plugin/session/mesh_communicator.h"
#include "nccl_plugin/session/ring_topology.h"
#include "nccl_plugin/session/rules/rule_codecs.h"
#include "nccl_plugin/session/statistics_file.h"
#include "ring/factory.h"

namespace ringpress {
namespace {

ring::ProgressThread progress_thread_of(const Settings& settings) {
  if (settings.progress_thread == "on") return ring::ProgressThread::kOn;
  if (settings.progress_thread == "off") return ring::ProgressThread::kOff;
  return ring::ProgressThread::kAuto;
}

ring::MeshOptions mesh_options(const UniqueId& id, int rank, int size, const Settings& settings) {
  ring::MeshOptions options;
  options.id = id;
  options.rank = rank;
  options.size = size;
  options.agreement = agreement_lines(settings);
  options.extra_secret = settings.secret;
  options.timeout = std::chrono::milliseconds(settings.timeout_ms);
  options.sockets_per_peer = settings.sockets_per_peer;
  options.congestion = settings.congestion;
  options.shared_memory = settings.shared_memory;
  options.progress_thread = progress_thread_of(settings);
  options.address = settings.address;
  options.host_id = settings.nccl.host_id;
  return options;
}

}  // namespace

Result<UniqueId> make_unique_id(const Settings& settings) {
  return ring::open_rendezvous(settings.address, settings.secret,
                               std::chrono::milliseconds(settings.timeout_ms));
}

Result<UniqueId> unique_id_at(const std::string& address) {
  return ring::known_rendezvous(address);
}

Result<std::unique_ptr<Rendezvous>> prepare_unique_id(const Settings& settings) {
  return ring::prepare_rendezvous(settings.address, settings.secret);
}

Result<std::unique_ptr<Communicator>> Communicator::create(const UniqueId& id, int rank, int size,
                                                           const Settings& settings,
                                                           std::chrono::milliseconds join_timeout) {
  if (size < 1 || rank < 0 || rank >= size) {
    return Status(Code::kInvalidArgument, "rank " + std::to_string(rank) + " of " +
                                              std::to_string(size) + " ranks does not exist");
  }
  // The ranks meet first: if one has a wrong setting, the others hear of it instead of waiting.
  ring::MeshOptions options = mesh_options(id, rank, size, settings);
  options.join_timeout = join_timeout;
  const nccl_plugin::RingTopology topology = nccl_plugin::read_ring_topology(settings);
  options.agreement.push_back("RINGPRESS_TOPOLOGY=" + topology.agreed);
  RINGPRESS_ASSIGN_OR_RETURN(auto mesh, ring::make_mesh(options));
  RINGPRESS_RETURN_IF_ERROR(check_settings(settings));
  RINGPRESS_RETURN_IF_ERROR(nccl_plugin::check_budget(settings));
  RINGPRESS_RETURN_IF_ERROR(nccl_plugin::check_rules(settings));
  if (settings.backend == "cuda") {
    return Status(Code::kUnsupported,
                  "RINGPRESS_BACKEND=cuda: a communicator of this library works on host memory; GPUs "
                  "are served before a real NCCL, by the preloaded library and the plugin");
  }
  nccl_plugin::check_statistics_file(settings);
  if (settings.codec != "auto") {
    RINGPRESS_RETURN_IF_ERROR(compress_kernels::normalize_specification(settings.codec).status());
  }
  RINGPRESS_RETURN_IF_ERROR(topology.problem);
  auto communicator = std::make_unique<nccl_plugin::MeshCommunicator>(std::move(mesh), settings);
  RINGPRESS_RETURN_IF_ERROR(communicator->arrange_ring(topology));
  const auto asks_for_nodes = [](const Rule& rule) { return rule.nodes >= 0; };
  if (std::any_of(settings.rule_list.begin(), settings.rule_list.end(), asks_for_nodes)) {
    RINGPRESS_RETURN_IF_ERROR(communicator->count_hosts());
  }
  return std::unique_ptr<Communicator>(std::move(communicator));
}

}  // namespace ringpress
