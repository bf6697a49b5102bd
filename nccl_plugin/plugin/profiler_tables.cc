// The profiler that NCCL finds in this library. It profiles nothing: it learns which tensor the
// pieces that CollNet is given belong to (profiled_tensors.h). Every entry point succeeds. What
// this rank alone does not learn, for want of memory, ends the CollNet communicators that go by it:
// the other ranks know what it does not.
//
// There are no tables for versions 2 and 3: the releases that look for those (NCCL 2.24 to 2.26)
// tell of ProxyOps in the network transport alone, not in CollNet's. With Coll events only, nothing
// would be certain, and tensors would be taken for known that are not.
#include <unistd.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "nccl_plugin/abi/profiler_v4.h"
#include "nccl_plugin/abi/profiler_v5.h"
#include "nccl_plugin/abi/profiler_v6.h"
#include "nccl_plugin/abi/profiler_v7.h"
#include "nccl_plugin/plugin/object.h"
#include "nccl_plugin/plugin/profiled_tensors.h"
#include "nccl_plugin/plugin/report.h"
#include "nccl_plugin/plugin/tensor_registry.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

/// What init gives as the context.
struct ProfiledComm : Object {
  static constexpr ObjectKind kKind = ObjectKind::kProfiledComm;
  explicit ProfiledComm(std::shared_ptr<TensorRegistry> opened)
      : Object(kKind), registry(std::move(opened)) {}
  const std::shared_ptr<TensorRegistry> registry;
};

bool equals(const char* text, const char* wanted) {
  return text != nullptr && std::strcmp(text, wanted) == 0;
}

// A communicator that is aborted is finalized while the progress thread, which others share with
// it, may still be told of its operations.
std::mutex comms_mutex;

Result<std::shared_ptr<TensorRegistry>> registry_of(void* ctx) {
  const std::lock_guard lock(comms_mutex);
  RINGPRESS_ASSIGN_OR_RETURN(const ProfiledComm* const comm, find_object<ProfiledComm>(ctx));
  return comm->registry;
}

/// 0 for types that CollNet is not given.
std::size_t element_bytes(const char* datatype) {
  if (equals(datatype, "ncclFloat32")) return 4;
  return equals(datatype, "ncclFloat16") || equals(datatype, "ncclBfloat16") ? 2 : 0;
}

// A handle's bits, from the lowest: the tensor's number in its registry, and the registry's.
constexpr unsigned kTensorBits = 40;
constexpr std::uint64_t kTensorMask = (std::uint64_t{1} << kTensorBits) - 1;

/// Handles are numbers, so that nothing is looked up behind one that came too late.
void* handle_of(const TensorRegistry& registry, std::uint64_t tensor) {
  const std::uint64_t number = registry.number() << kTensorBits | (tensor & kTensorMask);
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(number));
}

/// What the registry calls it; 0, which is no tensor, for the handle of another communicator.
std::uint64_t tensor_of(const TensorRegistry& registry, const void* handle) {
  const std::uint64_t number = reinterpret_cast<std::uintptr_t>(handle);
  const std::uint64_t own = registry.number() << kTensorBits;
  return (number & ~kTensorMask) == own ? number & kTensorMask : 0;
}

/// All-reduces that NCCL may give to CollNet. NVLS_TREE never goes there, NVLS does between nodes.
bool goes_to_collnet(const char* function, const char* algorithm) {
  return equals(function, "AllReduce") &&
         (equals(algorithm, "COLLNET_CHAIN") || equals(algorithm, "COLLNET_DIRECT") ||
          equals(algorithm, "NVLS"));
}

/// answer() for what other ranks learn, too.
template <typename Body>
void learn(const char* function, Body&& body) noexcept {
  const Status status = catch_all(std::forward<Body>(body));
  if (status.code() == Code::kSystem) note_lost_events();
  static_cast<void>(report(function, status));
}

/// What stands for a group: NCCL 2.27 tells only of collectives whose group has something.
char group_handle;

/// The communicator, as NCCL tells of it.
struct CommShape {
  std::uint64_t id = 0;
  int nodes = 0;
  int ranks = 0;
  ProfiledChannels profiled = ProfiledChannels::kAll;
};

ncclResult_t start(void** ctx, int* activation_mask, const CommShape& comm, abi::Logger logger) {
  set_logger(logger);
  learn("ncclProfiler init", [&]() -> Status {
    if (ctx == nullptr || activation_mask == nullptr) {
      return Status(Code::kInvalidArgument, "the context or the mask is null");
    }
    auto registry = open_tensor_registry(comm.id, comm.nodes, comm.ranks, comm.profiled);
    *ctx = (new ProfiledComm(std::move(registry)))->handle();
    *activation_mask = abi::kProfileColl | abi::kProfileProxyOp;
    return Status::ok();
  });
  return ncclSuccess;
}

ncclResult_t init_v5(void** ctx, std::uint64_t comm_id, int* activation_mask, const char*,
                     int nodes, int ranks, int, abi::Logger logger) {
  return start(ctx, activation_mask, {comm_id, nodes, ranks, ProfiledChannels::kAll}, logger);
}

/// Only NCCL 2.27 looks for it: later releases find version 5 first.
ncclResult_t init_v4(void** ctx, int* activation_mask, const char*, std::uint64_t comm_hash,
                     int nodes, int ranks, int, abi::Logger logger) {
  return start(ctx, activation_mask, {comm_hash, nodes, ranks, ProfiledChannels::kFirst}, logger);
}

/// What the program calls the tensor: from version 7 on. Numbers with the highest bit are NCCL's.
template <typename Coll>
std::uint64_t tag_of(const Coll& coll) {
  if constexpr (requires { coll.tag; }) return coll.tag >> 63 == 0 ? coll.tag : 0;
  return 0;
}

/// Gives what stands for the tensor; null for one that does not go to CollNet.
template <typename Coll>
Status start_tensor(void* ctx, const Coll& coll, void** handle) {
  if (!goes_to_collnet(coll.function, coll.algorithm)) return Status::ok();
  RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<TensorRegistry> registry, registry_of(ctx));
  const TensorEvent tensor{coll.send, coll.count, element_bytes(coll.datatype), coll.sequence,
                           tag_of(coll)};
  *handle = handle_of(*registry, registry->start_tensor(tensor));
  return Status::ok();
}

/// An operation that another process has handed over comes with that one's context and parent.
template <typename ProxyOp>
Status start_channel(void* ctx, const ProxyOp& op, void* parent, const void* place) {
  ProfiledTensors& profiled = profiled_tensors_of_this_thread();
  profiled.forget(place);  // Of an earlier operation.
  if (ctx == nullptr || parent == nullptr || op.process != getpid()) return Status::ok();
  if (op.steps < 0 || op.chunk_bytes < 0) return Status::ok();
  RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<TensorRegistry> registry, registry_of(ctx));
  const std::uint64_t tensor = tensor_of(*registry, parent);
  if (tensor == 0) return Status::ok();
  profiled.add_channel(registry.get(), {tensor, op.channel, static_cast<std::size_t>(op.steps),
                                        static_cast<std::size_t>(op.chunk_bytes), place});
  return Status::ok();
}

template <typename Event>
ncclResult_t start_event_v4(void* ctx, void** handle, Event* event) {
  if (handle == nullptr || event == nullptr) return ncclSuccess;
  *handle = nullptr;
  learn("ncclProfiler startEvent", [&]() -> Status {
    if (event->type == abi::kProfileProxyOp) {
      return start_channel(ctx, event->proxy_op, event->parent, handle);
    }
    if (ctx == nullptr) return Status::ok();
    if (event->type == abi::kProfileGroup) *handle = &group_handle;
    if (event->type == abi::kProfileColl) return start_tensor(ctx, event->coll, handle);
    return Status::ok();
  });
  return ncclSuccess;
}

ncclResult_t stop_event_v4(void*) {
  return ncclSuccess;
}

ncclResult_t record_event_state_v4(void*, int, abi::EventStateV4*) {
  return ncclSuccess;
}

ncclResult_t finalize_v4(void* ctx) {
  if (ctx == nullptr) return ncclSuccess;
  static_cast<void>(answer("ncclProfiler finalize", [&]() -> Status {
    const std::lock_guard lock(comms_mutex);
    RINGPRESS_ASSIGN_OR_RETURN(ProfiledComm* const known, find_object<ProfiledComm>(ctx));
    const std::unique_ptr<ProfiledComm> comm(known);
    close_tensor_registry(comm->registry);
    return Status::ok();
  }));
  return ncclSuccess;
}

}  // namespace
}  // namespace ringpress::nccl_plugin::plugin

namespace plugin = ringpress::nccl_plugin::plugin;
namespace abi = ringpress::abi;

#define RINGPRESS_TABLE extern "C" __attribute__((visibility("default")))

RINGPRESS_TABLE abi::ProfilerV4 ncclProfiler_v4;
RINGPRESS_TABLE abi::ProfilerV5 ncclProfiler_v5;
RINGPRESS_TABLE abi::ProfilerV6 ncclProfiler_v6;
RINGPRESS_TABLE abi::ProfilerV7 ncclProfiler_v7;

abi::ProfilerV4 ncclProfiler_v4 = {"ringpress",
                                   plugin::init_v4,
                                   plugin::start_event_v4<abi::EventV4>,
                                   plugin::stop_event_v4,
                                   plugin::record_event_state_v4,
                                   plugin::finalize_v4};
abi::ProfilerV5 ncclProfiler_v5 = {"ringpress",
                                   plugin::init_v5,
                                   plugin::start_event_v4<abi::EventV5>,
                                   plugin::stop_event_v4,
                                   plugin::record_event_state_v4,
                                   plugin::finalize_v4};
abi::ProfilerV6 ncclProfiler_v6 = {"ringpress",
                                   plugin::init_v5,
                                   plugin::start_event_v4<abi::EventV6>,
                                   plugin::stop_event_v4,
                                   plugin::record_event_state_v4,
                                   plugin::finalize_v4};
abi::ProfilerV7 ncclProfiler_v7 = {"ringpress",
                                   plugin::init_v5,
                                   plugin::start_event_v4<abi::EventV7>,
                                   plugin::stop_event_v4,
                                   plugin::record_event_state_v4,
                                   plugin::finalize_v4};
