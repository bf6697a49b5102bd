// The composition root: makes a communicator of what the settings ask for.
#include "ringpress/internal/communicator.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>

#include "nccl_plugin/session/mesh_communicator.h"
#include "nccl_plugin/session/ring_topology.h"
#include "nccl_plugin/session/start_line.h"
#include "nccl_plugin/session/usable_settings.h"
#include "ring/factory.h"
#include "ringpress/internal/one_sided.h"

namespace ringpress {
namespace {

/// As MeshSession has it.
std::uint32_t make_word(const Settings& settings) {
  constexpr std::uint32_t kRecordsSteps = nccl_plugin::MeshSession::kRootRecordsSteps;
  const auto drawn = static_cast<std::uint32_t>(std::random_device()());
  return settings.trace.empty() ? drawn & ~kRecordsSteps : drawn | kRecordsSteps;
}

ring::MeshOptions mesh_options(const UniqueId& id, int rank, int size, const Settings& settings) {
  ring::MeshOptions options;
  options.id = id;
  options.rank = rank;
  options.size = size;
  options.agreement = agreement_lines(settings);
  options.extra_secret = extra_secret(settings);
  options.is_encrypted = is_encrypted(settings);
  options.timeout = settings.timeout;
  options.sockets_per_peer = settings.sockets_per_peer;
  options.congestion = settings.congestion;
  options.shared_memory = settings.shared_memory;
  options.progress_thread = settings.progress_thread;
  options.address = settings.address;
  options.host_id = settings.nccl.host_id;
  options.word = make_word(settings);
  return options;
}

bool crosses_hosts(const Mesh& mesh) {
  for (int peer = 0; peer < mesh.size(); ++peer) {
    if (!mesh.is_local(peer)) return true;
  }
  return false;
}

}  // namespace

Result<UniqueId> make_unique_id(const Settings& settings) {
  return ring::open_rendezvous(settings.address, extra_secret(settings), settings.timeout);
}

Result<UniqueId> known_unique_id(const Settings& settings) {
  const std::string& place = settings.nccl.comm_id;
  Result<UniqueId> id = ring::known_rendezvous(place);
  if (id.is_ok()) return id;
  return Status(id.status().code(), "NCCL_COMM_ID=" + place + ": " + id.status().message());
}

Result<std::unique_ptr<Rendezvous>> prepare_unique_id(const Settings& settings) {
  return ring::prepare_rendezvous(settings.address, extra_secret(settings));
}

Result<std::unique_ptr<Communicator>> Communicator::create(const UniqueId& id, int rank, int size,
                                                           const Settings& settings,
                                                           std::chrono::milliseconds join_timeout) {
  RINGPRESS_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator,
                             nccl_plugin::join_mesh(id, rank, size, settings, join_timeout));
  return communicator;
}

Result<std::unique_ptr<nccl_plugin::MeshCommunicator>> nccl_plugin::join_mesh(
    const UniqueId& id, int rank, int size, const Settings& settings,
    std::chrono::milliseconds join_timeout) {
  if (size < 1 || rank < 0 || rank >= size) {
    return Status(Code::kInvalidArgument, "rank " + std::to_string(rank) + " of " +
                                              std::to_string(size) + " ranks does not exist");
  }
  // The ranks meet first: if one has a wrong setting, the others hear of it instead of waiting.
  ring::MeshOptions options = mesh_options(id, rank, size, settings);
  options.join_timeout = join_timeout;
  const RingTopology topology = read_ring_topology(settings);
  options.agreement.push_back("RINGPRESS_TOPOLOGY=" + topology.agreed);
  RINGPRESS_ASSIGN_OR_RETURN(auto mesh, ring::make_mesh(options));
  RINGPRESS_RETURN_IF_ERROR(check_session(settings, topology));
  warn_of_shortcomings(settings, rank);
  if (settings.comm_name) say_start(settings, rank, size, crosses_hosts(*mesh));
  auto communicator = std::make_unique<MeshCommunicator>(std::move(mesh), settings);
  RINGPRESS_RETURN_IF_ERROR(communicator->arrange(topology));
  return communicator;
}

Result<std::unique_ptr<OneSided>> OneSided::create(const UniqueId& id, int rank, int size,
                                                   const Settings& settings,
                                                   const OneSidedLimits& limits) {
  return ring::make_one_sided(mesh_options(id, rank, size, settings), limits);
}

}  // namespace ringpress
