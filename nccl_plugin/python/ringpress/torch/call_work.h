// What torch waits for: a call under way.
#ifndef NCCL_PLUGIN_PYTHON_RINGPRESS_TORCH_CALL_WORK_H_
#define NCCL_PLUGIN_PYTHON_RINGPRESS_TORCH_CALL_WORK_H_

#include <ATen/ATen.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "group.h"

namespace ringpress_torch {

using Milliseconds = std::chrono::milliseconds;

/// A call under way. Its future has the tensors that the call writes.
class CallWork : public c10d::Work {
 public:
  CallWork(int rank, c10d::OpType type, const char* title, Tensors outputs, Milliseconds timeout,
           std::weak_ptr<Group> group)
      : Work(rank, type, title),
        outputs_(std::move(outputs)),
        timeout_(timeout),
        group_(std::move(group)),
        future_(c10::make_intrusive<c10::ivalue::Future>(
            c10::ListType::create(c10::TensorType::get()))) {}

  /// Does the call, in the group's thread.
  void run(const std::function<void()>& call) {
    std::exception_ptr error;
    try {
      const at::NoGradGuard no_gradients;
      call();
    } catch (...) {
      error = std::current_exception();
    }
    if (error) {
      future_->setError(error);
    } else {
      future_->markCompleted(at::IValue(outputs_));
    }
    finish(error);
  }

  /// Throws what the call threw. After the group's timeout the group is aborted; after one of the
  /// caller it is not.
  bool wait(Milliseconds timeout) override {
    const bool is_own = timeout == kNoTimeout;
    std::unique_lock<std::mutex> lock(mutex_);
    if (!cv_.wait_for(lock, is_own ? timeout_ : timeout, [this] { return completed_; })) {
      lock.unlock();
      const std::shared_ptr<Group> group = group_.lock();
      if (is_own && group != nullptr) group->abort();
      // Programs look for Gloo's words: "Timed out".
      TORCH_CHECK(false, "ringpress: Timed out after ", (is_own ? timeout_ : timeout).count(),
                  " ms: the call has not ended");
    }
    if (exception_) std::rethrow_exception(exception_);
    return true;
  }

  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  void set_source(int rank) { source_ = rank; }
  int sourceRank() const override { return source_; }

 private:
  Tensors outputs_;
  Milliseconds timeout_;
  std::weak_ptr<Group> group_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  int source_ = -1;
};

}  // namespace ringpress_torch

#endif  // NCCL_PLUGIN_PYTHON_RINGPRESS_TORCH_CALL_WORK_H_
