// Lists of tensors as torch passes them: checked, joined and cut.
#ifndef NCCL_PLUGIN_PYTHON_RINGPRESS_TORCH_TENSOR_LISTS_H_
#define NCCL_PLUGIN_PYTHON_RINGPRESS_TORCH_TENSOR_LISTS_H_

#include <ATen/ATen.h>

#include <vector>

#include "group.h"

namespace ringpress_torch {

inline void check_all(const char* call, const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) check_tensor(call, tensor);
}

/// All of one type; of `like`'s size too if `same_size`.
inline void check_alike(const char* call, const Tensors& tensors, const at::Tensor& like,
                        bool same_size = true) {
  for (const at::Tensor& tensor : tensors) {
    check_tensor(call, tensor);
    TORCH_CHECK_VALUE(tensor.scalar_type() == like.scalar_type(), "ringpress: ", call,
                      " got tensors of the types ", like.scalar_type(), " and ",
                      tensor.scalar_type(), ". They must be equal.");
    TORCH_CHECK_VALUE(!same_size || tensor.numel() == like.numel(), "ringpress: ", call,
                      " got tensors of ", like.numel(), " and ", tensor.numel(),
                      " elements. They must be equal.");
  }
}

inline const at::Tensor& only(const char* call, const Tensors& tensors) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "ringpress: ", call, " takes one tensor, not ",
                    tensors.size());
  return tensors.front();
}

/// `tensors` one after the other, in one tensor.
inline at::Tensor joined(const Tensors& tensors) {
  Tensors flat;
  for (const at::Tensor& tensor : tensors) flat.push_back(tensor.reshape({-1}));
  return at::cat(flat);
}

/// The converse: parts of `all` to `tensors`, all of the same size.
inline void spread(const at::Tensor& all, const Tensors& tensors) {
  const at::Tensor parts = all.view({static_cast<int64_t>(tensors.size()), -1});
  for (std::size_t i = 0; i < tensors.size(); ++i)
    tensors[i].copy_(parts[i].view(tensors[i].sizes()));
}

/// Views of `tensor` along its first dimension: of the sizes that are named, or `count` equal ones.
inline Tensors cut(const char* call, const at::Tensor& tensor, const std::vector<int64_t>& sizes,
                   int count) {
  if (sizes.empty()) {
    TORCH_CHECK_VALUE(tensor.size(0) % count == 0, "ringpress: ", call,
                      " got a tensor whose first dimension, ", tensor.size(0),
                      ", is no multiple of the group's size, ", count);
    return at::chunk(tensor.view({count, -1}), count);
  }
  int64_t sum = 0;
  for (const int64_t size : sizes) sum += size;
  TORCH_CHECK_VALUE(static_cast<int>(sizes.size()) == count && sum == tensor.size(0),
                    "ringpress: ", call, " got ", sizes.size(), " split sizes of sum ", sum,
                    " for a tensor whose first dimension is ", tensor.size(0), " and a group of ",
                    count);
  return tensor.split_with_sizes(sizes);
}

}  // namespace ringpress_torch

#endif  // NCCL_PLUGIN_PYTHON_RINGPRESS_TORCH_TENSOR_LISTS_H_
