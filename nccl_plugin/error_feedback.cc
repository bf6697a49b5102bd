#include "nccl_plugin/error_feedback.h"

#include <algorithm>
#include <cstdlib>

#include "ringpress/log.h"

namespace ringpress::nccl_plugin {
namespace {

// Longest sequence looked for: a step of more calls than this goes without error feedback.
constexpr std::size_t kLongestPeriod = 4096;

std::size_t residual_bytes(const TensorCall& call) {
  return call.count * sizeof(float);
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

void ErrorFeedback::FreeFloats::operator()(float* memory) const {
  std::free(memory);
}

float* ErrorFeedback::find(const TensorCall& call) {
  const std::optional<Key> key = locate(call);
  if (!key) return nullptr;
  const auto found = by_key_.find(*key);
  if (found == by_key_.end()) return insert(*key, call);
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->values.get();
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

float* ErrorFeedback::insert(const Key& key, const TensorCall& call) {
  const std::size_t bytes = residual_bytes(call);
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
  while (limit_bytes_ != 0 && bytes_ + bytes > limit_bytes_) drop_oldest();
  auto* values = static_cast<float*>(std::calloc(call.count, sizeof(float)));
  if (values == nullptr) return nullptr;  // Out of memory: the call goes without a residual.
  entries_.push_front({key, call, std::unique_ptr<float[], FreeFloats>(values)});
  by_key_[key] = entries_.begin();
  bytes_ += bytes;
  return values;
}

void ErrorFeedback::drop(Source source) {
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (entry->key.first == source) erase(entry);
    entry = next;
  }
}

void ErrorFeedback::drop_oldest() {
  if (!entries_.empty()) erase(std::prev(entries_.end()));
}

void ErrorFeedback::erase(std::list<Entry>::iterator entry) {
  bytes_ -= residual_bytes(entry->call);
  by_key_.erase(entry->key);
  entries_.erase(entry);
}

}  // namespace ringpress::nccl_plugin
