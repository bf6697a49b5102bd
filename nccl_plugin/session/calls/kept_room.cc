#include "nccl_plugin/session/calls/kept_room.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "nccl_plugin/errors/warn_once.h"
#include "nccl_plugin/session/calls/named_codec.h"

namespace ringpress::nccl_plugin {
namespace {

// An entry that is not used so often when its place has come gives way.
constexpr std::size_t kMostPasses = 2;
// So many calls of others lie between two of a tensor with a name, at most, while only one is
// known.
constexpr std::uint64_t kLongestGap = 65536;
// With names that go without: a program that makes up new ones has ever more.
constexpr std::size_t kMostWithout = 4096;

}  // namespace

void KeptRoom::follow(CallsBy by, const CallPattern& pattern, std::size_t position,
                      std::uint64_t calls) {
  if (!order_.follow(by, pattern, position, calls)) return;
  without_.clear();
  ++changes_;
}

void KeptRoom::note_use(KeptTensor* entry) {
  if (entry->used != 0) entry->gap = std::max<std::uint64_t>(1, named_calls_ - entry->used);
  entry->used = named_calls_;
}

void KeptRoom::note_pass(KeptTensor* entry) {
  if (++entry->passes == kMostPasses + 1) ++changes_;
}

void KeptRoom::take(const KeptPlace& place, std::size_t bytes) {
  held_ += bytes;
  ++changes_;
  without_.erase(place);
}

void KeptRoom::give_back(std::size_t bytes) {
  held_ -= bytes;
  ++changes_;
}

bool KeptRoom::has(std::size_t bytes) const {
  return limit_bytes_ == 0 || (bytes <= limit_bytes_ && held_ <= limit_bytes_ - bytes);
}

bool KeptRoom::gives_way(const KeptTensor& entry) const {
  if (entry.place.is_named()) {
    const std::uint64_t gap = entry.gap == 0 ? kLongestGap : entry.gap;
    return named_calls_ - entry.used > (kMostPasses + 1) * gap;
  }
  return entry.passes > kMostPasses || !is_followed(entry.place);
}

/// Both are of the sequence that is repeated.
bool KeptRoom::comes_before(const KeptPlace& place, const KeptTensor& entry) const {
  const std::optional<std::size_t> first = order_.of(place);
  const std::optional<std::size_t> second = order_.of(entry.place);
  return first && second && *first < *second;
}

/// (Where nothing has changed since the place went without, as in most steps, that is not counted
/// again.)
bool KeptRoom::can_have(std::size_t bytes, const KeptPlace& place, const KeptEntries& entries,
                        const KeptTensor* spared) const {
  if (has(bytes)) return true;
  if (bytes > limit_bytes_) return false;
  const auto known = without_.find(place);
  const bool is_known = known != without_.end() && known->second.times > 0 && !place.is_named();
  if (is_known && known->second.bytes == bytes && known->second.changes == changes_) return false;
  std::size_t staying = 0;
  for (const KeptTensor& entry : entries) {
    const bool goes = &entry != spared && (gives_way(entry) || comes_before(place, entry));
    if (!goes) staying += entry.bytes();
  }
  return staying <= limit_bytes_ - bytes;
}

KeptEntries::iterator KeptRoom::oldest_to_go(KeptEntries* entries, const KeptTensor* spared) const {
  for (auto entry = entries->end(); entry != entries->begin();) {
    --entry;
    if (&*entry != spared && gives_way(*entry)) return entry;
  }
  return entries->end();
}

KeptEntries::iterator KeptRoom::next_to_go(const KeptPlace& place, KeptEntries* entries,
                                           const KeptTensor* spared) {
  const auto oldest = oldest_to_go(entries, spared);
  if (oldest != entries->end()) return oldest;
  auto last = entries->end();  // Of the sequence.
  for (auto entry = entries->begin(); entry != entries->end(); ++entry) {
    if (&*entry == spared || !comes_before(place, *entry)) continue;
    if (last == entries->end() || comes_before(last->place, *entry)) last = entry;
  }
  without_[last->place] = {last->bytes(), 0, changes_};
  return last;
}

void KeptRoom::go_without(std::size_t bytes, const KeptPlace& place, std::string_view codec,
                          const KeptEntries& entries) {
  if (!is_followed(place)) return;
  if (place.is_named() && without_.size() >= kMostWithout) return;
  Without& without = without_[place];
  without = {bytes, without.times + 1, changes_};
  if (without.times > 1 && !std::exchange(warned_, true)) warn(codec, entries);
}

void KeptRoom::warn(std::string_view codec, const KeptEntries& entries) {
  std::size_t needed = 0;
  std::size_t tensors = without_.size();
  for (const auto& [place, without] : without_) needed += without.bytes;
  for (const KeptTensor& entry : entries) {
    if (!is_followed(entry.place)) continue;
    needed += entry.bytes();
    ++tensors;
  }
  const std::string lost = lost_without_feedback(std::string(codec));
  warn_once("RINGPRESS_EF_MAX_BYTES leaves " + std::to_string(limit_bytes_) +
            " bytes for error feedback, and the tensors of a step need " + std::to_string(needed) +
            ": " + std::to_string(without_.size()) + " of " + std::to_string(tensors) +
            " go without" + (lost.empty() ? "" : "; " + lost));
}

}  // namespace ringpress::nccl_plugin
