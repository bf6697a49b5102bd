// The process-group back end "ringpress" for CPU tensors, for torch 1.13 and 2.x.
//
// A call checks its tensors, and hands the rest to the group's thread, which makes calls in the
// order in which they come. Sends and receives have a thread for each pair of ranks and direction,
// as those of a program may come in any order. Compiled at first use, against the torch that is
// installed (extension.py).
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#if TORCH_VERSION_MAJOR >= 2
#include <torch/csrc/distributed/c10d/Backend.hpp>
#endif

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "call_work.h"
#include "channel.h"
#include "group.h"
#include "tensor_lists.h"
#include "worker.h"

namespace ringpress_torch {
namespace {

using c10d::OpType;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;
using TensorLists = std::vector<Tensors>;
#if TORCH_VERSION_MAJOR >= 2
using Base = c10d::Backend;
#else
using Base = c10d::ProcessGroup;
#endif

/// A channel, and the thread that uses it.
struct ChannelThread {
  std::shared_ptr<Channel> channel;
  Worker worker;
};

class RingpressBackend : public Base {
 public:
  RingpressBackend(const std::string& library, const c10::intrusive_ptr<c10d::Store>& store,
                   const std::string& id, int rank, int size, Milliseconds timeout)
      : Base(rank, size), store_(store), timeout_(timeout) {
    TORCH_CHECK_VALUE(id.size() == NCCL_UNIQUE_ID_BYTES, "ringpress: the unique id has ", id.size(),
                      " bytes");
    ncclUniqueId unique;
    std::memcpy(unique.internal, id.data(), sizeof unique.internal);
    group_ = std::make_shared<Group>(std::make_shared<NcclFunctions>(library), unique, rank, size);
    worker_ = std::make_unique<Worker>();
  }

  ~RingpressBackend() override { end(false); }

  const std::string getBackendName() const override { return "ringpress"; }
  std::int64_t handle() const { return reinterpret_cast<std::int64_t>(group_->comm()); }

  /// What was asked for is done first; `now`: it fails instead.
  void end(bool now) {
    // The worker may wait for the GIL, to call what Python has attached to a future.
    std::unique_ptr<pybind11::gil_scoped_release> released;
    if (Py_IsInitialized() && PyGILState_Check())
      released = std::make_unique<pybind11::gil_scoped_release>();
    if (now) group_->abort();
    std::map<std::pair<int, int>, std::unique_ptr<ChannelThread>> channels;
    {
      const std::lock_guard<std::mutex> lock(channels_mutex_);
      channels.swap(channels_);
    }
    for (const auto& entry : channels) entry.second->channel->stop(now);
    worker_.reset();
  }

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 6)
  void abort() override {
    end(true);
  }
  void shutdown() override {
    end(false);
  }
#endif

  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override {
    return sequence_;
  }

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    check_all("broadcast", tensors);
    return add(OpType::BROADCAST, "ringpress:broadcast", tensors,
               [tensors, root = root_of(options)](Group& group) {
                 for (const at::Tensor& tensor : tensors) group.broadcast(tensor, root);
               });
  }

  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    for (const at::Tensor& tensor : tensors) check_tensor("all_reduce", tensor, true);
    return add(OpType::ALLREDUCE, "ringpress:all_reduce", tensors,
               [tensors, op = options.reduceOp](Group& group) {
                 for (const at::Tensor& tensor : tensors) group.all_reduce(tensor, op);
               });
  }

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1)
  WorkPointer allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return allreduce(tensors, options);
  }
#endif

  WorkPointer allreduce_coalesced(Tensors& tensors,
                                  const c10d::AllreduceCoalescedOptions& options) override {
    return allreduce(tensors, options);
  }

  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    check_all("reduce", tensors);
    return add(OpType::REDUCE, "ringpress:reduce", tensors,
               [tensors, root = root_of(options), op = options.reduceOp](Group& group) {
                 for (const at::Tensor& tensor : tensors) group.reduce(tensor, op, root);
               });
  }

  WorkPointer allgather(TensorLists& outputs, Tensors& inputs,
                        const c10d::AllgatherOptions&) override {
    const at::Tensor input = only("all_gather", inputs);
    const Tensors parts = list_of("all_gather", outputs);
    check_tensor("all_gather", input);
    check_alike("all_gather", parts, input);
    return add(OpType::ALLGATHER, "ringpress:all_gather", parts,
               [parts, input](Group& group) { gather_to(group, parts, input); });
  }

  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const c10d::AllgatherOptions&) override {
    check_parts("all_gather_into_tensor", output, input);
    return add(OpType::_ALLGATHER_BASE, "ringpress:_all_gather_base", {output},
               [output, input](Group& group) { group.all_gather(output, input); });
  }

  /// outputs[rank][i] gets tensor i of that rank.
  WorkPointer allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions&) override {
    TORCH_CHECK_VALUE(static_cast<int>(outputs.size()) == getSize(),
                      "ringpress: all_gather_coalesced got ", outputs.size(),
                      " lists for a group of ", getSize());
    Tensors all;
    for (const Tensors& list : outputs) {
      TORCH_CHECK_VALUE(list.size() == inputs.size(),
                        "ringpress: all_gather_coalesced got a list of ", list.size(),
                        " outputs for ", inputs.size(), " inputs");
      for (std::size_t i = 0; i < list.size(); ++i)
        check_alike("all_gather_coalesced", {list[i]}, inputs[i]);
      all.insert(all.end(), list.begin(), list.end());
    }
    return add(OpType::ALLGATHER_COALESCED, "ringpress:all_gather_coalesced", all,
               [outputs, inputs](Group& group) {
                 for (std::size_t i = 0; i < inputs.size(); ++i) {
                   Tensors parts;
                   for (const Tensors& list : outputs) parts.push_back(list[i]);
                   gather_to(group, parts, inputs[i]);
                 }
               });
  }

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1)
  WorkPointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions&) override {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      check_parts("all_gather_into_tensor", outputs.at(i), inputs[i]);
    return add(OpType::ALLGATHER_COALESCED, "ringpress:all_gather_into_tensor_coalesced", outputs,
               [outputs, inputs](Group& group) {
                 for (std::size_t i = 0; i < inputs.size(); ++i)
                   group.all_gather(outputs[i], inputs[i]);
               });
  }

  WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::ReduceScatterOptions& options) override {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      check_parts("reduce_scatter_tensor", inputs[i], outputs.at(i));
    return add(OpType::REDUCE_SCATTER, "ringpress:reduce_scatter_tensor_coalesced", outputs,
               [outputs, inputs, op = options.reduceOp](Group& group) {
                 for (std::size_t i = 0; i < inputs.size(); ++i)
                   group.reduce_scatter(outputs[i], inputs[i], op);
               });
  }
#endif

  WorkPointer gather(TensorLists& outputs, Tensors& inputs,
                     const c10d::GatherOptions& options) override {
    const at::Tensor input = only("gather", inputs);
    check_tensor("gather", input);
    const int root = root_of(options);
    const Tensors parts = getRank() == root ? list_of("gather", outputs) : Tensors{};
    check_alike("gather", parts, input);
    return add(OpType::GATHER, "ringpress:gather", parts, [parts, input, root](Group& group) {
      const at::Tensor nothing = at::empty({0}, input.options());
      Tensors to_send(group.size(), nothing);
      to_send[root] = input;
      group.exchange(parts.empty() ? Tensors(group.size(), nothing) : parts, to_send);
    });
  }

  WorkPointer scatter(Tensors& outputs, TensorLists& inputs,
                      const c10d::ScatterOptions& options) override {
    const at::Tensor output = only("scatter", outputs);
    check_tensor("scatter", output);
    const int root = root_of(options);
    const Tensors parts = getRank() == root ? list_of("scatter", inputs) : Tensors{};
    check_alike("scatter", parts, output);
    return add(OpType::SCATTER, "ringpress:scatter", outputs, [parts, output, root](Group& group) {
      const at::Tensor nothing = at::empty({0}, output.options());
      Tensors to_receive(group.size(), nothing);
      to_receive[root] = output;
      group.exchange(to_receive, parts.empty() ? Tensors(group.size(), nothing) : parts);
    });
  }

  WorkPointer reduce_scatter(Tensors& outputs, TensorLists& inputs,
                             const c10d::ReduceScatterOptions& options) override {
    const at::Tensor output = only("reduce_scatter", outputs);
    const Tensors parts = list_of("reduce_scatter", inputs);
    check_tensor("reduce_scatter", output);
    check_alike("reduce_scatter", parts, output);
    return add(OpType::REDUCE_SCATTER, "ringpress:reduce_scatter", outputs,
               [parts, output, op = options.reduceOp](Group& group) {
                 group.reduce_scatter(output, joined(parts), op);
               });
  }

  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override {
    check_parts("reduce_scatter_tensor", input, output);
    return add(OpType::_REDUCE_SCATTER_BASE, "ringpress:_reduce_scatter_base", {output},
               [output, input, op = options.reduceOp](Group& group) {
                 group.reduce_scatter(output, input, op);
               });
  }

  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input,
                            std::vector<int64_t>& output_sizes, std::vector<int64_t>& input_sizes,
                            const c10d::AllToAllOptions&) override {
    check_alike("all_to_all_single", {output}, input, false);
    check_tensor("all_to_all_single", input);
    TORCH_CHECK_VALUE(
        output.is_contiguous() && input.is_contiguous(),
        "ringpress: all_to_all_single takes contiguous tensors. Pass tensor.contiguous().");
    const Tensors parts = cut("all_to_all_single", output, output_sizes, getSize());
    const Tensors sent = cut("all_to_all_single", input, input_sizes, getSize());
    return add(OpType::ALLTOALL_BASE, "ringpress:all_to_all", {output},
               [parts, sent](Group& group) { group.exchange(parts, sent); });
  }

  WorkPointer alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions&) override {
    check_all("all_to_all", inputs);
    check_all("all_to_all", outputs);
    const auto size = static_cast<std::size_t>(getSize());
    TORCH_CHECK_VALUE(inputs.size() == size && outputs.size() == size, "ringpress: all_to_all got ",
                      inputs.size(), " inputs and ", outputs.size(), " outputs for a group of ",
                      size);
    return add(OpType::ALLTOALL, "ringpress:all_to_all", outputs,
               [outputs, inputs](Group& group) { group.exchange(outputs, inputs); });
  }

  WorkPointer barrier(const c10d::BarrierOptions&) override {
    return add(OpType::BARRIER, "ringpress:barrier", {}, [](Group& group) { group.barrier(); });
  }

  WorkPointer send(Tensors& tensors, int to, int tag) override {
    const at::Tensor tensor = only("send", tensors);
    check_tensor("send", tensor);
    return add_message(getRank(), to, OpType::SEND, "ringpress:send", {},
                       [tensor, tag](Channel& channel) {
                         const at::Tensor source = tensor.contiguous();
                         channel.send(tag, source.data_ptr(), source.nbytes());
                       });
  }

  WorkPointer recv(Tensors& tensors, int from, int tag) override {
    const at::Tensor tensor = only("recv", tensors);
    check_tensor("recv", tensor);
    const auto work = add_message(
        from, getRank(), OpType::RECV, "ringpress:recv", tensors, [tensor, tag](Channel& channel) {
          Output target(tensor);
          channel.receive(tag, target.memory().data_ptr(), target.memory().nbytes());
          target.finish();
        });
    static_cast<CallWork*>(work.get())->set_source(from);
    return work;
  }

  WorkPointer recvAnysource(Tensors&, int) override {
    TORCH_CHECK(
        false,
        "ringpress: recv() from any rank is not supported. Name the rank: recv(tensor, src=RANK).");
  }

 private:
  using Call = std::function<void(Group&)>;

  template <typename Options>
  int root_of(const Options& options) const {
    TORCH_CHECK_VALUE(options.rootRank >= 0 && options.rootRank < getSize(),
                      "ringpress: the root is rank ", options.rootRank, ", but must be from 0 to ",
                      getSize() - 1);
    return static_cast<int>(options.rootRank);
  }

  /// The one list of a call, which has a tensor for each rank.
  Tensors list_of(const char* call, const TensorLists& lists) const {
    TORCH_CHECK_VALUE(lists.size() == 1 && static_cast<int>(lists[0].size()) == getSize(),
                      "ringpress: ", call, " takes a list of ", getSize(),
                      " tensors, one for each rank, not ", lists.empty() ? 0 : lists[0].size());
    return lists[0];
  }

  /// `all` has a part like `part` for each rank.
  void check_parts(const char* call, const at::Tensor& all, const at::Tensor& part) const {
    check_tensor(call, part);
    check_alike(call, {all}, part, false);
    TORCH_CHECK_VALUE(all.numel() == part.numel() * getSize(), "ringpress: ", call,
                      " got tensors of ", all.numel(), " and ", part.numel(),
                      " elements. The one must have ", getSize(), " times as many as the other.");
  }

  static void gather_to(Group& group, const Tensors& parts, const at::Tensor& input) {
    const at::Tensor all = at::empty({group.size(), input.numel()}, input.options());
    group.all_gather(all, input);
    spread(all, parts);
  }

  WorkPointer add(OpType type, const char* title, const Tensors& outputs, Call call) {
    TORCH_CHECK(worker_ != nullptr, "ringpress: the process group has ended");
    ++sequence_;
    return add_to(*worker_, type, title, outputs, std::move(call));
  }

  WorkPointer add_to(Worker& worker, OpType type, const char* title, const Tensors& outputs,
                     Call call) {
    auto work = c10::make_intrusive<CallWork>(getRank(), type, title, outputs, timeout_, group_);
    worker.add(
        [work, call = std::move(call), group = group_] { work->run([&] { call(*group); }); });
    return work;
  }

  /// From rank `from` to rank `to`, of which one is this rank. The channel is made when it is first
  /// used.
  WorkPointer add_message(int from, int to, OpType type, const char* title, const Tensors& outputs,
                          std::function<void(Channel&)> call) {
    const bool sends = from == getRank();
    const int peer = sends ? to : from;
    TORCH_CHECK_VALUE(peer >= 0 && peer < getSize() && peer != getRank(), "ringpress: rank ",
                      getRank(), " cannot send to or receive from rank ", peer, " in a group of ",
                      getSize());
    TORCH_CHECK(worker_ != nullptr, "ringpress: the process group has ended");
    const std::lock_guard<std::mutex> lock(channels_mutex_);
    std::unique_ptr<ChannelThread>& thread = channels_[{from, to}];
    if (thread == nullptr) {
      thread = std::make_unique<ChannelThread>();
      thread->channel = std::make_shared<Channel>(group_->functions(),
                                                  Meeting(store_, from, to, sends, timeout_));
    }
    return add_to(thread->worker, type, title, outputs,
                  [channel = thread->channel, call = std::move(call)](Group&) { call(*channel); });
  }

  c10::intrusive_ptr<c10d::Store> store_;
  Milliseconds timeout_;
  std::shared_ptr<Group> group_;
  std::mutex channels_mutex_;
  std::map<std::pair<int, int>, std::unique_ptr<ChannelThread>> channels_;  // By sender, receiver.
  std::unique_ptr<Worker> worker_;  // Null: the group has ended.
  std::atomic<uint64_t> sequence_{0};
};

RingpressBackend& own(const c10::intrusive_ptr<Base>& backend) {
  auto* const found = dynamic_cast<RingpressBackend*>(backend.get());
  TORCH_CHECK_TYPE(found != nullptr, "the process group is not one of the back end ringpress");
  return *found;
}

}  // namespace
}  // namespace ringpress_torch

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  using ringpress_torch::Base;
  using ringpress_torch::RingpressBackend;
  namespace py = pybind11;
  module.def(
      "create",
      [](const std::string& library, const c10::intrusive_ptr<c10d::Store>& store,
         const py::bytes& id, int rank, int size,
         std::chrono::milliseconds timeout) -> c10::intrusive_ptr<Base> {
        const std::string text = id;
        const py::gil_scoped_release released;
        return c10::make_intrusive<RingpressBackend>(library, store, text, rank, size, timeout);
      },
      py::arg("library"), py::arg("store"), py::arg("id"), py::arg("rank"), py::arg("size"),
      py::arg("timeout"));
  module.def("handle", [](const c10::intrusive_ptr<Base>& backend) {
    return ringpress_torch::own(backend).handle();
  });
  module.def("abort", [](const c10::intrusive_ptr<Base>& backend) {
    ringpress_torch::own(backend).end(true);
  });
}
