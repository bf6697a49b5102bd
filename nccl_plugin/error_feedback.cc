#include "nccl_plugin/error_feedback.h"

#include <algorithm>
#include <cstdlib>

#include "ringpress/log.h"

namespace ringpress::nccl_plugin {
namespace {

// Longest sequence looked for: a step of more calls than this goes without error feedback.
constexpr std::size_t kLongestPeriod = 4096;

/// Floats before the residual, which then is as well aligned as what comes before it.
std::size_t residual_offset(const ToKeep& wanted) {
  constexpr std::size_t kAligned = 64;
  return (wanted.memory_count + kAligned - 1) / kAligned * kAligned;
}

/// Floats of ResidualMemory.
std::size_t memory_to_keep(const TensorCall& call, const ToKeep& wanted) {
  return residual_offset(wanted) + (wanted.residual ? call.count : 0);
}

std::size_t bytes_to_keep(const TensorCall& call, const ToKeep& wanted) {
  return (memory_to_keep(call, wanted) + wanted.state_count) * sizeof(float);
}

}  // namespace

std::optional<std::size_t> CallPattern::observe(const TensorCall& call) {
  if (!cycle_.empty()) {
    if (call == cycle_[cursor_]) {
      const std::size_t position = cursor_;
      cursor_ = (cursor_ + 1) % cycle_.size();
      ++run_;
      return position;
    }
    give_up();
  }
  history_.push_back(call);
  if (history_.size() > 4 * kLongestPeriod) {
    history_.erase(history_.begin(), history_.end() - static_cast<std::ptrdiff_t>(kLongestPeriod));
  }
  if (!try_to_lock()) return std::nullopt;
  return cycle_.size() - 1;  // The call just seen is the last of the sequence.
}

// A period P is believed when the last calls, at least 2 P of them and more than `evidence_`,
// repeat with it. A step such as A A B suggests the period 1 at its beginning each time; but such a
// wrong run is never longer than the one before it, so after the first surprise it is not believed
// again.
bool CallPattern::try_to_lock() {
  const std::size_t size = history_.size();
  repeats_.resize(std::min(kLongestPeriod, size - 1), 0);
  std::size_t period = 0;
  for (std::size_t p = repeats_.size(); p >= 1; --p) {
    std::size_t& repeats = repeats_[p - 1];
    repeats = history_[size - 1] == history_[size - 1 - p] ? repeats + 1 : 0;
    if (repeats >= p && repeats + p > evidence_) period = p;
  }
  if (period == 0) return false;
  cycle_.assign(history_.end() - static_cast<std::ptrdiff_t>(period), history_.end());
  cursor_ = 0;
  run_ = repeats_[period - 1] + period;
  return true;
}

// A run that is longer than two of the longest periods cannot have been a part of another sequence:
// it was right, and now the program does something else.
void CallPattern::give_up() {
  ++breaks_;
  evidence_ = run_ > 2 * kLongestPeriod ? 0 : std::max(evidence_, run_);
  history_.assign(cycle_.begin(), cycle_.end());
  std::rotate(history_.begin(), history_.begin() + static_cast<std::ptrdiff_t>(cursor_),
              history_.end());
  repeats_.clear();
  cycle_.clear();
}

bool CallPattern::has_landmark() const {
  return std::any_of(cycle_.begin(), cycle_.end(),
                     [this](const TensorCall& call) { return !(call == cycle_.front()); });
}

ResidualMemory& host_residual_memory() {
  class Host final : public ResidualMemory {
   public:
    float* allocate(std::size_t count) override {
      return static_cast<float*>(std::calloc(count, sizeof(float)));
    }
    void free(float* memory) override { std::free(memory); }
  };
  static Host host;
  return host;
}

std::size_t ErrorFeedback::Entry::bytes() const {
  return bytes_to_keep(call, {kept.residual, state.values.size(), kept.memory_count});
}

Kept ErrorFeedback::find(const TensorCall& call, const ToKeep& wanted) {
  const std::optional<Key> key = locate(call);
  if (!key) return {};
  Entry* entry = nullptr;
  const auto found = by_key_.find(*key);
  if (found != by_key_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
    entry = &*found->second;
    fit_state(entry, wanted.state_count);
  } else {
    entry = insert(*key, call, wanted);
  }
  if (entry == nullptr) return {};
  Kept result;
  if (entry->kept.residual) result.residual = entry->memory.get() + residual_offset(entry->kept);
  if (!entry->state.values.empty()) result.state = &entry->state;
  if (entry->kept.memory_count > 0) result.memory = entry->memory.get();
  return result;
}

std::optional<ErrorFeedback::Key> ErrorFeedback::locate(const TensorCall& call) {
  TensorCall shape = call;
  shape.address = nullptr;
  const std::uint64_t breaks_with = with_address_.breaks();
  const std::uint64_t breaks_without = without_address_.breaks();
  const auto position = with_address_.observe(call);
  const auto shape_position = without_address_.observe(shape);
  if (with_address_.breaks() != breaks_with) drop(Source::kWithAddress);
  if (without_address_.breaks() != breaks_without) drop(Source::kWithoutAddress);
  if (position) {
    drop(Source::kWithoutAddress);
    return Key{Source::kWithAddress, *position};
  }
  // Without addresses, tensors of one shape in a row cannot be told apart: better no residual than
  // another tensor's.
  if (shape_position && without_address_.has_landmark()) {
    return Key{Source::kWithoutAddress, *shape_position};
  }
  return std::nullopt;
}

ErrorFeedback::Entry* ErrorFeedback::insert(const Key& key, const TensorCall& call,
                                            const ToKeep& wanted) {
  const std::size_t bytes = bytes_to_keep(call, wanted);
  if (bytes == 0) return nullptr;
  if (limit_bytes_ != 0 && bytes > limit_bytes_) {
    if (!warned_) {
      log_line(LogLevel::kWarn,
               "a tensor needs %zu bytes for error feedback and RINGPRESS_EF_MAX_BYTES is %zu: it "
               "is compressed without",
               bytes, limit_bytes_);
    }
    warned_ = true;
    return nullptr;
  }
  make_room(bytes, 0);
  Entry entry{key,
              call,
              wanted,
              {nullptr, FreeFloats{memory_}},
              {std::vector<float>(wanted.state_count), 0, 0}};
  if (memory_to_keep(call, wanted) > 0) {
    entry.memory.reset(memory_->allocate(memory_to_keep(call, wanted)));
    // Out of memory: the call goes without.
    if (entry.memory == nullptr) return nullptr;
  }
  entries_.push_front(std::move(entry));
  by_key_[key] = entries_.begin();
  bytes_ += bytes;
  return &entries_.front();
}

/// The layers of a tensor may change, and with them what is to be kept: that starts anew.
void ErrorFeedback::fit_state(Entry* entry, std::size_t state_count) {
  if (entry->state.values.size() == state_count) return;
  bytes_ -= entry->bytes();
  entry->state = {};
  bytes_ += entry->bytes();
  if (!make_room(state_count * sizeof(float), 1)) return;
  entry->state.values.resize(state_count);
  bytes_ += state_count * sizeof(float);
}

/// Drops what was used longest ago until `bytes` more fit, but for the last `spared` entries.
bool ErrorFeedback::make_room(std::size_t bytes, std::size_t spared) {
  if (limit_bytes_ == 0) return true;
  std::size_t spared_bytes = 0;
  std::size_t left = spared;
  for (auto entry = entries_.begin(); entry != entries_.end() && left > 0; ++entry, --left) {
    spared_bytes += entry->bytes();
  }
  if (spared_bytes + bytes > limit_bytes_) return false;  // Whatever is dropped.
  while (bytes_ + bytes > limit_bytes_ && entries_.size() > spared) {
    erase(std::prev(entries_.end()));
  }
  return bytes_ + bytes <= limit_bytes_;
}

void ErrorFeedback::drop(Source source) {
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (entry->key.first == source) erase(entry);
    entry = next;
  }
}

void ErrorFeedback::erase(Entries::iterator entry) {
  bytes_ -= entry->bytes();
  by_key_.erase(entry->key);
  entries_.erase(entry);
}

}  // namespace ringpress::nccl_plugin
