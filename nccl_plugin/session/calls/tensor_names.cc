#include "nccl_plugin/session/calls/tensor_names.h"

#include "ringpress/internal/hash.h"

namespace ringpress::nccl_plugin {
namespace {

// A tag is another name than the key of the same number.
constexpr std::uint64_t kTagHash = 0x7461672d6e616d65;
constexpr std::size_t kSavedTagBytes = 17;

std::size_t shape_hash(const TensorCall& call) {
  std::uint64_t hash = combine_hash(call.count, static_cast<std::uint64_t>(call.kind));
  hash = combine_hash(hash, static_cast<std::uint64_t>(call.dtype));
  hash = combine_hash(hash, static_cast<std::uint64_t>(call.op));
  return static_cast<std::size_t>(hash);
}

}  // namespace

KeptPlace named_place(const TensorName& name, const TensorCall& call) {
  const std::uint64_t number = name.is_key() ? name.key : combine_hash(kTagHash, name.tag);
  return {CallsBy::kName, number, shape_hash(call)};
}

bool TensorTags::is_name(const TensorName& name, const TensorCall& call,
                         const std::optional<KeptPlace>& place) {
  const KeptPlace named = named_place(name, call);
  const Key key{named.cycle, named.position};
  const auto found = known_.find(key);
  const bool is_new = found == known_.end();
  Known* const known = is_new ? add(key) : &found->second;
  if (place && place->by == CallsBy::kBuffer) {
    const bool is_of_sequence = known->place && known->place->cycle == place->cycle;
    if (is_of_sequence && known->place->position != place->position) known->is_shared = true;
    known->place = place;
  }
  return !is_new && !known->is_shared;
}

TensorTags::Known* TensorTags::add(const Key& key) {
  if (keys_.size() == kMostTags) {
    known_.erase(keys_.front());
    keys_.pop_front();
  }
  keys_.push_back(key);
  return &known_[key];
}

void TensorTags::save(StateWriter& to) const {
  to.put<std::uint64_t>(keys_.size());
  for (const Key& key : keys_) {
    to.put(key.first);
    to.put<std::uint64_t>(key.second);
    to.put(known_.at(key).is_shared);
  }
}

void TensorTags::load(StateReader& from) {
  const std::size_t tags = from.get_count(kSavedTagBytes, kMostTags);
  for (std::size_t i = 0; i < tags && from.is_ok(); ++i) {
    Key key;
    key.first = from.get<std::uint64_t>();
    key.second = static_cast<std::size_t>(from.get<std::uint64_t>());
    const bool is_shared = from.get<bool>();
    from.require(known_.count(key) == 0);
    if (from.is_ok()) add(key)->is_shared = is_shared;
  }
}

}  // namespace ringpress::nccl_plugin
