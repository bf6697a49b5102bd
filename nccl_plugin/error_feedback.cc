#include "nccl_plugin/error_feedback.h"

#include <algorithm>
#include <cstdlib>

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
      return position;
    }
    ++breaks_;
    cycle_.clear();
    history_.clear();
  }
  history_.push_back(call);
  if (history_.size() > 3 * kLongestPeriod) {
    history_.erase(history_.begin(), history_.begin() + kLongestPeriod);
  }
  if (!try_to_lock()) return std::nullopt;
  // The call just seen is the last of the sequence.
  return cycle_.size() - 1;
}

// A period P is believed when every call since the surprise, but for the first P, equals the one P
// calls before it, and at least P calls have confirmed it. The calls before the surprise prove
// nothing, but the surprise itself must fit: after A A B, a second A A does not suggest period 1.
bool CallPattern::try_to_lock() {
  const std::size_t size = history_.size();
  for (std::size_t period = 1; period <= std::min(kLongestPeriod, size / 2); ++period) {
    if (!std::equal(history_.begin() + static_cast<std::ptrdiff_t>(period), history_.end(),
                    history_.begin())) {
      continue;
    }
    cycle_.assign(history_.end() - static_cast<std::ptrdiff_t>(period), history_.end());
    cursor_ = 0;
    return true;
  }
  return false;
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
  if (bytes == 0 || (limit_bytes_ != 0 && bytes > limit_bytes_)) return nullptr;
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
