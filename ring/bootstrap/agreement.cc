#include "ring/bootstrap/agreement.h"

#include <optional>

#include "ringpress/internal/wire.h"

namespace ringpress::ring::bootstrap {
namespace {

constexpr std::size_t kMaxListed = 16;  // Missing ranks that are named one by one.

struct Side {
  std::uint32_t rank = 0;
  std::string value;
};

/// "WHAT: rank 0 has A, rank 2 has B", the lower rank first.
Status differs(const std::string& what, const Side& one, const Side& other) {
  const Side& low = one.rank < other.rank ? one : other;
  const Side& high = one.rank < other.rank ? other : one;
  return Status(Code::kMismatch, what + ": rank " + std::to_string(low.rank) + " has " + low.value +
                                     ", rank " + std::to_string(high.rank) + " has " + high.value);
}

Status compare_numbers(const std::string& what, const Join& one, const Join& other,
                       std::uint32_t Join::*member) {
  if (one.*member == other.*member) return Status::ok();
  return differs(what, {one.rank, std::to_string(one.*member)},
                 {other.rank, std::to_string(other.*member)});
}

std::map<std::string, std::string> settings_of(const Join& join) {
  std::map<std::string, std::string> settings;
  for (const std::string& line : join.agreement) {
    const std::size_t equals = std::min(line.find('='), line.size());
    settings[line.substr(0, equals)] = equals < line.size() ? line.substr(equals + 1) : "";
  }
  return settings;
}

Status compare_settings(const Join& one, const Join& other) {
  const auto ours = settings_of(one);
  const auto theirs = settings_of(other);
  auto all = ours;
  all.insert(theirs.begin(), theirs.end());
  for (const auto& entry : all) {
    const auto value_in = [&](const std::map<std::string, std::string>& settings) {
      const auto found = settings.find(entry.first);
      return found == settings.end() ? std::optional<std::string>() : found->second;
    };
    const std::optional<std::string> a = value_in(ours);
    const std::optional<std::string> b = value_in(theirs);
    if (a == b) continue;
    return differs(entry.first, {one.rank, a.value_or("no such setting")},
                   {other.rank, b.value_or("no such setting")});
  }
  return Status::ok();
}

}  // namespace

Status compare_join(const std::map<std::uint32_t, Join>& joined, const Join& join) {
  if (join.size == 0 || join.size > kMaxRanks || join.rank >= join.size) {
    return Status(Code::kInvalidArgument, "rank " + std::to_string(join.rank) +
                                              " does not exist in a communicator of " +
                                              std::to_string(join.size) + " ranks");
  }
  if (join.protocol_version != kProtocolVersion) {
    return Status(Code::kMismatch, "protocol version: rank " + std::to_string(join.rank) + " has " +
                                       std::to_string(join.protocol_version) +
                                       ", the rank where all meet has " +
                                       std::to_string(kProtocolVersion));
  }
  if (!join.refusal.empty()) {
    return Status(Code::kRefused, "rank " + std::to_string(join.rank) + ": " + join.refusal);
  }
  if (joined.empty()) return Status::ok();
  const Join& first = joined.begin()->second;
  RINGPRESS_RETURN_IF_ERROR(
      compare_numbers("library version", first, join, &Join::library_version));
  RINGPRESS_RETURN_IF_ERROR(compare_numbers("number of ranks", first, join, &Join::size));
  if (joined.count(join.rank) != 0) {
    return Status(Code::kMismatch,
                  "two processes both claim to be rank " + std::to_string(join.rank));
  }
  return compare_settings(first, join);
}

Status missing_ranks(const std::map<std::uint32_t, Join>& joined, std::uint32_t size,
                     long long waited_ms, std::size_t refused) {
  std::string list;
  std::size_t missing = 0;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    if (joined.count(rank) != 0) continue;
    if (++missing <= kMaxListed) list += (missing > 1 ? ", " : "") + std::to_string(rank);
  }
  if (missing > kMaxListed) list += ", ...";
  std::string text = (missing == 1 ? "rank " : "ranks ") + list + " of " + std::to_string(size) +
                     " never came (waited " + std::to_string(waited_ms) + " ms)";
  if (refused > 0) {
    text += "; connections refused: " + std::to_string(refused) +
            " (is RINGPRESS_SECRET the same on all ranks?)";
  }
  return Status(Code::kTimeout, text);
}

}  // namespace ringpress::ring::bootstrap
