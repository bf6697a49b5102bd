#include "nccl_plugin/session/calls/known_cycles.h"

#include <algorithm>
#include <utility>

namespace ringpress::nccl_plugin {
namespace {

// Beside a stray, a sequence is so many times as large.
constexpr std::size_t kStrayShare = 8;

std::size_t bytes_of(const TensorCall& call) {
  return call.count * dtype_size(call.dtype);
}
std::uintptr_t first_byte(const TensorCall& call) {
  return reinterpret_cast<std::uintptr_t>(call.address);
}
std::uintptr_t end_byte(const TensorCall& call) {
  return first_byte(call) + bytes_of(call);
}

/// Each call has an address, and the memory of no two different calls overlaps.
bool have_own_buffers(const std::vector<TensorCall>& calls) {
  std::vector<const TensorCall*> sorted;
  for (const TensorCall& call : calls) sorted.push_back(&call);
  std::sort(sorted.begin(), sorted.end(), [](const TensorCall* a, const TensorCall* b) {
    return first_byte(*a) < first_byte(*b);
  });
  const auto shared = std::adjacent_find(sorted.begin(), sorted.end(),
                                         [](const TensorCall* a, const TensorCall* b) {
                                           return first_byte(*b) < end_byte(*a) && !(*a == *b);
                                         });
  return shared == sorted.end() && sorted.front()->address != nullptr;
}

bool have_memory_in_common(const TensorCall& a, const TensorCall& b) {
  return first_byte(a) < end_byte(b) && first_byte(b) < end_byte(a);
}

// The least that a state has of them.
constexpr std::size_t kSavedPlaceBytes = 16;
constexpr std::size_t kSavedCycleBytes = 25;

CycleMatch update_matches(CallCycle* cycle, std::uint64_t hash) {
  std::vector<std::size_t>& matches = cycle->matches;
  const std::size_t last = matches.back();
  for (std::size_t p = matches.size() - 1; p > 0; --p) {
    matches[p] = cycle->hashes[p] == hash ? matches[p - 1] + 1 : 0;
  }
  matches[0] = cycle->hashes[0] == hash ? last + 1 : 0;
  const auto best = std::max_element(matches.begin(), matches.end());
  return {*best, static_cast<std::size_t>(best - matches.begin())};
}

/// Positions.
std::vector<std::size_t> without_strays(std::span<const TensorCall> calls, const CallCycle& part) {
  std::vector<std::size_t> own;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!is_stray(calls[i], part)) own.push_back(i);
  }
  return own;
}

/// Where in `part` the first of these is, if they repeat it a whole number of times.
std::optional<std::size_t> first_of_repeats(std::span<const TensorCall> calls,
                                            std::span<const std::size_t> own,
                                            const CallCycle& part) {
  const std::size_t period = part.calls.size();
  if (own.empty() || own.size() % period != 0) return std::nullopt;
  for (std::size_t first = 0; first < period; ++first) {
    std::size_t i = 0;
    while (i < own.size() && calls[own[i]] == part.calls[(first + i) % period]) ++i;
    if (i == own.size()) return first;
  }
  return std::nullopt;
}

/// If the sequence `whole` is `part` but for strays, and more than once if that is not proven: its
/// tensors are that one's.
bool name_tensors(const CallCycle& part, CallCycle* whole) {
  const std::vector<std::size_t> own = without_strays(whole->calls, part);
  const std::size_t period = part.calls.size();
  if (own.size() < (part.is_proven ? 1 : 2) * period) return false;
  if (2 * own.size() <= whole->calls.size()) return false;
  const std::optional<std::size_t> first = first_of_repeats(whole->calls, own, part);
  if (!first) return false;
  for (std::size_t i = 0; i < own.size(); ++i) {
    whole->tensors[own[i]] = part.tensors[(*first + i) % period];
  }
  return true;
}

/// Whether the sequence of this number has come again and again in this one.
bool has_part(const CallCycle& whole, std::uint64_t id) {
  return std::any_of(whole.tensors.begin(), whole.tensors.end(),
                     [id](const TensorPlace& tensor) { return tensor.cycle == id; });
}

void save_cycle(const CallCycle& cycle, StateWriter& to) {
  to.put(cycle.id);
  save_calls(cycle.calls, to);
  for (const TensorPlace& tensor : cycle.tensors) {
    to.put(tensor.cycle);
    to.put<std::uint64_t>(tensor.position);
  }
  to.put_list(cycle.matches);
  to.put(cycle.is_proven);
}

CallCycle load_cycle(StateReader& from) {
  CallCycle cycle;
  cycle.id = from.get<std::uint64_t>();
  cycle.calls = load_calls(from, CallHistory::kLongestPeriod);
  from.require(!cycle.calls.empty() && cycle.calls.size() <= from.left() / kSavedPlaceBytes);
  if (!from.is_ok()) return cycle;
  for (std::size_t i = 0; i < cycle.calls.size(); ++i) {
    const auto id = from.get<std::uint64_t>();
    cycle.tensors.push_back({id, static_cast<std::size_t>(from.get<std::uint64_t>())});
  }
  cycle.matches = from.get_list<std::size_t>(CallHistory::kLongestPeriod);
  from.require(cycle.matches.empty() || cycle.matches.size() == cycle.calls.size());
  cycle.is_proven = from.get<bool>();
  cycle.hashes = hashes_of(cycle.calls);
  cycle.has_own_buffers = have_own_buffers(cycle.calls);
  return cycle;
}

}  // namespace

bool CallCycle::has_landmark() const {
  return std::any_of(calls.begin(), calls.end(),
                     [this](const TensorCall& call) { return !(call == calls.front()); });
}

bool is_stray(const TensorCall& call, const CallCycle& cycle) {
  if (!cycle.has_own_buffers || call.address == nullptr) return false;
  std::size_t bytes = 0;
  for (const TensorCall& own : cycle.calls) {
    if (have_memory_in_common(own, call)) return false;
    bytes += bytes_of(own);
  }
  return kStrayShare * bytes_of(call) <= bytes;
}

bool KnownCycles::is_certain(std::size_t position) const {
  const CallCycle& cycle = front();
  for (const CallCycle& known : all_) {
    for (std::size_t i = 0; i < known.calls.size(); ++i) {
      const bool is_another = known.hashes[i] == cycle.hashes[position] &&
                              !(known.tensors[i] == cycle.tensors[position]);
      if (is_another) return false;
    }
  }
  return true;
}

bool KnownCycles::is_front_with_strays(std::span<const TensorCall> calls) const {
  const std::vector<std::size_t> own = without_strays(calls, front());
  return own.size() == front().period() && first_of_repeats(calls, own, front()).has_value();
}

void KnownCycles::begin_matching() {
  for (CallCycle& known : all_) known.matches.assign(known.calls.size(), 0);
}

void KnownCycles::match(std::uint64_t hash) {
  matches_.clear();
  for (CallCycle& known : all_) matches_.push_back(update_matches(&known, hash));
}

std::size_t KnownCycles::explained() const {
  std::size_t most = 0;
  for (const CycleMatch& match : matches_) most = std::max(most, match.calls);
  return most;
}

std::optional<KnownCycles::Place> KnownCycles::best_explained(const CallHistory& history) const {
  for (std::size_t i = 0; i < all_.size(); ++i) {
    const std::size_t period = all_[i].calls.size();
    const std::size_t calls = matches_[i].calls;
    if (calls < std::max<std::size_t>(period, 2)) continue;
    const bool is_certain = calls >= 2 * period;
    bool is_best = true;
    for (std::size_t other = 0; other < all_.size(); ++other) {
      if (other == i) continue;
      is_best &= is_certain ? matches_[other].calls <= calls : matches_[other].calls < calls;
    }
    if (!is_best) continue;
    if (!history.ends_at(all_[i].calls, matches_[i].position)) return std::nullopt;
    return Place{i, matches_[i]};
  }
  return std::nullopt;
}

std::optional<KnownCycles::Place> KnownCycles::ending_now(const CallHistory& history,
                                                          std::size_t period) const {
  for (std::size_t i = 0; i < all_.size(); ++i) {
    if (all_[i].calls.size() != period) continue;
    for (std::size_t position = 0; position < period; ++position) {
      if (history.ends_at(all_[i].calls, position)) return Place{i, {0, position}};
    }
  }
  return std::nullopt;
}

void KnownCycles::add(std::span<const TensorCall> calls) {
  CallCycle made;
  made.id = ++last_id_;
  made.calls.assign(calls.begin(), calls.end());
  made.hashes = hashes_of(made.calls);
  made.has_own_buffers = have_own_buffers(made.calls);
  for (std::size_t i = 0; i < calls.size(); ++i) made.tensors.push_back({made.id, i});
  for (const CallCycle& part : all_) {
    if (name_tensors(part, &made)) break;
  }
  all_.push_back(std::move(made));
}

void KnownCycles::bring_to_front(std::size_t index, bool is_interrupted) {
  if (is_interrupted && !front().is_proven) {
    if (has_part(all_[index], front().id)) {
      prove_front();
    } else {
      forget(0);
      --index;
    }
  }
  const auto first = all_.begin();
  std::rotate(first, first + static_cast<std::ptrdiff_t>(index),
              first + static_cast<std::ptrdiff_t>(index) + 1);
}

void KnownCycles::forget(std::size_t index) {
  const std::uint64_t id = all_[index].id;
  forgotten_.push_back(id);
  all_.erase(all_.begin() + static_cast<std::ptrdiff_t>(index));
  for (CallCycle& known : all_) {
    for (std::size_t i = 0; i < known.tensors.size(); ++i) {
      if (known.tensors[i].cycle == id) known.tensors[i] = {known.id, i};
    }
  }
}

void KnownCycles::forget_oldest() {
  const std::size_t most = kMost + (front().is_proven ? 0 : 1);
  while (all_.size() > most) forget(all_.size() - 1);
}

void KnownCycles::save(StateWriter& to) const {
  to.put<std::uint64_t>(all_.size());
  for (const CallCycle& cycle : all_) save_cycle(cycle, to);
}

void KnownCycles::load(StateReader& from) {
  const std::size_t known = from.get_count(kSavedCycleBytes, kMost + 1);
  for (std::size_t i = 0; i < known && from.is_ok(); ++i) all_.push_back(load_cycle(from));
}

}  // namespace ringpress::nccl_plugin
