#include "group.h"

#include <algorithm>

namespace ringpress_torch {
namespace {

using Op = c10d::ReduceOp::RedOpType;

const char* name_of(Op op) {
  static const char* const kNames[] = {"SUM",  "AVG", "PRODUCT", "MIN",       "MAX",
                                       "BAND", "BOR", "BXOR",    "PREMUL_SUM"};
  return op < sizeof kNames / sizeof *kNames ? kNames[op] : "unknown";
}

bool is_bitwise(Op op) {
  return op == Op::BAND || op == Op::BOR || op == Op::BXOR;
}

[[noreturn]] void refuse(Op op, at::ScalarType type) {
  TORCH_CHECK_VALUE(false, "ringpress: the operation ", name_of(op), " on ", type,
                    " is not supported. Sums take uint8, int8, int16, int32, int64, bool, float16, "
                    "bfloat16, float32, "
                    "float64 and complex types; complex ones take SUM and AVG alone, bool has no "
                    "AVG, and floats have "
                    "no bitwise operations.");
}

ncclRedOp_t native_op(Op op, at::ScalarType type) {
  switch (op) {
    case Op::SUM:
      return ncclSum;
    case Op::AVG:
      return ncclAvg;
    case Op::PRODUCT:
      return ncclProd;
    case Op::MIN:
      return ncclMin;
    case Op::MAX:
      return ncclMax;
    default:
      refuse(op, type);
  }
}

/// What is true stays 1, whatever is added up.
ncclRedOp_t bool_op(Op op) {
  switch (op) {
    case Op::SUM:
    case Op::MAX:
      return ncclMax;
    case Op::PRODUCT:
    case Op::MIN:
      return ncclMin;
    default:
      refuse(op, at::kBool);
  }
}

ncclDataType_t native_type(Op op, at::ScalarType type) {
  switch (type) {
    case at::kByte:
      return ncclUint8;
    case at::kChar:
      return ncclInt8;
    case at::kInt:
      return ncclInt32;
    case at::kLong:
      return ncclInt64;
    case at::kHalf:
      return ncclFloat16;
    case at::kFloat:
      return ncclFloat32;
    case at::kDouble:
      return ncclFloat64;
    case at::kBFloat16:
      return ncclBfloat16;
    default:
      refuse(op, type);
  }
}

/// A tensor of a type that the library adds up, made of `tensor`; the same memory where that can
/// be.
struct Summand {
  at::Tensor values;
  ncclDataType_t type;
  ncclRedOp_t op;
};

// The factor of PREMUL_SUM, if it is a tensor: later torch has one, torch 1.13 and 2.0 have a list.
template <typename Supplement>
auto factor_of(const Supplement& supplement, int)
    -> decltype(at::Tensor(supplement.tensor_factor)) {
  return supplement.tensor_factor;
}
template <typename Supplement>
at::Tensor factor_of(const Supplement& supplement, long) {
  return supplement.tensor_factors.empty() ? at::Tensor() : supplement.tensor_factors.front();
}

at::Tensor scaled(const at::Tensor& tensor, const c10d::ReduceOp& op) {
  const auto* found = static_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK_VALUE(found != nullptr, "ringpress: PREMUL_SUM has no factor");
  const at::Tensor factor = factor_of(*found, 0);
  return factor.defined() ? tensor * factor : tensor * found->double_factor;
}

Summand summand_of(const at::Tensor& contiguous, const c10d::ReduceOp& asked) {
  Op op = asked.op_;
  at::Tensor values = contiguous;
  if (op == Op::PREMUL_SUM) {
    values = scaled(values, asked).to(contiguous.scalar_type()).contiguous();
    op = Op::SUM;
  }
  const at::ScalarType type = values.scalar_type();
  if (type == at::kBool) return {values.view(at::kByte), ncclUint8, bool_op(op)};
  if (type == at::kShort) return {values.to(at::kInt), ncclInt32, native_op(op, type)};
  if (at::isComplexType(type)) {
    if (op != Op::SUM && op != Op::AVG) refuse(op, type);
    const at::Tensor pairs = at::view_as_real(values);
    return {pairs, native_type(op, pairs.scalar_type()), native_op(op, type)};
  }
  return {values, native_type(op, type), native_op(op, type)};
}

/// The same memory as the library sees it: numbers.
at::Tensor as_numbers(const at::Tensor& tensor) {
  if (at::isComplexType(tensor.scalar_type())) return at::view_as_real(tensor);
  return tensor.scalar_type() == at::kBool ? tensor.view(at::kByte) : tensor;
}

/// Where a sum is written: `target` itself, or memory that finish_sum() takes it from.
at::Tensor room_for_sum(const at::Tensor& target) {
  if (target.scalar_type() == at::kShort)
    return at::empty(target.sizes(), target.options().dtype(at::kInt));
  return as_numbers(target.is_contiguous() ? target : at::empty(target.sizes(), target.options()));
}

void finish_sum(const at::Tensor& target, const at::Tensor& room) {
  if (room.data_ptr() == target.data_ptr()) return;
  target.copy_(at::isComplexType(target.scalar_type()) ? at::view_as_complex(room) : room);
}

std::size_t count_of(const at::Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel());
}

}  // namespace

ncclComm_t Group::live() const {
  const ncclComm_t comm = comm_;
  TORCH_CHECK(comm != nullptr, "ringpress: the process group was aborted or has ended");
  return comm;
}

void Group::all_reduce(const at::Tensor& tensor, const c10d::ReduceOp& op) const {
  if (tensor.layout() == at::kSparse) return all_reduce_sparse(tensor, op);
  if (is_bitwise(op.op_)) {
    tensor.copy_(folded(tensor, op.op_));
    return;
  }
  const Summand summand = summand_of(tensor.contiguous(), op);
  const at::Tensor room = room_for_sum(tensor);
  check(functions_->all_reduce(summand.values.data_ptr(), room.data_ptr(), count_of(summand.values),
                               summand.type, summand.op, live(), nullptr));
  finish_sum(tensor, room);
}

void Group::reduce(const at::Tensor& tensor, const c10d::ReduceOp& op, int root) const {
  if (is_bitwise(op.op_)) {
    const at::Tensor result = folded(tensor, op.op_);
    if (rank_ == root) tensor.copy_(result);
    return;
  }
  const Summand summand = summand_of(tensor.contiguous(), op);
  const at::Tensor room = rank_ == root ? room_for_sum(tensor) : summand.values;
  check(functions_->reduce(summand.values.data_ptr(), room.data_ptr(), count_of(summand.values),
                           summand.type, summand.op, root, live(), nullptr));
  if (rank_ == root) finish_sum(tensor, room);
}

void Group::reduce_scatter(const at::Tensor& output, const at::Tensor& input,
                           const c10d::ReduceOp& op) const {
  if (is_bitwise(op.op_)) {
    const at::Tensor parts = folded(input, op.op_).reshape({size_, -1});
    output.copy_(parts[rank_].view(output.sizes()));
    return;
  }
  const Summand summand = summand_of(input.contiguous(), op);
  const at::Tensor room = room_for_sum(output);
  check(functions_->reduce_scatter(summand.values.data_ptr(), room.data_ptr(), count_of(room),
                                   summand.type, summand.op, live(), nullptr));
  finish_sum(output, room);
}

void Group::broadcast(const at::Tensor& tensor, int root) const {
  const at::Tensor source = tensor.contiguous();
  check(functions_->broadcast(source.data_ptr(), source.data_ptr(), source.nbytes(), ncclUint8,
                              root, live(), nullptr));
  if (!source.is_same(tensor) && rank_ != root) tensor.copy_(source);
}

void Group::all_gather(const at::Tensor& output, const at::Tensor& input) const {
  const at::Tensor source = input.contiguous();
  Output target(output);
  check(functions_->all_gather(source.data_ptr(), target.memory().data_ptr(), source.nbytes(),
                               ncclUint8, live(), nullptr));
  target.finish();
}

void Group::exchange(const Tensors& outputs, const Tensors& inputs) const {
  Tensors sources;
  std::vector<Output> targets;
  for (const at::Tensor& input : inputs) sources.push_back(input.contiguous());
  for (const at::Tensor& output : outputs) targets.emplace_back(output);
  const ncclComm_t comm = live();
  ncclResult_t result = functions_->group_start();
  for (int peer = 0; peer < size_ && result == ncclSuccess; ++peer) {
    const at::Tensor& source = sources[peer];
    at::Tensor& target = targets[peer].memory();
    if (peer == rank_) {
      if (source.nbytes() > 0) std::memcpy(target.data_ptr(), source.data_ptr(), source.nbytes());
      continue;
    }
    if (source.nbytes() > 0) {
      result = functions_->send(source.data_ptr(), source.nbytes(), ncclUint8, peer, comm, nullptr);
    }
    if (target.nbytes() > 0 && result == ncclSuccess) {
      result =
          functions_->receive(target.data_ptr(), target.nbytes(), ncclUint8, peer, comm, nullptr);
    }
  }
  const ncclResult_t ended = functions_->group_end();
  check(result == ncclSuccess ? ended : result);
  for (Output& target : targets) target.finish();
}

void Group::barrier() const {
  int value = 0;
  check(functions_->all_reduce(&value, &value, 1, ncclInt32, ncclSum, live(), nullptr));
}

/// Of all ranks, one after the other: one dimension more than `tensor` has.
at::Tensor Group::gathered(const at::Tensor& tensor) const {
  std::vector<int64_t> shape = tensor.sizes().vec();
  shape.insert(shape.begin(), size_);
  const at::Tensor all = at::empty(shape, tensor.options());
  all_gather(all, tensor);
  return all;
}

/// What the library has no operator for, piece by piece, so that little memory is needed.
at::Tensor Group::folded(const at::Tensor& tensor, Op op) const {
  constexpr int64_t kPiece = 1 << 20;  // Elements of a rank.
  if (!at::isIntegralType(tensor.scalar_type(), true)) refuse(op, tensor.scalar_type());
  const at::Tensor values = tensor.contiguous().view(-1);
  const at::Tensor result = at::empty_like(values);
  for (int64_t begin = 0; begin < values.numel(); begin += kPiece) {
    const int64_t count = std::min(kPiece, values.numel() - begin);
    const at::Tensor all = gathered(values.narrow(0, begin, count));
    at::Tensor sum = all[0];
    for (int rank = 1; rank < size_; ++rank) {
      sum = op == Op::BAND  ? at::bitwise_and(sum, all[rank])
            : op == Op::BOR ? at::bitwise_or(sum, all[rank])
                            : at::bitwise_xor(sum, all[rank]);
    }
    result.narrow(0, begin, count).copy_(sum);
  }
  return result.view(tensor.sizes());
}

/// Ranks may have different places: all places of all ranks are gathered, padded to as many as one
/// has.
void Group::all_reduce_sparse(const at::Tensor& tensor, const c10d::ReduceOp& op) const {
  TORCH_CHECK_VALUE(op.op_ == Op::SUM, "ringpress: all_reduce of a sparse tensor takes SUM, not ",
                    name_of(op.op_));
  const at::Tensor own = tensor.coalesce();
  const at::Tensor counts = gathered(at::full({1}, own._nnz(), at::kLong));
  const int64_t most = counts.max().item<int64_t>();
  at::Tensor places = at::zeros({own.sparse_dim(), most}, at::kLong);
  places.narrow(1, 0, own._nnz()).copy_(own.indices());
  std::vector<int64_t> shape = own.values().sizes().vec();
  shape[0] = most;
  at::Tensor values = at::zeros(shape, own.values().options());
  values.narrow(0, 0, own._nnz()).copy_(own.values());
  const at::Tensor all_places = gathered(places), all_values = gathered(values);
  Tensors found_places, found_values;
  for (int rank = 0; rank < size_; ++rank) {
    const int64_t count = counts[rank].item<int64_t>();
    found_places.push_back(all_places[rank].narrow(1, 0, count));
    found_values.push_back(all_values[rank].narrow(0, 0, count));
  }
  const at::Tensor sum =
      at::sparse_coo_tensor(at::cat(found_places, 1), at::cat(found_values, 0), tensor.sizes())
          .coalesce();
  at::Tensor(tensor).copy_(sum);
}

}  // namespace ringpress_torch
