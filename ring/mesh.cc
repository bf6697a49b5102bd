// Assembles a mesh: transports that listen, then the bootstrap, then the mesh over what it found.
#include <sched.h>
#include <sys/socket.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <exception>
#include <set>

#include "ring/bootstrap/host_identity.h"
#include "ring/bootstrap/join.h"
#include "ring/bootstrap/known_address.h"
#include "ring/bootstrap/rendezvous.h"
#include "ring/bootstrap/unique_id.h"
#include "ring/factory.h"
#include "ring/mesh_impl.h"
#include "ring/mesh_parts.h"
#include "ring/transport/common/hello.h"
#include "ring/transport/common/socket.h"
#include "ring/transports.h"
#include "ringpress/internal/log.h"
#include "ringpress/version.h"

namespace ringpress::ring {
namespace {

using bootstrap::Endpoint;
using bootstrap::Join;

constexpr int kMaxSockets = 16;
// For a rendezvous at a known address to answer: it listens only while it serves. Longer than rank
// 0 waits for the port (known_address.cc), so that the cause is told first.
constexpr std::chrono::milliseconds kSilence{15000};

Status check_options(const MeshOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    return Status(Code::kInvalidArgument, "rank " + std::to_string(options.rank) +
                                              " does not exist in a communicator of " +
                                              std::to_string(options.size) + " ranks");
  }
  if (options.sockets_per_peer < 1 || options.sockets_per_peer > kMaxSockets) {
    return Status(Code::kInvalidArgument, "sockets per peer must be 1 to " +
                                              std::to_string(kMaxSockets) + ", not " +
                                              std::to_string(options.sockets_per_peer));
  }
  return Status::ok();
}

int available_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

/// Every rank has the same lines when the bootstrap has succeeded.
std::uint64_t configuration_hash(const std::vector<std::string>& agreement) {
  std::string text;
  for (const std::string& line : agreement) text += line + '\n';
  return XXH3_64bits(text.data(), text.size());
}

/// As Mesh::ranks_per_host() has it.
int count_ranks_per_host(const std::vector<Endpoint>& endpoints) {
  const auto host = [&endpoints](std::size_t rank) { return endpoints[rank].identity.host; };
  std::set<bootstrap::HostHash> hosts;
  for (const Endpoint& endpoint : endpoints) hosts.insert(endpoint.identity.host);
  const std::size_t local = endpoints.size() / hosts.size();
  if (endpoints.size() % hosts.size() != 0) return 0;
  for (std::size_t rank = 0; rank < endpoints.size(); ++rank) {
    if (host(rank) != host(rank / local * local)) return 0;
  }
  return static_cast<int>(local);
}

std::string& address_of(Endpoint& endpoint, TransportKind kind) {
  return endpoint.addresses[static_cast<std::size_t>(kind)];
}
const std::string& address_of(const Endpoint& endpoint, TransportKind kind) {
  return endpoint.addresses[static_cast<std::size_t>(kind)];
}

bool is_within_host(TransportKind kind) {
  const std::span<const TransportEntry> all = transports();
  return std::any_of(all.begin(), all.end(), [kind](const TransportEntry& entry) {
    return entry.kind == kind && entry.is_within_host;
  });
}

void add_peers(const MeshOptions& options, const std::vector<Endpoint>& endpoints,
               MeshParts& parts) {
  const Endpoint& own = endpoints[static_cast<std::size_t>(options.rank)];
  int ranks_here = 0;
  for (const Endpoint& endpoint : endpoints) {
    PeerEndpoint peer;
    peer.local = endpoint.identity.host == own.identity.host;
    for (const std::unique_ptr<Transport>& transport : parts.transports) {
      const bool joins = peer.local || !is_within_host(transport->kind());
      peer.addresses.push_back(joins ? address_of(endpoint, transport->kind()) : std::string());
    }
    parts.endpoints.push_back(std::move(peer));
    if (endpoint.identity.machine == own.identity.machine) ++ranks_here;
  }
  parts.ranks_per_host = count_ranks_per_host(endpoints);
  const int cores = available_cores();
  parts.cores_to_spare = cores >= ranks_here;
  switch (options.progress_thread) {
    case ProgressThread::kOff:
      parts.progress_thread = false;
      break;
    case ProgressThread::kOn:
      parts.progress_thread = true;
      break;
    case ProgressThread::kAuto:
      parts.progress_thread = cores >= 2 * ranks_here;
      break;
  }
}

/// Where this host does not have an optional one, another carries everything.
Status open_transport(const TransportEntry& entry, const MeshOptions& options,
                      const Identity& identity, const std::string& host, MeshParts& parts,
                      Endpoint& endpoint) {
  const auto open = [&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport,
                               entry.make(*parts.reactor, options, host));
    RINGPRESS_ASSIGN_OR_RETURN(address_of(endpoint, entry.kind), transport->listen(identity));
    parts.transports.push_back(std::move(transport));
    return Status::ok();
  };
  const Status status = open();
  if (status.is_ok() || !entry.is_optional) return status;
  log_line(LogLevel::kInfo, "rank %d does not use %s: %s", parts.rank, transport_name(entry.kind),
           status.message().c_str());
  return Status::ok();
}

/// Where the endpoint was known before, rank 0 opens it now.
Result<bootstrap::Answer> meet_at(const bootstrap::UniqueId& id, const Secret& secret,
                                  const Join& join, const MeshOptions& options) {
  bootstrap::JoinPatience patience;
  patience.answer = options.join_timeout.count() > 0 ? options.join_timeout : options.timeout;
  if (id.rank_zero_serves) {
    if (options.rank == 0) {
      RINGPRESS_RETURN_IF_ERROR(
          bootstrap::serve_known_address(id, options.extra_secret, patience.answer));
    }
    // Who has another secret is told so soon, unless nobody can: that of survivors is their own.
    const bool is_known = bootstrap::is_known_address(id);
    if (is_known) patience.hello = kSilence;
    patience.closing = is_known ? patience.refusal : patience.answer;
    patience.refusal = patience.answer;
    patience.refusal_again = patience.answer;
  }
  return bootstrap::join_ranks(id.address, secret, join, patience);
}

/// The last line that ranks compare.
constexpr const char* kHasAddress = "Listening address=one";

/// Where this rank is to listen. If it is nowhere, the others are told, for whom it would not come.
Result<std::string> own_address(const bootstrap::UniqueId& id, const MeshOptions& options,
                                Join join) {
  Result<std::string> host = options.address.is_open()
                                 ? bootstrap::route_address(id.address)
                                 : bootstrap::interface_address(options.address);
  if (host.is_ok()) return host;
  join.agreement.push_back("Listening address=none: " + host.status().message());
  const Status told =
      meet_at(id, transport::mix_secret(id.secret, options.extra_secret), join, options).status();
  log_line(LogLevel::kInfo, "the other ranks heard: %s", told.message().c_str());
  return host;
}

}  // namespace

Result<MeshParts> meet_and_listen(const MeshOptions& options) {
  RINGPRESS_RETURN_IF_ERROR(check_options(options));
  RINGPRESS_ASSIGN_OR_RETURN(const bootstrap::UniqueId id, bootstrap::unpack_id(options.id));
  if (options.is_encrypted && bootstrap::is_known_address(id) && options.extra_secret.empty()) {
    return Status(Code::kInvalidArgument,
                  "encryption is asked for, but nothing here is secret: where ranks meet at "
                  "NCCL_COMM_ID, set RINGPRESS_SECRET");
  }
  Join join;
  join.protocol_version = kProtocolVersion;
  join.library_version = kLibraryVersion;
  join.rank = static_cast<std::uint32_t>(options.rank);
  join.size = static_cast<std::uint32_t>(options.size);
  join.word = options.word;
  join.agreement = options.agreement;
  join.agreement.push_back(std::string("encryption=") + (options.is_encrypted ? "on" : "off"));
  join.agreement.push_back("sockets per peer=" + std::to_string(options.sockets_per_peer));
  join.endpoint.identity = bootstrap::host_identity(options.host_id);

  Identity identity;
  identity.rank = join.rank;
  identity.world = join.size;
  identity.secret = transport::mix_secret(id.secret, options.extra_secret);
  identity.is_encrypted = options.is_encrypted;
  identity.configuration_hash = configuration_hash(join.agreement);

  MeshParts parts;
  parts.rank = options.rank;
  parts.secret = identity.secret;
  parts.timeout = options.timeout;
  parts.reactor = std::make_unique<transport::Reactor>();
  RINGPRESS_RETURN_IF_ERROR(parts.reactor->ready());
  RINGPRESS_ASSIGN_OR_RETURN(const std::string host, own_address(id, options, join));
  join.agreement.push_back(kHasAddress);
  for (const TransportEntry& entry : transports()) {
    if (!entry.is_wanted(options)) continue;
    RINGPRESS_RETURN_IF_ERROR(open_transport(entry, options, identity, host, parts, join.endpoint));
  }
  log_line(LogLevel::kInfo, "rank %d of %d listens at %s", options.rank, options.size,
           address_of(join.endpoint, parts.transports.back()->kind()).c_str());
  RINGPRESS_ASSIGN_OR_RETURN(const bootstrap::Answer answer,
                             meet_at(id, identity.secret, join, options));
  add_peers(options, answer.endpoints, parts);
  parts.root_word = answer.word;
  return parts;
}

Result<std::unique_ptr<Rendezvous>> prepare_rendezvous(const AddressChoice& address,
                                                       const std::string& extra_secret,
                                                       Listens listens) {
  try {
    return bootstrap::prepare_rendezvous(address, extra_secret, listens);
  } catch (const std::exception& error) {
    return Status(Code::kSystem, std::string("cannot open the rendezvous: ") + error.what());
  }
}

Status check_congestion(const std::string& name) {
  if (name.empty()) return Status::ok();
  const transport::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return transport::system_error("socket");
  return transport::try_congestion_control(socket.get(), name);
}

Result<UniqueId> known_rendezvous(const std::string& address) {
  RINGPRESS_ASSIGN_OR_RETURN(const bootstrap::UniqueId id, bootstrap::known_address(address));
  return bootstrap::pack_id(id);
}

Result<UniqueId> open_rendezvous(const AddressChoice& address, const std::string& extra_secret,
                                 std::chrono::milliseconds timeout) {
  RINGPRESS_ASSIGN_OR_RETURN(auto rendezvous, prepare_rendezvous(address, extra_secret));
  RINGPRESS_RETURN_IF_ERROR(rendezvous->serve({timeout, timeout}));
  return rendezvous->id();
}

Result<std::unique_ptr<Mesh>> make_mesh(const MeshOptions& options) {
  try {
    RINGPRESS_ASSIGN_OR_RETURN(MeshParts parts, meet_and_listen(options));
    return std::unique_ptr<Mesh>(std::make_unique<MeshImpl>(std::move(parts)));
  } catch (const std::exception& error) {
    return Status(Code::kSystem, std::string("cannot make the mesh: ") + error.what());
  }
}

}  // namespace ringpress::ring
