#include "ring/transport/tcp/link_handle.h"

#include <cstdint>
#include <cstring>

#include "ring/transport/common/socket.h"

namespace ringpress::ring::transport::tcp {
namespace {

constexpr std::uint32_t kMagic = 0x4c505252;  // "RRPL" in memory order
constexpr std::uint16_t kVersion = 1;
constexpr std::uint8_t kEncrypted = 0x80;

struct Layout {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  std::uint8_t sockets = 0;
  std::uint8_t address_bytes = 0;
  Secret secret{};
  char address[104] = {};
};
static_assert(sizeof(Layout) == sizeof(LinkHandle));

}  // namespace

Result<LinkHandle> pack_handle(const LinkEndpoint& endpoint) {
  Layout layout;
  if (endpoint.address.size() > sizeof layout.address || endpoint.sockets < 1 ||
      endpoint.sockets > kMaxLinkSockets) {
    return Status(Code::kInternal, "a link of " + std::to_string(endpoint.sockets) +
                                       " sockets to " + endpoint.address + " has no handle");
  }
  layout.sockets = static_cast<std::uint8_t>(endpoint.sockets);
  if (endpoint.is_encrypted) layout.sockets |= kEncrypted;
  layout.address_bytes = static_cast<std::uint8_t>(endpoint.address.size());
  layout.secret = endpoint.secret;
  std::memcpy(layout.address, endpoint.address.data(), endpoint.address.size());
  LinkHandle handle;
  std::memcpy(handle.data(), &layout, sizeof layout);
  return handle;
}

Result<LinkEndpoint> unpack_handle(const LinkHandle& handle) {
  Layout layout;
  std::memcpy(&layout, handle.data(), sizeof layout);
  if (layout.magic != kMagic) {
    return Status(Code::kInvalidArgument, "the handle was not made by ringpress");
  }
  if (layout.version != kVersion) {
    return Status(Code::kInvalidArgument, "the handle was made by another version of ringpress");
  }
  LinkEndpoint endpoint;
  endpoint.secret = layout.secret;
  endpoint.sockets = layout.sockets & ~kEncrypted;
  endpoint.is_encrypted = (layout.sockets & kEncrypted) != 0;
  if (endpoint.sockets < 1 || endpoint.sockets > kMaxLinkSockets ||
      layout.address_bytes > sizeof layout.address) {
    return Status(Code::kInvalidArgument, "the handle is damaged");
  }
  endpoint.address.assign(layout.address, layout.address_bytes);
  if (!parse_address(endpoint.address).is_ok()) {
    return Status(Code::kInvalidArgument, "the handle is damaged: it has no address");
  }
  return endpoint;
}

}  // namespace ringpress::ring::transport::tcp
