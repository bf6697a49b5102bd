#include "nccl_plugin/session/calls/call_history.h"

#include <algorithm>
#include <utility>

#include "ringpress/internal/hash.h"

namespace ringpress::nccl_plugin {

std::uint64_t hash_of(const TensorCall& call) {
  const std::uint64_t what = static_cast<std::uint64_t>(call.kind) << 16 |
                             static_cast<std::uint64_t>(call.dtype) << 8 |
                             static_cast<std::uint64_t>(call.op);
  const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(call.address));
  return combine_hash(combine_hash(combine_hash(what, call.count), address), call.layout);
}

void save_calls(const std::vector<TensorCall>& calls, StateWriter& to) {
  to.put<std::uint64_t>(calls.size());
  for (const TensorCall& call : calls) save_call(call, to);
}

std::vector<TensorCall> load_calls(StateReader& from, std::size_t most) {
  std::vector<TensorCall> calls(from.get_count(kSavedCallBytes, most));
  for (TensorCall& call : calls) call = load_call(from);
  return calls;
}

std::vector<std::uint64_t> hashes_of(const std::vector<TensorCall>& calls) {
  std::vector<std::uint64_t> hashes;
  hashes.reserve(calls.size());
  for (const TensorCall& call : calls) hashes.push_back(hash_of(call));
  return hashes;
}

void CallHistory::note(const TensorCall& call, std::size_t refuted) {
  calls_.push_back(call);
  hashes_.push_back(hash_of(call));
  trim();
  if (std::exchange(counts_anew_, false)) {
    count_repeats_anew(refuted);
  } else {
    update_repeats();
  }
}

void CallHistory::append(std::span<const TensorCall> calls, std::span<const std::uint64_t> hashes,
                         std::size_t at, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    calls_.push_back(calls[at]);
    hashes_.push_back(hashes[at]);
    at = at + 1 == calls.size() ? 0 : at + 1;
  }
  counts_anew_ = true;
  trim();
}

void CallHistory::trim() {
  if (calls_.size() <= 2 * kKept) return;
  calls_.erase(calls_.begin(), calls_.end() - static_cast<std::ptrdiff_t>(kKept));
  hashes_.erase(hashes_.begin(), hashes_.end() - static_cast<std::ptrdiff_t>(kKept));
}

void CallHistory::update_repeats() {
  const std::size_t size = hashes_.size();
  repeats_.resize(std::min(kLongestPeriod, size - 1), 0);
  const std::uint64_t newest = hashes_.back();
  const std::uint64_t* const before = hashes_.data() + size - 1;
  std::size_t most = 0;
  for (std::size_t p = 1; p <= repeats_.size(); ++p) {
    std::size_t& repeats = repeats_[p - 1];
    repeats = newest == *(before - p) ? repeats + 1 : 0;
    most = std::max(most, repeats);
  }
  most_repeats_ = most;
}

/// As far as that can be of any consequence.
void CallHistory::count_repeats_anew(std::size_t refuted) {
  const std::size_t size = hashes_.size();
  repeats_.assign(std::min(kLongestPeriod, size - 1), 0);
  most_repeats_ = 0;
  for (std::size_t p = 1; p <= repeats_.size(); ++p) {
    const std::size_t most = std::min(std::max(p, refuted), size - p);
    std::size_t& repeats = repeats_[p - 1];
    while (repeats < most && hashes_[size - 1 - repeats] == hashes_[size - 1 - repeats - p]) {
      ++repeats;
    }
    most_repeats_ = std::max(most_repeats_, repeats);
  }
}

std::size_t CallHistory::shortest_period(std::size_t longest, std::size_t explained) const {
  if (most_repeats_ == 0) return 0;
  longest = std::min(longest, repeats_.size());
  for (std::size_t p = 1; p <= longest; ++p) {
    if (repeats(p) >= p && repeats(p) + p > explained) return p;
  }
  return 0;
}

bool CallHistory::has_period(std::size_t period, std::size_t count) const {
  count = std::min(count, kKept - period);
  if (period + count > calls_.size()) return false;
  const std::span<const TensorCall> after = last(count);
  return std::equal(after.begin(), after.end(), after.data() - period);
}

bool CallHistory::ends_at(std::span<const TensorCall> sequence, std::size_t position) const {
  const std::size_t period = sequence.size();
  if (calls_.size() < period) return false;
  const TensorCall* call = calls_.data() + calls_.size();
  for (std::size_t i = 0; i < period; ++i) {
    if (!(*--call == sequence[(position + period - i) % period])) return false;
  }
  return true;
}

void CallHistory::save(StateWriter& to) const {
  save_calls(calls_, to);
  to.put_list(repeats_);
  to.put(counts_anew_);
}

void CallHistory::load(StateReader& from) {
  calls_ = load_calls(from, 2 * kKept);
  hashes_ = hashes_of(calls_);
  repeats_ = from.get_list<std::size_t>(kLongestPeriod);
  most_repeats_ = repeats_.empty() ? 0 : *std::max_element(repeats_.begin(), repeats_.end());
  counts_anew_ = from.get<bool>();
  for (std::size_t p = 1; p <= repeats_.size(); ++p) {
    from.require(2 * p <= calls_.size() ||
                 (p <= calls_.size() && repeats_[p - 1] <= calls_.size() - p));
  }
}

}  // namespace ringpress::nccl_plugin
