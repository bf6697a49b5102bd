#include "nccl_plugin/plugin/collnet.h"

#include <net/if.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "nccl_plugin/plugin/coll_comm.h"
#include "nccl_plugin/plugin/device.h"
#include "nccl_plugin/plugin/report.h"
#include "nccl_plugin/statistics_file.h"
#include "ringpress/communicator.h"
#include "ringpress/settings.h"
#include "ringpress/transport.h"
#include "ringpress/version.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

// NCCL has brought all nodes here a moment ago; who is not here within this time will not come.
constexpr std::chrono::milliseconds kConnectTimeout{60000};
// A node that waits for the last vote knows that all have come. It waits longer than those that do
// not know it yet, lest it gives up what they take for granted.
constexpr std::chrono::milliseconds kLastVoteTimeout{10000};

static_assert(sizeof(UniqueId) == abi::kHandleBytes);

/// What listen gives and connect uses up.
struct CollListener : Object {
  CollListener() : Object{ObjectKind::kCollNetListener} {}

  std::optional<std::uint64_t> comm_id;
  Settings settings;
  std::unique_ptr<Rendezvous> rendezvous;  // Null: this node cannot listen.
};

Settings settings_of(const Device& device) {
  Settings settings = settings_from_environment();
  // The setting may name several; devices() has chosen. A next plugin's are not network interfaces.
  if (if_nametoindex(device.name.c_str()) != 0) settings.interface = device.name;
  return settings;
}

/// What all that is done to connect has together. Never less than a millisecond is left.
class SharedDeadline {
 public:
  explicit SharedDeadline(std::chrono::milliseconds time) : end_(Clock::now() + time) {}
  std::chrono::milliseconds left() const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Clock::now());
    return std::max(left, std::chrono::milliseconds(1));
  }

 private:
  const Deadline end_;
};

/// The communicators of all lanes, over the first of which the others are made.
Result<CollComm::Communicators> make_lanes(std::span<const UniqueId> handles, int rank,
                                           const Settings& settings,
                                           const SharedDeadline& deadline) {
  Settings lane_settings = settings;
  lane_settings.statistics.clear();  // Of all lanes together: CollComm.
  // Each lane has a thread of its own, which nobody is to keep from its sockets.
  if (lane_settings.progress_thread == "auto") lane_settings.progress_thread = "off";
  const auto limit = [&] {
    lane_settings.timeout_ms = static_cast<std::uint64_t>(deadline.left().count());
  };
  CollComm::Communicators lanes;
  limit();
  RINGPRESS_ASSIGN_OR_RETURN(
      lanes[0],
      Communicator::create(handles[0], rank, static_cast<int>(handles.size()), lane_settings));
  for (std::size_t lane = 1; lane < kCollLanes; ++lane) {
    limit();
    lanes[0]->set_timeout(deadline.left());
    RINGPRESS_ASSIGN_OR_RETURN(lanes[lane], lanes[0]->split(0, rank, lane_settings));
  }
  return lanes;
}

/// What NCCL tells all nodes of the tensors that pieces belong to. The first use of the
/// communicator: all that stood before it has worked everywhere.
Result<TensorPart> agree_on_part(Communicator* communicator, TensorPart part) {
  const auto own = static_cast<std::uint8_t>(part);
  std::vector<std::uint8_t> votes(static_cast<std::size_t>(communicator->size()));
  RINGPRESS_RETURN_IF_ERROR(communicator->all_gather(&own, votes.data(), 1, DType::kUint8));
  return static_cast<TensorPart>(*std::min_element(votes.begin(), votes.end()));
}

void announce(const CollComm& comm, const Settings& settings, TensorPart part) {
  static std::once_flag once;
  std::call_once(once, [&] {
    log(abi::LogLevel::kInfo, abi::kLogInit | abi::kLogNet,
        "%d.%d.%d: CollNet among %d nodes: RINGPRESS=%s, codec %s, %s, over its own transports",
        RINGPRESS_VERSION_MAJOR, RINGPRESS_VERSION_MINOR, RINGPRESS_VERSION_PATCH, comm.nodes(),
        settings.mode.c_str(), settings.codec.c_str(),
        part != TensorPart::kNothing ? "error feedback by tensor"
                                     : "no profiler slot: unbiased, no error feedback");
  });
}

Result<std::unique_ptr<CollComm>> connect_nodes(std::span<const UniqueId> handles, int rank,
                                                CollListener* listener) {
  // All nodes see the same handles.
  for (std::size_t node = 0; node < handles.size(); ++node) {
    if (handles[node] != UniqueId{}) continue;
    return Status(Code::kSystem,
                  "node " + std::to_string(node) + " could not listen: no CollNet on any node");
  }
  const Settings& settings = listener->settings;
  const std::chrono::milliseconds timeout(settings.timeout_ms);
  const SharedDeadline deadline(std::min(timeout, kConnectTimeout));
  if (rank == 0) RINGPRESS_RETURN_IF_ERROR(listener->rendezvous->serve(deadline.left()));
  RINGPRESS_ASSIGN_OR_RETURN(CollComm::Communicators lanes,
                             make_lanes(handles, rank, settings, deadline));
  CollIdentity identity;
  for (std::size_t lane = kCollLanes; lane-- > 0;) {  // The answers are the same.
    const TensorPart told = told_part(listener->comm_id, lanes[lane]->size());
    lanes[lane]->set_timeout(deadline.left() +
                             (lane == 0 ? kLastVoteTimeout : std::chrono::milliseconds(0)));
    RINGPRESS_ASSIGN_OR_RETURN(identity.part, agree_on_part(lanes[lane].get(), told));
  }
  for (auto& lane : lanes) lane->set_timeout(timeout);
  check_statistics_file(settings);
  auto comm = std::make_unique<CollComm>(std::move(lanes), identity, settings);
  announce(*comm, settings, identity.part);
  return comm;
}

/// Code::kInvalidArgument for types that CollNet is not given.
Result<DType> dtype_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat32:
      return DType::kFloat32;
    case ncclFloat16:
      return DType::kFloat16;
    case ncclBfloat16:
      return DType::kBfloat16;
    default:
      return Status(Code::kInvalidArgument, "type " + std::to_string(static_cast<int>(type)) +
                                                " is not one that reduceSupport has named");
  }
}

}  // namespace

Status collnet_init(abi::Logger logger) {
  set_logger(logger);
  return Status::ok();
}

Status collnet_devices(int* count) {
  if (count == nullptr) return Status(Code::kInvalidArgument, "the place for the count is null");
  *count = static_cast<int>(devices().size());
  return Status::ok();
}

Status collnet_listen(std::optional<std::uint64_t> comm_id, int device, void* handle,
                      void** listen_comm) {
  if (handle == nullptr || listen_comm == nullptr) {
    return Status(Code::kInvalidArgument, "the handle or the place for the listener is null");
  }
  std::memset(handle, 0, abi::kHandleBytes);
  auto listener = std::make_unique<CollListener>();
  listener->comm_id = comm_id;
  const Status opened = catch_all([&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(const Device* const found, device_at(device));
    listener->settings = settings_of(*found);
    RINGPRESS_ASSIGN_OR_RETURN(listener->rendezvous, prepare_unique_id(listener->settings));
    return Status::ok();
  });
  if (opened.is_ok()) {
    std::memcpy(handle, listener->rendezvous->id().data(), abi::kHandleBytes);
  } else {
    log(abi::LogLevel::kWarn, abi::kLogNet, "ncclCollNet listen: %s", opened.message().c_str());
  }
  *listen_comm = listener.release();
  return Status::ok();
}

Status collnet_connect(void* const* handles, int count, int rank, void* listen_comm,
                       void** coll_comm) {
  if (coll_comm != nullptr) *coll_comm = nullptr;
  RINGPRESS_RETURN_IF_ERROR(check_kind(listen_comm, ObjectKind::kCollNetListener));
  std::unique_ptr<CollListener> kept(static_cast<CollListener*>(listen_comm));
  if (handles == nullptr || coll_comm == nullptr || count < 1 || rank < 0 || rank >= count) {
    return Status(Code::kInvalidArgument, "a null pointer or a rank out of range");
  }
  std::vector<UniqueId> ids(static_cast<std::size_t>(count));
  for (std::size_t node = 0; node < ids.size(); ++node) {
    if (handles[node] == nullptr) return Status(Code::kInvalidArgument, "a null handle");
    std::memcpy(ids[node].data(), handles[node], abi::kHandleBytes);
  }
  RINGPRESS_ASSIGN_OR_RETURN(auto comm, connect_nodes(ids, rank, kept.get()));
  *coll_comm = comm.release();
  static_cast<void>(kept.release());  // NCCL closes it now.
  return Status::ok();
}

Status collnet_reduce_support(ncclDataType_t type, ncclRedOp_t op, int* supported) {
  if (supported == nullptr) return Status(Code::kInvalidArgument, "the place for it is null");
  *supported = op == ncclSum && dtype_of(type).is_ok() ? 1 : 0;
  return Status::ok();
}

Status collnet_register(void* coll_comm, void* data, int type, void** mhandle) {
  if (mhandle == nullptr) return Status(Code::kInvalidArgument, "the place for it is null");
  *mhandle = nullptr;
  RINGPRESS_RETURN_IF_ERROR(check_kind(coll_comm, ObjectKind::kCollNetComm));
  if (data == nullptr) return Status(Code::kInvalidArgument, "the memory is null");
  if (type != abi::kPointerHost) {
    return Status(Code::kUnsupported, "memory of type " + std::to_string(type) +
                                          ": only host memory can be registered");
  }
  *mhandle = coll_comm;
  return Status::ok();
}

Status collnet_deregister(void* coll_comm) {
  return check_kind(coll_comm, ObjectKind::kCollNetComm);
}

Status collnet_iallreduce(void* coll_comm, const CollNetAllReduce& call, void** request) {
  if (request == nullptr) return Status(Code::kInvalidArgument, "the place for it is null");
  *request = nullptr;
  RINGPRESS_RETURN_IF_ERROR(check_kind(coll_comm, ObjectKind::kCollNetComm));
  if (call.op != ncclSum) {
    return Status(Code::kInvalidArgument, "an operation other than the sum");
  }
  RINGPRESS_ASSIGN_OR_RETURN(const DType dtype, dtype_of(call.type));
  const bool has_memory = call.send != nullptr && call.receive != nullptr;
  if (call.count > 0 && !has_memory) return Status(Code::kInvalidArgument, "a null buffer");
  if (call.count > abi::kMaxTransferBytes) return Status(Code::kInvalidArgument, "too long");
  *request =
      static_cast<CollComm*>(coll_comm)->all_reduce({call.send, call.receive, call.count, dtype});
  return Status::ok();
}

Status collnet_test(void* request, int* done, int* bytes) {
  if (done == nullptr) return Status(Code::kInvalidArgument, "the place for the answer is null");
  RINGPRESS_RETURN_IF_ERROR(check_kind(request, ObjectKind::kCollNetRequest));
  auto* const waited = static_cast<CollRequest*>(request);
  const std::size_t size = waited->call.count * dtype_size(waited->call.dtype);
  *done = 0;
  RINGPRESS_ASSIGN_OR_RETURN(const bool is_done, waited->owner->test(waited));
  *done = is_done ? 1 : 0;
  if (bytes != nullptr) {
    *bytes = static_cast<int>(
        std::min<std::size_t>(size, static_cast<std::size_t>(std::numeric_limits<int>::max())));
  }
  return Status::ok();
}

Status collnet_close(void* coll_comm) {
  if (coll_comm == nullptr) return Status::ok();
  RINGPRESS_RETURN_IF_ERROR(check_kind(coll_comm, ObjectKind::kCollNetComm));
  delete static_cast<CollComm*>(coll_comm);
  return Status::ok();
}

Status collnet_close_listen(void* listen_comm) {
  if (listen_comm == nullptr) return Status::ok();
  RINGPRESS_RETURN_IF_ERROR(check_kind(listen_comm, ObjectKind::kCollNetListener));
  delete static_cast<CollListener*>(listen_comm);
  return Status::ok();
}

}  // namespace ringpress::nccl_plugin::plugin
