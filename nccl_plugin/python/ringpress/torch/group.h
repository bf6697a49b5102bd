// The collectives of a process group on tensors. They block: the back end calls them in its worker.
#ifndef NCCL_PLUGIN_PYTHON_RINGPRESS_TORCH_GROUP_H_
#define NCCL_PLUGIN_PYTHON_RINGPRESS_TORCH_GROUP_H_

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nccl_functions.h"

namespace ringpress_torch {

using Tensors = std::vector<at::Tensor>;

/// "all_reduce got ...": what a tensor must be, in one message.
inline void check_tensor(const char* call, const at::Tensor& tensor, bool sparse_allowed = false) {
  TORCH_CHECK_VALUE(tensor.defined(), "ringpress: ", call, " got a tensor that is not defined");
  TORCH_CHECK_VALUE(
      tensor.device().is_cpu(), "ringpress: ", call, " got a tensor on ", tensor.device(),
      ". The back end ringpress takes tensors on the CPU. For GPUs use the back end nccl with "
      "libringpress-preload.so or the NCCL plugin.");
  TORCH_CHECK_VALUE(
      tensor.layout() == at::kStrided || (sparse_allowed && tensor.layout() == at::kSparse),
      "ringpress: ", call, " got a tensor of layout ", tensor.layout(),
      ". Allowed are dense tensors; all_reduce takes sparse_coo too.");
}

/// A contiguous tensor to write to, which reaches `target` with finish().
class Output {
 public:
  explicit Output(const at::Tensor& target)
      : target_(target),
        memory_(target.is_contiguous() ? target : at::empty(target.sizes(), target.options())) {}

  at::Tensor& memory() { return memory_; }
  void finish() {
    if (!memory_.is_same(target_)) target_.copy_(memory_);
  }

 private:
  at::Tensor target_, memory_;
};

class Group {
 public:
  Group(std::shared_ptr<NcclFunctions> functions, ncclUniqueId id, int rank, int size)
      : functions_(std::move(functions)), rank_(rank), size_(size) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t made = nullptr;
    functions_->check(functions_->init_rank(&made, size, id, rank, &config));
    comm_ = made;
  }

  /// To be called once nothing is being done.
  ~Group() {
    if (ncclComm_t comm = comm_.exchange(nullptr)) functions_->destroy(comm);
  }

  /// From any thread: calls in progress and later ones fail.
  void abort() {
    if (ncclComm_t comm = comm_.exchange(nullptr)) functions_->abort(comm);
  }

  ncclComm_t comm() const { return comm_; }
  const std::shared_ptr<NcclFunctions>& functions() const { return functions_; }
  int rank() const { return rank_; }
  int size() const { return size_; }

  void all_reduce(const at::Tensor& tensor, const c10d::ReduceOp& op) const;
  void reduce(const at::Tensor& tensor, const c10d::ReduceOp& op, int root) const;
  /// `input` has size() times as many elements as `output`.
  void reduce_scatter(const at::Tensor& output, const at::Tensor& input,
                      const c10d::ReduceOp& op) const;
  void broadcast(const at::Tensor& tensor, int root) const;
  /// `output` has size() times as many elements as `input`.
  void all_gather(const at::Tensor& output, const at::Tensor& input) const;
  /// Tensor i to rank i, and from rank i into output i. Empty ones are not sent.
  void exchange(const Tensors& outputs, const Tensors& inputs) const;
  void barrier() const;

 private:
  at::Tensor gathered(const at::Tensor& tensor) const;
  void all_reduce_sparse(const at::Tensor& tensor, const c10d::ReduceOp& op) const;
  at::Tensor folded(const at::Tensor& tensor, c10d::ReduceOp::RedOpType op) const;
  void check(ncclResult_t result) const { functions_->check(result); }
  ncclComm_t live() const;

  std::shared_ptr<NcclFunctions> functions_;
  int rank_, size_;
  std::atomic<ncclComm_t> comm_{nullptr};
};

}  // namespace ringpress_torch

#endif  // NCCL_PLUGIN_PYTHON_RINGPRESS_TORCH_GROUP_H_
