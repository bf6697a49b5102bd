#include "nccl_plugin/session/calls/error_feedback.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "ringpress/internal/log.h"

namespace ringpress::nccl_plugin {
namespace {

constexpr std::size_t kSavedKeyBytes = 18;  // Of a state.

std::size_t bytes_to_keep(const TensorCall& call, const ToKeep& wanted) {
  const std::size_t residual = wanted.residual ? call.count : 0;
  return (residual + wanted.memory_count + wanted.state_count) * sizeof(float);
}

bool keeps_state(const ToKeep& wanted) {
  return wanted.memory_count > 0 || wanted.state_count > 0;
}

}  // namespace

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

Kept ErrorFeedback::find(const TensorCall& as_called, const ToKeep& wanted) {
  const std::optional<Key> place = locate(as_called);
  const TensorCall call = sequence_->named(as_called);
  Entry* const entry = place ? entry_at(*place, call, wanted) : entry_by_address(call, wanted);
  if (entry == nullptr) return {};
  entry->is_halved = false;
  Kept result;
  if (place) result.residual = entry->residual.get();
  if (wanted.state_count > 0 && !entry->state.values.empty()) result.state = &entry->state;
  const bool wants_memory = wanted.memory_count > 0;
  if (wants_memory && wanted.memory_count <= entry->kept.memory_count) {
    result.memory = entry->memory.get();
  }
  return result;
}

void ErrorFeedback::halve_residuals() {
  for (Entry& entry : entries_) {
    if (entry.residual == nullptr || entry.is_halved) continue;
    float* const residual = entry.residual.get();
    for (std::size_t i = 0; i < entry.call.count; ++i) residual[i] *= 0.5F;
    entry.is_halved = true;
  }
}

ErrorFeedback::Key ErrorFeedback::alone_key(const TensorCall& call) {
  return {std::nullopt, reinterpret_cast<std::uintptr_t>(call.address), call.count};
}

/// Null: there is none.
ErrorFeedback::Entry* ErrorFeedback::look_up(const Key& key, const ToKeep& wanted) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  const Entries::iterator entry = found->second;
  entries_.splice(entries_.begin(), entries_, entry);
  fit_state(&*entry, wanted.state_count);
  return &*entry;
}

/// What was kept for its address alone goes on at its place.
ErrorFeedback::Entry* ErrorFeedback::entry_at(const Key& place, const TensorCall& call,
                                              const ToKeep& wanted) {
  Entry* entry = look_up(place, wanted);
  if (entry != nullptr && !has_shape_of(entry->call, call)) {  // A state that makes no sense.
    erase(entries_.begin());
    entry = nullptr;
  }
  if (entry == nullptr) {
    entry = insert(place, call, wanted);
    if (entry != nullptr) adopt_alone(entry);
  }
  if (entry == nullptr || !keeps_state(wanted) || place.by != CallsBy::kBuffer) {
    return entry;
  }
  by_address_[alone_key(call)] = place;
  return entry;
}

void ErrorFeedback::adopt_alone(Entry* entry) {
  const auto found = by_key_.find(alone_key(entry->call));
  if (found == by_key_.end() || !(found->second->call == entry->call)) return;
  Entry& alone = *found->second;
  if (alone.state.values.size() == entry->state.values.size() &&
      alone.kept.memory_count == entry->kept.memory_count) {
    std::swap(entry->memory, alone.memory);
    std::swap(entry->state, alone.state);
  }
  erase(found->second);
}

/// Without a residual. Makes room for nothing.
ErrorFeedback::Entry* ErrorFeedback::entry_by_address(const TensorCall& call, ToKeep wanted) {
  if (!keeps_state(wanted) || call.address == nullptr) return nullptr;
  wanted.residual = false;
  const Key alone = alone_key(call);
  const auto known = by_address_.find(alone);
  if (known != by_address_.end() && by_key_.at(known->second)->call == call) {
    Entry* const entry = look_up(known->second, wanted);
    if (entry != nullptr) return entry;
  }
  if (limit_bytes_ != 0 && bytes_ + bytes_to_keep(call, wanted) > limit_bytes_) return nullptr;
  if (by_key_.count(alone) != 0) erase(by_key_.at(alone));  // Of a call of another type.
  Entry* const entry = insert(alone, call, wanted);
  if (entry != nullptr) by_address_[alone] = alone;
  if (alone_entries_ > kMostAlone) drop_oldest_alone();
  return entry;
}

void ErrorFeedback::drop_oldest_alone() {
  for (auto entry = entries_.end(); entry != entries_.begin();) {
    --entry;
    if (!entry->key.by) return erase(entry);
  }
}

std::optional<ErrorFeedback::Key> ErrorFeedback::locate(const TensorCall& call) {
  const CallPlaces places = sequence_->ask(CallUser::kFeedback, call);
  for (const std::uint64_t cycle : places.buffers.forgotten()) drop(CallsBy::kBuffer, cycle);
  for (const std::uint64_t cycle : places.shapes.forgotten()) drop(CallsBy::kShape, cycle);
  if (places.by_buffer) {
    // The same calls, which are now known better.
    drop(CallsBy::kShape, places.shapes.cycle_id());
    keeps_buffers_ = true;
    calls_by_shape_ = 0;
    const TensorPlace& tensor = places.buffers.tensor(*places.by_buffer);
    return Key{CallsBy::kBuffer, tensor.cycle, tensor.position};
  }
  if (!places.by_shape) calls_by_shape_ = 0;
  if (!places.by_shape || !may_go_by_shape(places)) return std::nullopt;
  return Key{CallsBy::kShape, places.shapes.cycle_id(), *places.by_shape};
}

/// Whether a tensor is taken for the one that came at the same position, at whatever address.
/// Better no residual than another tensor's.
bool ErrorFeedback::may_go_by_shape(const CallPlaces& places) {
  // Without addresses, tensors of one shape in a row cannot be told apart.
  if (!places.shapes.has_landmark()) return false;
  // Where addresses begin to repeat, they will soon tell.
  if (places.buffers.repeating() >= places.shapes.period()) {
    keeps_buffers_ = true;
    calls_by_shape_ = 0;
  }
  ++calls_by_shape_;
  // Other addresses are mostly other tensors. A program that allocates anew goes on with them.
  const std::size_t proof =
      std::max(CallPattern::kProofPeriods * places.shapes.period(), CallPattern::kProofCalls);
  if (keeps_buffers_ && calls_by_shape_ <= proof) return false;
  keeps_buffers_ = false;
  return true;
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
              {nullptr, FreeFloats{memory_}},
              {std::vector<float>(wanted.state_count), 0, 0},
              false};
  if (wanted.residual) entry.residual.reset(allocate(call.count, key));
  if (wanted.memory_count > 0) entry.memory.reset(allocate(wanted.memory_count, key));
  // Out of memory: the call goes without.
  if (wanted.residual && entry.residual == nullptr) return nullptr;
  if (wanted.memory_count > 0 && entry.memory == nullptr) return nullptr;
  entries_.push_front(std::move(entry));
  by_key_[key] = entries_.begin();
  bytes_ += bytes;
  if (key.by == CallsBy::kShape) ++entries_by_shape_;
  if (!key.by) ++alone_entries_;
  return &entries_.front();
}

/// What other sequences keep gives way. Null: there is no room all the same.
float* ErrorFeedback::allocate(std::size_t count, const Key& key) {
  float* memory = memory_->allocate(count);
  while (memory == nullptr && !entries_.empty() && key.by) {
    const Key& oldest = entries_.back().key;
    if (oldest.by == key.by && oldest.cycle == key.cycle) break;
    erase(std::prev(entries_.end()));
    memory = memory_->allocate(count);
  }
  return memory;
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

/// What is kept of a sequence, but for what an address alone can have: the calls go on, in another
/// order. No time is lost where that is nothing.
void ErrorFeedback::drop(CallsBy by, std::uint64_t cycle) {
  if (by == CallsBy::kShape && entries_by_shape_ == 0) return;
  auto found = by_key_.lower_bound(Key{by, cycle, 0});
  while (found != by_key_.end() && found->first.by == by && found->first.cycle == cycle) {
    const auto next = std::next(found);
    leave_alone(found->second);
    found = next;
  }
}

/// The entry has no place any more.
void ErrorFeedback::leave_alone(Entries::iterator entry) {
  const Key alone = alone_key(entry->call);
  const bool has_state = entry->memory != nullptr || !entry->state.values.empty();
  const bool can_be = has_state && entry->key.by == CallsBy::kBuffer &&
                      entry->call.address != nullptr && by_key_.count(alone) == 0;
  if (!can_be) return erase(entry);
  bytes_ -= entry->bytes();
  by_key_.erase(entry->key);
  entry->kept.residual = false;
  entry->residual.reset();
  entry->key = alone;
  bytes_ += entry->bytes();
  ++alone_entries_;
  by_key_[alone] = entry;
  by_address_[alone] = alone;
  if (alone_entries_ > kMostAlone) drop_oldest_alone();
}

void ErrorFeedback::erase(Entries::iterator entry) {
  bytes_ -= entry->bytes();
  if (entry->key.by == CallsBy::kShape) --entries_by_shape_;
  if (!entry->key.by) --alone_entries_;
  const auto known = by_address_.find(alone_key(entry->call));
  if (known != by_address_.end() && known->second == entry->key) by_address_.erase(known);
  by_key_.erase(entry->key);
  entries_.erase(entry);
}

void ErrorFeedback::save_key(const Key& key, StateWriter& to) {
  to.put(key.by.has_value());
  to.put(key.by.value_or(CallsBy::kBuffer));
  to.put(key.cycle);
  to.put<std::uint64_t>(key.position);
}

ErrorFeedback::Key ErrorFeedback::load_key(StateReader& from) {
  Key key;
  const bool has_place = from.get<bool>();
  const auto by = static_cast<CallsBy>(from.get_below(2));
  if (has_place) key.by = by;
  key.cycle = from.get<std::uint64_t>();
  key.position = static_cast<std::size_t>(from.get<std::uint64_t>());
  return key;
}

void ErrorFeedback::save_entry(const Entry& entry, StateWriter& to) {
  save_key(entry.key, to);
  save_call(entry.call, to);
  to.put(entry.residual != nullptr);
  to.put<std::uint64_t>(entry.kept.memory_count);
  to.put<std::uint64_t>(entry.state.values.size());
  to.put(entry.state.call);
  to.put(entry.state.layers);
  if (entry.residual) to.put_all(std::span<const float>(entry.residual.get(), entry.call.count));
  if (entry.memory) {
    to.put_all(std::span<const float>(entry.memory.get(), entry.kept.memory_count));
  }
  to.put_all(std::span<const float>(entry.state.values));
}

/// Used longer ago than those that are there.
void ErrorFeedback::load_entry(StateReader& from) {
  const Key key = load_key(from);
  const TensorCall call = load_call(from);
  ToKeep wanted;
  wanted.residual = from.get<bool>();
  wanted.memory_count = static_cast<std::size_t>(from.get<std::uint64_t>());
  wanted.state_count = static_cast<std::size_t>(from.get<std::uint64_t>());
  const auto state_call = from.get<std::uint64_t>();
  const auto state_layers = from.get<std::uint64_t>();
  const std::uint64_t most = from.left() / sizeof(float);
  from.require(wanted.memory_count <= most && wanted.state_count <= most &&
               bytes_to_keep(call, wanted) <= from.left());
  from.require(key.by || key == alone_key(call));
  from.require(by_key_.count(key) == 0);
  if (!from.is_ok()) return;
  // Where less may be kept than when it was saved, the last used is what stays.
  const bool is_kept = limit_bytes_ == 0 || bytes_ + bytes_to_keep(call, wanted) <= limit_bytes_;
  Entry* const entry = is_kept ? insert(key, call, wanted) : nullptr;
  from.require(!is_kept || entry != nullptr);
  if (entry == nullptr) return from.skip(bytes_to_keep(call, wanted));
  const auto fill = [&from](float* values, std::size_t count) {
    if (values != nullptr) from.read(std::as_writable_bytes(std::span(values, count)));
  };
  fill(entry->residual.get(), call.count);
  fill(entry->memory.get(), wanted.memory_count);
  fill(entry->state.values.data(), wanted.state_count);
  entry->state.call = state_call;
  entry->state.layers = state_layers;
  entries_.splice(entries_.end(), entries_, entries_.begin());
}

void ErrorFeedback::save(StateWriter& to) const {
  to.put(keeps_buffers_);
  to.put<std::uint64_t>(calls_by_shape_);
  const auto keeps = [](const Entry& entry) { return entry.bytes() > 0; };
  to.put(static_cast<std::uint64_t>(std::count_if(entries_.begin(), entries_.end(), keeps)));
  for (const Entry& entry : entries_) {
    if (keeps(entry)) save_entry(entry, to);
  }
  to.put<std::uint64_t>(by_address_.size());
  for (const auto& [address, key] : by_address_) {
    save_key(address, to);
    save_key(key, to);
  }
}

void ErrorFeedback::load(StateReader& from) {
  keeps_buffers_ = from.get<bool>();
  calls_by_shape_ = static_cast<std::size_t>(from.get<std::uint64_t>());
  const std::size_t entries = from.get_count(kSavedKeyBytes + kSavedCallBytes);
  for (std::size_t i = 0; i < entries && from.is_ok(); ++i) load_entry(from);
  const std::size_t addresses = from.get_count(2 * kSavedKeyBytes);
  for (std::size_t i = 0; i < addresses && from.is_ok(); ++i) {
    const Key address = load_key(from);
    const Key key = load_key(from);
    if (by_key_.count(key) != 0) by_address_[address] = key;
  }
}

void ErrorFeedback::forget_shapes() {
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (entry->key.by == CallsBy::kShape) erase(entry);
    entry = next;
  }
}

void ErrorFeedback::adopt(ErrorFeedback&& loaded) {
  entries_ = std::move(loaded.entries_);
  by_key_ = std::move(loaded.by_key_);
  by_address_ = std::move(loaded.by_address_);
  bytes_ = loaded.bytes_;
  keeps_buffers_ = loaded.keeps_buffers_;
  calls_by_shape_ = loaded.calls_by_shape_;
  entries_by_shape_ = loaded.entries_by_shape_;
  alone_entries_ = loaded.alone_entries_;
}

}  // namespace ringpress::nccl_plugin
