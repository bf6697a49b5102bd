#include "nccl_plugin/interposer/meeting/meeting.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "nccl_plugin/errors/descriptors.h"
#include "nccl_plugin/errors/warn_once.h"
#include "ring/factory.h"
#include "ringpress/internal/communicator.h"
#include "ringpress/internal/log.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

constexpr std::size_t kPlaceOffset = 56;
constexpr std::size_t kPlaceBytes = NCCL_UNIQUE_ID_BYTES - kPlaceOffset;
constexpr char kMagic[4] = {'R', 'R', 'P', 'I'};  // With which our ids begin.
constexpr std::size_t kSecretOffset = 8;
constexpr std::size_t kMostOpen = 64;    // That hold a port.
constexpr std::size_t kMostKept = 4096;  // Of a few hundred bytes each.
constexpr char kRefusalMagic[4] = {'R', 'R', 'P', 'X'};
// All ranks leave the real library's initialisation at about the same time.
constexpr std::chrono::milliseconds kMeetingPatience{10000};
// For those who come to a place that was made before somebody was missed.
constexpr std::chrono::milliseconds kPatienceAfterMiss{1000};
// The real library's initialisation, which comes before the first rank does, takes no longer.
constexpr std::chrono::minutes kInitialisation{10};
// Who made the id listens before the communicator forms, if it is a rank.
constexpr std::chrono::milliseconds kRefusalPatience{1000};

// What the real library needs of them comes first: it takes some for each communicator, and more
// for each peer.
constexpr std::size_t kSparedDescriptors = 128;

constexpr const char* kMakerSays = "the process that made its id says: ";

template <typename Byte>
bool is_zero(const Byte* begin, const Byte* end) {
  return std::all_of(begin, end, [](Byte byte) { return byte == Byte{}; });
}

}  // namespace

bool write_meeting_place(const UniqueId& place, ncclUniqueId* id) {
  if (!is_zero(place.data() + kPlaceBytes, place.data() + place.size())) return false;
  if (!is_zero(id->internal + kPlaceOffset, id->internal + NCCL_UNIQUE_ID_BYTES)) return false;
  std::memcpy(id->internal + kPlaceOffset, place.data(), kPlaceBytes);
  return true;
}

std::optional<UniqueId> read_meeting_place(const ncclUniqueId& id) {
  const char* tail = id.internal + kPlaceOffset;
  if (std::memcmp(tail, kMagic, sizeof kMagic) != 0) return std::nullopt;
  UniqueId place{};
  std::memcpy(place.data(), tail, kPlaceBytes);
  return place;
}

ncclUniqueId without_place(const ncclUniqueId& id) {
  ncclUniqueId plain = id;
  if (read_meeting_place(id) || read_refusal(id)) {
    std::memset(plain.internal + kPlaceOffset, 0, kPlaceBytes);
  }
  return plain;
}

bool write_refusal(const std::string& reason, ncclUniqueId* id) {
  char* const tail = id->internal + kPlaceOffset;
  if (!is_zero(tail, id->internal + NCCL_UNIQUE_ID_BYTES)) return false;
  std::memcpy(tail, kRefusalMagic, sizeof kRefusalMagic);
  std::memcpy(tail + sizeof kRefusalMagic, reason.data(),
              std::min(reason.size(), kPlaceBytes - sizeof kRefusalMagic));
  return true;
}

std::optional<std::string> read_refusal(const ncclUniqueId& id) {
  const char* const tail = id.internal + kPlaceOffset;
  if (std::memcmp(tail, kRefusalMagic, sizeof kRefusalMagic) != 0) return std::nullopt;
  const char* const text = tail + sizeof kRefusalMagic;
  return std::string(text, strnlen(text, kPlaceBytes - sizeof kRefusalMagic));
}

std::string why_no_place(const ncclUniqueId& id) {
  if (const auto refusal = read_refusal(id)) return kMakerSays + *refusal;
  if (std::getenv("NCCL_COMM_ID") != nullptr) {
    return "NCCL_COMM_ID is set: every rank makes the id by itself, without a place to meet";
  }
  return "its id was made without ringpress";
}

std::uint64_t number_of(const UniqueId& place) {
  std::uint64_t number = 0;
  std::memcpy(&number, place.data() + kSecretOffset, sizeof number);
  return number;
}

void Meetings::open(ncclUniqueId* id) {
  // With this, every rank makes the id by itself: they would open one place each.
  if (std::getenv("NCCL_COMM_ID") != nullptr) return;
  if (const auto why = missed()) {
    static_cast<void>(write_refusal("earlier, " + *why, id));
    return;
  }
  const Status opened = open_at(id);
  if (opened.is_ok()) return;
  static_cast<void>(write_refusal(opened.message(), id));
  warn_once("plain NCCL for the communicators of an id that is made here: " + opened.message());
}

Status Meetings::open_at(ncclUniqueId* id) {
  if (!count_descriptors().has_room_for(kSparedDescriptors)) {
    return {Code::kSystem, "fewer than " + std::to_string(kSparedDescriptors) +
                               " open files are left (ulimit -n)"};
  }
  // From here to the communicator's making may be long: until then nobody can connect.
  Result<std::unique_ptr<Rendezvous>> opened =
      ring::prepare_rendezvous(settings_.address, settings_.secret, ring::Listens::kWhenServed);
  RINGPRESS_RETURN_IF_ERROR(opened.status());
  if (!write_meeting_place(opened.value()->id(), id)) {
    return {Code::kUnsupported, "it has no room for a meeting place"};
  }
  keep(std::move(opened).value());
  return Status::ok();
}

void Meetings::keep(std::unique_ptr<Rendezvous> opened) {
  const std::lock_guard lock(mutex_);
  open_.push_back(std::move(opened));
  if (open_.size() > kMostOpen) (*std::prev(open_.end(), kMostOpen + 1))->give_back_port();
  if (open_.size() <= kMostKept) return;
  open_.pop_front();
  warn_once("plain NCCL for the first of " + std::to_string(kMostKept) +
            " ids that were made here and not used");
}

std::unique_ptr<Rendezvous> Meetings::take(Places& places, const UniqueId& place) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(places.begin(), places.end(), [&place](const auto& one) {
    return std::equal(place.begin(), place.begin() + kPlaceBytes, one->id().begin());
  });
  if (found == places.end()) return nullptr;
  std::unique_ptr<Rendezvous> taken = std::move(*found);
  places.erase(found);
  return taken;
}

std::optional<std::string> Meetings::missed() const {
  const std::lock_guard lock(mutex_);
  return missed_;
}

std::chrono::milliseconds Meetings::patience() const {
  const auto patience = missed() ? kPatienceAfterMiss : kMeetingPatience;
  return std::min(patience, settings_.timeout);
}

void Meetings::serve(const UniqueId& place) {
  std::unique_ptr<Rendezvous> rendezvous = take(open_, place);
  if (rendezvous == nullptr) return;
  const Status served = rendezvous->serve({patience(), kInitialisation});
  if (!served.is_ok()) {
    log_line(LogLevel::kWarn, "nobody can meet for a communicator: %s", served.message().c_str());
    return;
  }
  const std::lock_guard lock(mutex_);
  served_.push_back(std::move(rendezvous));
}

void Meetings::call_off(const UniqueId& place, const std::string& why) {
  const std::unique_ptr<Rendezvous> rendezvous = take(served_, place);
  if (rendezvous == nullptr) return;
  rendezvous->call_off({Code::kUnsupported, kMakerSays + why});
}

/// Remembers who did not come; gives the Status with what that may mean.
Status Meetings::note(const Status& met) {
  if (met.code() == Code::kSystem) {
    return {met.code(), met.message() +
                            " (was its id made by a process that is no rank of it? if not, "
                            "that process has said why)"};
  }
  if (met.code() != Code::kTimeout) return met;
  const std::lock_guard lock(mutex_);
  if (!missed_) missed_ = met.message();
  return {met.code(), met.message() +
                          ": it has no ringpress, or makes communicators in another order, or some "
                          "of them in one group; no rank is waited for again"};
}

Result<std::vector<int>> Meetings::meet(const UniqueId& place, int rank, int size,
                                        const Status& refusal, std::vector<std::string> facts) {
  serve(place);  // If nobody has told so before.
  facts.push_back("Ranks that did not come earlier=" + missed().value_or("none"));
  ring::MeshOptions options;
  options.id = place;
  options.rank = rank;
  options.size = size;
  options.refusal = refusal.message();
  options.agreement = agreement_lines(settings_);
  options.agreement.push_back("RINGPRESS_TOPOLOGY=" + topology_.agreed);
  options.agreement.insert(options.agreement.end(), facts.begin(), facts.end());
  options.extra_secret = settings_.secret;
  options.timeout = patience();
  options.refusal_patience = kRefusalPatience;
  Result<std::vector<int>> met = ring::meet(options);
  static_cast<void>(take(served_, place));  // It closes by itself.
  if (met.is_ok()) return met;
  return note(met.status());
}

}  // namespace ringpress::nccl_plugin::interposer
