// Ranks that only want to know of each other: the bootstrap without a mesh.
#include <algorithm>
#include <exception>

#include "ring/bootstrap/host_identity.h"
#include "ring/bootstrap/join.h"
#include "ring/bootstrap/unique_id.h"
#include "ring/factory.h"
#include "ring/transport/common/hello.h"
#include "ringpress/version.h"

namespace ringpress::ring {
namespace {

/// Numbers the hosts in the order of their first rank.
std::vector<int> number_hosts(const std::vector<bootstrap::Endpoint>& endpoints) {
  std::vector<bootstrap::HostHash> known;
  std::vector<int> numbers;
  for (const bootstrap::Endpoint& endpoint : endpoints) {
    const auto found = std::find(known.begin(), known.end(), endpoint.identity.host);
    numbers.push_back(static_cast<int>(found - known.begin()));
    if (found == known.end()) known.push_back(endpoint.identity.host);
  }
  return numbers;
}

Result<std::vector<int>> meet_at(const MeshOptions& options) {
  RINGPRESS_ASSIGN_OR_RETURN(const bootstrap::UniqueId id, bootstrap::unpack_id(options.id));
  bootstrap::Join join;
  join.protocol_version = kProtocolVersion;
  join.library_version = kLibraryVersion;
  join.rank = static_cast<std::uint32_t>(options.rank);
  join.size = static_cast<std::uint32_t>(options.size);
  join.refusal = options.refusal;
  join.agreement = options.agreement;
  join.endpoint.identity = bootstrap::host_identity(options.host_id);
  const auto timeout = options.join_timeout.count() > 0 ? options.join_timeout : options.timeout;
  const auto refusal_patience =
      options.refusal_patience.count() > 0 ? std::min(options.refusal_patience, timeout) : timeout;
  RINGPRESS_ASSIGN_OR_RETURN(
      const bootstrap::Answer answer,
      bootstrap::join_ranks(id.address, transport::mix_secret(id.secret, options.extra_secret),
                            join, {timeout, refusal_patience}));
  return number_hosts(answer.endpoints);
}

}  // namespace

Result<std::vector<int>> meet(const MeshOptions& options) {
  try {
    return meet_at(options);
  } catch (const std::exception& error) {
    return Status(Code::kSystem, std::string("cannot meet the other ranks: ") + error.what());
  }
}

}  // namespace ringpress::ring
