#include "ring/bootstrap/unique_id.h"

#include <cstdint>
#include <cstring>

namespace ringpress::ring::bootstrap {
namespace {

constexpr std::uint32_t kMagic = 0x49505252;  // "RRPI" in memory order
constexpr std::uint8_t kVersion = 1;

struct Layout {
  std::uint32_t magic = kMagic;
  std::uint8_t version = kVersion;
  std::uint8_t rank_zero_serves = 0;
  std::uint16_t address_bytes = 0;
  Secret secret{};
  char address[104] = {};
};
static_assert(sizeof(Layout) == sizeof(IdBytes));

}  // namespace

Result<IdBytes> pack_id(const UniqueId& id) {
  Layout layout;
  if (id.address.size() > sizeof layout.address) {
    return Status(Code::kInternal, "the address of the rendezvous is too long: " + id.address);
  }
  layout.address_bytes = static_cast<std::uint16_t>(id.address.size());
  layout.secret = id.secret;
  layout.rank_zero_serves = id.rank_zero_serves ? 1 : 0;
  std::memcpy(layout.address, id.address.data(), id.address.size());
  IdBytes bytes;
  std::memcpy(bytes.data(), &layout, sizeof layout);
  return bytes;
}

Result<UniqueId> unpack_id(const IdBytes& bytes) {
  Layout layout;
  std::memcpy(&layout, bytes.data(), sizeof layout);
  if (layout.magic != kMagic) {
    return Status(Code::kInvalidArgument, "the unique id was not made by ringpress");
  }
  if (layout.version != kVersion || layout.address_bytes > sizeof layout.address) {
    return Status(Code::kInvalidArgument, "the unique id was made by another version of ringpress");
  }
  return UniqueId{layout.secret, std::string(layout.address, layout.address_bytes),
                  layout.rank_zero_serves != 0};
}

}  // namespace ringpress::ring::bootstrap
