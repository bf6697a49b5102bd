// A value for each shape of calls.
#ifndef NCCL_PLUGIN_SESSION_CALLS_BY_SHAPE_H_
#define NCCL_PLUGIN_SESSION_CALLS_BY_SHAPE_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>

#include "nccl_plugin/session/state/state_bytes.h"
#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin {

/// By kind, count, type and operation, which are equal on all ranks. Ranks that name the same calls
/// in the same order keep and forget alike.
template <typename Value>
class ByShape {
 public:
  // More than a step has, of one program. One whose calls all differ would fill the memory: when
  // one more comes all are forgotten, and what recurs is soon known again.
  static constexpr std::size_t kMostShapes = 4096;

  /// The value of such calls, to be read and changed; of those that are new, Value().
  template <typename Call>
  Value& of(const Call& call) {
    const Shape shape = shape_of(call);
    if (values_.size() == kMostShapes && values_.find(shape) == values_.end()) values_.clear();
    return values_[shape];
  }
  /// Null: there is none.
  template <typename Call>
  const Value* find(const Call& call) const {
    const auto found = values_.find(shape_of(call));
    return found == values_.end() ? nullptr : &found->second;
  }

  /// `take(kind, count, dtype, op, value)`, in no order that means anything.
  template <typename Take>
  void for_each(Take&& take) const {
    for (const auto& [shape, value] : values_) {
      take(shape.kind, shape.count, shape.dtype, shape.op, value);
    }
  }

  /// `put_value(value)` writes one value.
  template <typename PutValue>
  void save(StateWriter& to, PutValue&& put_value) const {
    to.put<std::uint64_t>(values_.size());
    for (const auto& [shape, value] : values_) {
      to.put(shape.kind);
      to.put<std::uint64_t>(shape.count);
      to.put(shape.dtype);
      to.put(shape.op);
      put_value(value);
    }
  }
  void save(StateWriter& to) const {
    save(to, [&to](const Value& value) { to.put(value); });
  }
  /// Instead of all that was kept. `get_value(from)` reads one value.
  template <typename GetValue>
  void load(StateReader& from, GetValue&& get_value) {
    values_.clear();
    const std::size_t shapes = from.get_count(kSavedBytes, kMostShapes);
    for (std::size_t i = 0; i < shapes; ++i) {
      Shape shape;
      shape.kind = static_cast<CollectiveKind>(from.get_below(kCollectiveKindCount));
      shape.count = static_cast<std::size_t>(from.get<std::uint64_t>());
      shape.dtype = static_cast<DType>(from.get_below(kDTypeCount));
      shape.op = static_cast<ReduceOp>(from.get_below(kReduceOpCount));
      values_[shape] = get_value(from);
    }
  }

 private:
  struct Shape {
    CollectiveKind kind = CollectiveKind::kAllReduce;
    std::size_t count = 0;
    DType dtype = DType::kFloat32;
    ReduceOp op = ReduceOp::kSum;

    auto operator<=>(const Shape&) const = default;
  };
  static constexpr std::size_t kSavedBytes = 11 + sizeof(Value);  // Of each.

  template <typename Call>
  static Shape shape_of(const Call& call) {
    return {call.kind, call.count, call.dtype, call.op};
  }

  std::map<Shape, Value> values_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_BY_SHAPE_H_
