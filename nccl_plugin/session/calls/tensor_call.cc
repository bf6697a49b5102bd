#include "nccl_plugin/session/calls/tensor_call.h"

namespace ringpress::nccl_plugin {
namespace {

// No more elements have an address.
constexpr std::uint64_t kMostSavedElements = std::uint64_t{1} << 56;

}  // namespace

bool has_shape_of(const TensorCall& call, const TensorCall& other) {
  TensorCall moved = call;
  moved.address = other.address;
  return moved == other;
}

void save_call(const TensorCall& call, StateWriter& to) {
  to.put(call.kind);
  to.put(call.dtype);
  to.put(call.op);
  to.put<std::uint64_t>(call.count);
  to.put<std::uint64_t>(reinterpret_cast<std::uintptr_t>(call.address));
  to.put(call.layout);
}

TensorCall load_call(StateReader& from) {
  TensorCall call;
  call.kind = static_cast<CollectiveKind>(from.get_below(kCollectiveKindCount));
  call.dtype = static_cast<DType>(from.get_below(kDTypeCount));
  call.op = static_cast<ReduceOp>(from.get_below(kReduceOpCount));
  const auto count = from.get<std::uint64_t>();
  from.require(count < kMostSavedElements);
  call.count = static_cast<std::size_t>(count);
  const auto address = static_cast<std::uintptr_t>(from.get<std::uint64_t>());
  call.address = reinterpret_cast<const void*>(address);  // NOLINT(performance-no-int-to-ptr)
  call.layout = from.get<std::uint64_t>();
  return call;
}

}  // namespace ringpress::nccl_plugin
