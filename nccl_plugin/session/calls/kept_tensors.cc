#include "nccl_plugin/session/calls/kept_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <utility>

namespace ringpress::nccl_plugin {
namespace {

constexpr std::size_t kPlaceBytes = 18;  // Of a state.
// So many entries with an address alone: a program that allocates anew makes ever more.
constexpr std::size_t kMostAlone = 1024;
// So many with a name.
constexpr std::size_t kMostNamed = 16384;

std::size_t bytes_to_keep(const TensorCall& call, const ToKeep& wanted) {
  const std::size_t residual = wanted.residual ? call.count : 0;
  return (residual + wanted.memory_count + wanted.state_count) * sizeof(float);
}

bool keeps_state(const ToKeep& wanted) {
  return wanted.memory_count > 0 || wanted.state_count > 0;
}

KeptPlace alone_place(const TensorCall& call) {
  return {std::nullopt, reinterpret_cast<std::uintptr_t>(call.address), call.count};
}

/// What an address alone had goes on at a place.
void hand_over(KeptTensor& alone, KeptTensor& placed) {
  if (alone.state.values.size() == placed.state.values.size() &&
      alone.kept.memory_count == placed.kept.memory_count) {
    std::swap(placed.memory, alone.memory);
    std::swap(placed.state, alone.state);
  }
}

void save_place(const KeptPlace& place, StateWriter& to) {
  to.put(place.by.has_value());
  to.put(place.by.value_or(CallsBy::kBuffer));
  to.put(place.cycle);
  to.put<std::uint64_t>(place.position);
}

KeptPlace load_place(StateReader& from) {
  KeptPlace place;
  const bool has_place = from.get<bool>();
  const auto by = static_cast<CallsBy>(from.get_below(3));
  if (has_place) place.by = by;
  place.cycle = from.get<std::uint64_t>();
  place.position = static_cast<std::size_t>(from.get<std::uint64_t>());
  return place;
}

void save_entry(const KeptTensor& entry, StateWriter& to) {
  save_place(entry.place, to);
  save_call(entry.call, to);
  to.put(entry.residual != nullptr);
  to.put<std::uint64_t>(entry.kept.memory_count);
  to.put<std::uint64_t>(entry.state.values.size());
  to.put(entry.state.call);
  to.put(entry.state.layers);
  to.put(entry.usual);
  if (entry.residual) to.put_all(std::span<const float>(entry.residual.get(), entry.call.count));
  if (entry.memory) {
    to.put_all(std::span<const float>(entry.memory.get(), entry.kept.memory_count));
  }
  to.put_all(std::span<const float>(entry.state.values));
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

KeptTensors::KeptTensors(KeptTensors&& other, ResidualMemory& memory)
    : KeptTensors(std::move(other)) {
  other = KeptTensors(room_.limit_bytes(), *memory_);
  memory_ = &memory;
  room_ = KeptRoom(room_.limit_bytes());
  for (KeptTensor& entry : entries_) {
    entry.residual.get_deleter().memory = memory_;
    entry.memory.get_deleter().memory = memory_;
    room_.take(entry.place, entry.bytes());
    entry.used = entry.gap = 0;
    if (entry.place.is_named()) room_.note_use(&entry);
  }
}

std::size_t KeptTensor::bytes() const {
  return bytes_to_keep(call, {kept.residual, state.values.size(), kept.memory_count});
}

/// Null: there is none.
KeptTensor* KeptTensors::look_up(const KeptPlace& place, const ToKeep& wanted) {
  const auto found = by_place_.find(place);
  if (found == by_place_.end()) return nullptr;
  const Entries::iterator entry = found->second;
  entries_.splice(entries_.begin(), entries_, entry);
  entry->passes = 0;
  entry->kept.is_projected = entry->kept.is_projected || wanted.is_projected;
  if (place.is_named()) room_.note_use(&*entry);
  fit_state(&*entry, wanted.state_count);
  return &*entry;
}

KeptTensor* KeptTensors::at(const KeptPlace& place, const TensorCall& call, const ToKeep& wanted) {
  if (place.is_named()) room_.count_named();
  KeptTensor* entry = look_up(place, wanted);
  if (entry != nullptr && !has_shape_of(entry->call, call)) {  // A state that makes no sense.
    erase(entries_.begin());
    entry = nullptr;
  }
  if (entry == nullptr) {
    entry = insert(place, call, wanted);
    const auto alone = by_place_.find(alone_place(call));
    if (entry != nullptr && alone != by_place_.end() && alone->second->call == call) {
      hand_over(*alone->second, *entry);
      erase(alone->second);
    }
  }
  if (entry == nullptr || !keeps_state(wanted) || place.by != CallsBy::kBuffer) {
    return entry;
  }
  by_address_[alone_place(call)] = place;
  return entry;
}

KeptTensor* KeptTensors::by_address(const TensorCall& call, ToKeep wanted) {
  if (!keeps_state(wanted) || call.address == nullptr) return nullptr;
  wanted.residual = false;
  const KeptPlace alone = alone_place(call);
  const auto known = by_address_.find(alone);
  if (known != by_address_.end() && by_place_.at(known->second)->call == call) {
    KeptTensor* const entry = look_up(known->second, wanted);
    if (entry != nullptr) return entry;
  }
  if (!room_.has(bytes_to_keep(call, wanted))) return nullptr;
  if (by_place_.count(alone) != 0) erase(by_place_.at(alone));  // Of a call of another type.
  KeptTensor* const entry = insert(alone, call, wanted);
  if (entry == nullptr) return nullptr;
  by_address_[alone] = alone;
  drop_too_many();
  return entry;
}

KeptTensor* KeptTensors::insert(const KeptPlace& place, const TensorCall& call,
                                const ToKeep& wanted) {
  const std::size_t bytes = bytes_to_keep(call, wanted);
  if (bytes == 0) return nullptr;
  if (!make_room(bytes, place, nullptr)) {
    room_.go_without(bytes, place, wanted.codec, entries_);
    return nullptr;
  }
  KeptTensor entry{
      place,
      call,
      {wanted.residual, wanted.state_count, wanted.memory_count, {}, wanted.is_projected},
      {nullptr, FreeFloats{memory_}},
      {nullptr, FreeFloats{memory_}},
      {std::vector<float>(wanted.state_count), 0, 0},
      false,
      0,
      0,
      0};
  if (wanted.residual) entry.residual.reset(allocate(call.count, place));
  if (wanted.memory_count > 0) entry.memory.reset(allocate(wanted.memory_count, place));
  // Out of memory: the call goes without.
  if (wanted.residual && entry.residual == nullptr) return nullptr;
  if (wanted.memory_count > 0 && entry.memory == nullptr) return nullptr;
  entries_.push_front(std::move(entry));
  by_place_[place] = entries_.begin();
  room_.take(place, bytes);
  if (!place.by) ++counts_.alone;
  if (place.is_named()) {
    room_.note_use(&entries_.front());
    ++counts_.named;
    drop_too_many();
  }
  return &entries_.front();
}

/// What may give way does. Null: there is no room all the same.
float* KeptTensors::allocate(std::size_t count, const KeptPlace& place) {
  float* memory = memory_->allocate(count);
  while (memory == nullptr && room_.is_followed(place)) {
    const Entries::iterator oldest = room_.oldest_to_go(&entries_, nullptr);
    if (oldest == entries_.end()) break;
    erase(oldest);
    memory = memory_->allocate(count);
  }
  return memory;
}

/// The layers of a tensor may change, and with them what is to be kept: that starts anew. A call
/// that wants no state, of another codec, leaves what the calls after it go on with.
void KeptTensors::fit_state(KeptTensor* entry, std::size_t state_count) {
  if (state_count == 0 || entry->state.values.size() == state_count) return;
  if (!entry->state.values.empty()) room_.give_back(entry->state.values.size() * sizeof(float));
  entry->state = {};
  if (!make_room(state_count * sizeof(float), entry->place, entry)) return;
  entry->state.values.resize(state_count);
  room_.take(entry->place, state_count * sizeof(float));
}

/// Drops what gives way to a place until `bytes` more fit, but for `spared`. False, and nothing is
/// dropped, if they would not fit then.
bool KeptTensors::make_room(std::size_t bytes, const KeptPlace& place, const KeptTensor* spared) {
  if (!room_.can_have(bytes, place, entries_, spared)) return false;
  while (!room_.has(bytes)) erase(room_.next_to_go(place, &entries_, spared));
  return true;
}

void KeptTensors::pass(const KeptPlace& place) {
  const auto found = by_place_.find(place);
  if (found != by_place_.end()) room_.note_pass(&*found->second);
}

void KeptTensors::drop(CallsBy by, std::uint64_t cycle) {
  room_.forget(by, cycle);
  if (by_place_.empty() || by_place_.rbegin()->first.by < by) return;
  auto found = by_place_.lower_bound(KeptPlace{by, cycle, 0});
  while (found != by_place_.end() && found->first.by == by && found->first.cycle == cycle) {
    const auto next = std::next(found);
    leave_alone(found->second);
    found = next;
  }
}

/// The entry has no place any more.
void KeptTensors::leave_alone(Entries::iterator entry) {
  const KeptPlace alone = alone_place(entry->call);
  const bool has_state = entry->memory != nullptr || !entry->state.values.empty();
  const bool can_be = has_state && entry->place.by == CallsBy::kBuffer &&
                      entry->call.address != nullptr && by_place_.count(alone) == 0;
  if (!can_be) return erase(entry);
  room_.give_back(entry->bytes());
  by_place_.erase(entry->place);
  entry->kept.residual = false;
  entry->residual.reset();
  entry->place = alone;
  room_.take(alone, entry->bytes());
  ++counts_.alone;
  by_place_[alone] = entry;
  by_address_[alone] = alone;
  drop_too_many();
}

/// More entries with an address alone, or with a name, than are kept: the one used longest ago
/// goes.
void KeptTensors::drop_too_many() {
  const auto drop_oldest = [this](const auto& is_one) {
    const auto oldest = std::find_if(entries_.rbegin(), entries_.rend(), is_one);
    erase(std::prev(oldest.base()));
  };
  if (counts_.alone > kMostAlone) {
    drop_oldest([](const KeptTensor& entry) { return !entry.place.by; });
  }
  if (counts_.named > kMostNamed) {
    drop_oldest([](const KeptTensor& entry) { return entry.place.is_named(); });
  }
}

void KeptTensors::erase(Entries::iterator entry) {
  room_.give_back(entry->bytes());
  if (!entry->place.by) --counts_.alone;
  if (entry->place.is_named()) --counts_.named;
  const auto known = by_address_.find(alone_place(entry->call));
  if (known != by_address_.end() && known->second == entry->place) by_address_.erase(known);
  by_place_.erase(entry->place);
  entries_.erase(entry);
}

/// Used longer ago than those that are there.
void KeptTensors::load_entry(StateReader& from) {
  const KeptPlace place = load_place(from);
  const TensorCall call = load_call(from);
  ToKeep wanted;
  wanted.residual = from.get<bool>();
  wanted.memory_count = static_cast<std::size_t>(from.get<std::uint64_t>());
  wanted.state_count = static_cast<std::size_t>(from.get<std::uint64_t>());
  const auto state_call = from.get<std::uint64_t>();
  const auto state_layers = from.get<std::uint64_t>();
  const auto usual = from.get<float>();
  const std::uint64_t most = from.left() / sizeof(float);
  from.require(wanted.memory_count <= most && wanted.state_count <= most &&
               bytes_to_keep(call, wanted) <= from.left());
  from.require(place.by || place == alone_place(call));
  from.require(by_place_.count(place) == 0);
  from.require(usual >= 0 && std::isfinite(usual));
  if (!from.is_ok()) return;
  // Where less may be kept than when it was saved, the last used is what stays.
  const bool is_kept = room_.has(bytes_to_keep(call, wanted));
  KeptTensor* const entry = is_kept ? insert(place, call, wanted) : nullptr;
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
  entry->usual = usual;
  entries_.splice(entries_.end(), entries_, entries_.begin());
}

void KeptTensors::forget(bool (*is_one)(const KeptTensor& entry)) {
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (is_one(*entry)) erase(entry);
    entry = next;
  }
}

void KeptTensors::halve_residuals() {
  for (KeptTensor& entry : entries_) {
    if (entry.residual == nullptr || entry.is_halved) continue;
    float* const residual = entry.residual.get();
    for (std::size_t i = 0; i < entry.call.count; ++i) residual[i] *= 0.5F;
    entry.is_halved = true;
  }
}

void KeptTensors::save(StateWriter& to) const {
  const auto keeps = [](const KeptTensor& entry) { return entry.bytes() > 0; };
  to.put(static_cast<std::uint64_t>(std::count_if(entries_.begin(), entries_.end(), keeps)));
  for (const KeptTensor& entry : entries_) {
    if (keeps(entry)) save_entry(entry, to);
  }
  to.put<std::uint64_t>(by_address_.size());
  for (const auto& [address, place] : by_address_) {
    save_place(address, to);
    save_place(place, to);
  }
}

void KeptTensors::load(StateReader& from) {
  const std::size_t entries = from.get_count(kPlaceBytes + kSavedCallBytes);
  for (std::size_t i = 0; i < entries && from.is_ok(); ++i) load_entry(from);
  const std::size_t addresses = from.get_count(2 * kPlaceBytes);
  for (std::size_t i = 0; i < addresses && from.is_ok(); ++i) {
    const KeptPlace address = load_place(from);
    const KeptPlace place = load_place(from);
    if (by_place_.count(place) != 0) by_address_[address] = place;
  }
}

}  // namespace ringpress::nccl_plugin
