#include "ring/transport/tcp/link_handle.h"

#include <cstdint>
#include <cstring>

#include "ring/transport/common/socket.h"

namespace ringpress::ring::transport::tcp {
namespace {

constexpr std::uint32_t kMagic = 0x4c505252;  // "RRPL" in memory order
constexpr std::uint16_t kVersion = 1;

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

Result<LinkHandle> pack_handle(const LinkPlace& place) {
  Layout layout;
  if (place.address.size() > sizeof layout.address || place.sockets < 1 ||
      place.sockets > kMaxLinkSockets) {
    return Status(Code::kInternal, "a link of " + std::to_string(place.sockets) + " sockets to " +
                                       place.address + " has no handle");
  }
  layout.sockets = static_cast<std::uint8_t>(place.sockets);
  layout.address_bytes = static_cast<std::uint8_t>(place.address.size());
  layout.secret = place.secret;
  std::memcpy(layout.address, place.address.data(), place.address.size());
  LinkHandle handle;
  std::memcpy(handle.data(), &layout, sizeof layout);
  return handle;
}

Result<LinkPlace> unpack_handle(const LinkHandle& handle) {
  Layout layout;
  std::memcpy(&layout, handle.data(), sizeof layout);
  if (layout.magic != kMagic) {
    return Status(Code::kInvalidArgument, "the handle was not made by ringpress");
  }
  if (layout.version != kVersion) {
    return Status(Code::kInvalidArgument, "the handle was made by another version of ringpress");
  }
  LinkPlace place;
  place.secret = layout.secret;
  place.sockets = layout.sockets;
  if (place.sockets < 1 || place.sockets > kMaxLinkSockets ||
      layout.address_bytes > sizeof layout.address) {
    return Status(Code::kInvalidArgument, "the handle is damaged");
  }
  place.address.assign(layout.address, layout.address_bytes);
  if (!parse_address(place.address).is_ok()) {
    return Status(Code::kInvalidArgument, "the handle is damaged: it has no address");
  }
  return place;
}

}  // namespace ringpress::ring::transport::tcp
