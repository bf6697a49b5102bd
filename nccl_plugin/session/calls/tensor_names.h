// What a program calls the tensor of a call, by an option or by a profiler's tag.
#ifndef NCCL_PLUGIN_SESSION_CALLS_TENSOR_NAMES_H_
#define NCCL_PLUGIN_SESSION_CALLS_TENSOR_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "nccl_plugin/session/calls/place_order.h"
#include "nccl_plugin/session/calls/tensor_call.h"
#include "nccl_plugin/session/state/state_bytes.h"
#include "ringpress/internal/call_options.h"

namespace ringpress::nccl_plugin {

/// One of the two, or neither. A key is the program's word for it: such a call is no part of the
/// sequence that is looked for among the others. A tag is believed as TensorTags says.
struct TensorName {
  std::uint64_t key = 0;
  std::uint64_t tag = 0;

  bool is_key() const { return key != 0; }
  bool is_tag() const { return key == 0 && tag != 0; }
};

/// Of the call that this thread makes.
inline TensorName name_of_call() {
  const CallOptions* const options = CallsWithOptions::current();
  return options == nullptr ? TensorName{} : TensorName{options->key, options->tag};
}

/// Where what is kept of a tensor lies that has a name. Of another size or type it is another one.
KeptPlace named_place(const TensorName& name, const TensorCall& call);

/// Which tags name tensors. A profiler's tag is whatever its user likes: so one that never comes
/// again with a call of that size and type (a number of the call) names none, nor does one that two
/// tensors of the sequence have (a phase of the step). Such calls go by their places.
class TensorTags {
 public:
  /// `place`: of the call in the sequence, where that is known.
  bool is_name(const TensorName& name, const TensorCall& call,
               const std::optional<KeptPlace>& place);

  void save(StateWriter& to) const;
  void load(StateReader& from);

 private:
  using Key = std::pair<std::uint64_t, std::size_t>;  // Of a named_place().
  struct Known {
    std::optional<KeptPlace> place;
    bool is_shared = false;
  };
  // One more drops the first.
  static constexpr std::size_t kMostTags = 16384;

  Known* add(const Key& key);

  std::map<Key, Known> known_;
  std::deque<Key> keys_;  // In the order in which they have come.
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_TENSOR_NAMES_H_
