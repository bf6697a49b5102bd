// The classes of calls that have been found out so far.
#ifndef NCCL_PLUGIN_SESSION_CALLS_KNOWN_CLASSES_H_
#define NCCL_PLUGIN_SESSION_CALLS_KNOWN_CLASSES_H_

#include "nccl_plugin/session/calls/by_shape.h"
#include "nccl_plugin/session/calls/tensor_call.h"
#include "nccl_plugin/session/state/state_bytes.h"
#include "ringpress/internal/call_class.h"

namespace ringpress::nccl_plugin {

/// Of calls by their shapes. Equal on all ranks.
class KnownClasses {
 public:
  void set(const TensorCall& call, CallClass call_class) { classes_.of(call) = call_class; }

  CallClass of(const TensorCall& call) const {
    const CallClass* const found = classes_.find(call);
    return found == nullptr ? CallClass::kUnknown : *found;
  }

  void save(StateWriter& to) const { classes_.save(to); }
  /// Instead of all that was known.
  void load(StateReader& from) {
    classes_.load(from, [](StateReader& saved) {
      return static_cast<CallClass>(saved.get_below(kCallClassCount));
    });
  }

 private:
  ByShape<CallClass> classes_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_KNOWN_CLASSES_H_
