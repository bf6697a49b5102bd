// The classes of calls that have been found out so far.
#ifndef NCCL_PLUGIN_SESSION_CALLS_KNOWN_CLASSES_H_
#define NCCL_PLUGIN_SESSION_CALLS_KNOWN_CLASSES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>

#include "nccl_plugin/session/calls/call_pattern.h"
#include "nccl_plugin/session/state/state_bytes.h"
#include "ringpress/internal/call_class.h"

namespace ringpress::nccl_plugin {

/// By kind, count, type and operation. Equal on all ranks.
class KnownClasses {
 public:
  void set(const TensorCall& call, CallClass call_class) {
    const Shape shape = shape_of(call);
    if (classes_.size() == kMostShapes && classes_.find(shape) == classes_.end()) classes_.clear();
    classes_[shape] = call_class;
  }

  CallClass of(const TensorCall& call) const {
    const auto found = classes_.find(shape_of(call));
    return found == classes_.end() ? CallClass::kUnknown : found->second;
  }

  void save(StateWriter& to) const {
    to.put<std::uint64_t>(classes_.size());
    for (const auto& [shape, call_class] : classes_) {
      const auto& [kind, count, dtype, op] = shape;
      to.put(kind);
      to.put<std::uint64_t>(count);
      to.put(dtype);
      to.put(op);
      to.put(call_class);
    }
  }
  /// Instead of all that was known.
  void load(StateReader& from) {
    classes_.clear();
    const std::size_t shapes = from.get_count(kSavedBytes, kMostShapes);
    for (std::size_t i = 0; i < shapes; ++i) {
      const auto kind = static_cast<CollectiveKind>(from.get_below(kCollectiveKindCount));
      const auto count = static_cast<std::size_t>(from.get<std::uint64_t>());
      const auto dtype = static_cast<DType>(from.get_below(kDTypeCount));
      const auto op = static_cast<ReduceOp>(from.get_below(kReduceOpCount));
      classes_[Shape{kind, count, dtype, op}] =
          static_cast<CallClass>(from.get_below(kCallClassCount));
    }
  }

 private:
  using Shape = std::tuple<CollectiveKind, std::size_t, DType, ReduceOp>;
  // More than a step has: one whose calls all differ would fill the memory.
  static constexpr std::size_t kMostShapes = 4096;
  static constexpr std::size_t kSavedBytes = 12;  // Of each.

  static Shape shape_of(const TensorCall& call) {
    return {call.kind, call.count, call.dtype, call.op};
  }

  std::map<Shape, CallClass> classes_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_KNOWN_CLASSES_H_
