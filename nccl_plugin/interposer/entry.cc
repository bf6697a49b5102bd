// The functions that the shim calls in place of NCCL's. Each does the thing by the real library,
// and tells the engine.
#include <optional>
#include <utility>

#include "nccl_plugin/interposer/engine.h"
#include "ringpress/internal/export.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

Engine* engine = nullptr;

ncclResult_t get_unique_id(ncclUniqueId* id) {
  const ncclResult_t refused = engine->making().may_make_id();
  if (refused != ncclSuccess) return refused;
  const ncclResult_t result = engine->real().GetUniqueId(id);
  if (result == ncclSuccess) engine->making().id_made(id);
  return result;
}

/// What the program calls a communicator: a field that came with NCCL 2.27. Null: it does not say.
const char* name_in(const ncclConfig_t* config) {
  constexpr std::size_t kEnd = offsetof(ncclConfig_t, commName) + sizeof(const char*);
  const bool has_names = config != nullptr && config->size >= kEnd;
  return has_names ? config->commName : nullptr;
}

bool is_nonblocking(ncclResult_t result, const ncclConfig_t* config) {
  return result == ncclInProgress || (config != nullptr && config->blocking == 0);
}

/// Tells the engine of a communicator that the real library makes or has made. `made`: what it is
/// told of one that is ready, or will be at the end of this thread's group; its answer, if that is
/// an error, is the program's.
template <typename Made>
ncclResult_t tell(ncclResult_t result, const ncclConfig_t* config, ncclComm_t* comm, Made&& made) {
  if (result != ncclSuccess && result != ncclInProgress) return result;
  if (is_nonblocking(result, config)) {
    engine->making().made_nonblocking(comm);
    return result;
  }
  const ncclResult_t answer = std::forward<Made>(made)();
  return answer != ncclSuccess ? answer : result;
}

/// Where this rank will not meet the others, as its communicator has failed or nobody waits for it,
/// they are told.
void tell_others(const ncclUniqueId& id, ncclResult_t result, const ncclConfig_t* config,
                 const char* failed) {
  if (result != ncclSuccess && result != ncclInProgress) {
    engine->making().not_joined(id, failed, result);
  } else if (is_nonblocking(result, config)) {
    engine->making().not_joined(id, kNonblockingText, ncclSuccess);
  }
}

/// A communicator of an id: `make` has the real library make it.
template <typename Make>
ncclResult_t init_rank(const ncclUniqueId& id, const ncclConfig_t* config, ncclComm_t* comm,
                       Make&& make) {
  engine->making().joining(id);
  const ncclResult_t result = std::forward<Make>(make)();
  tell_others(id, result, config, "its ncclCommInit answers ");
  return tell(result, config, comm,
              [&] { return engine->making().made_rank(comm, id, name_in(config)); });
}

ncclResult_t comm_init_rank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  return init_rank(id, nullptr, comm,
                   [&] { return engine->real().CommInitRank(comm, size, id, rank); });
}

ncclResult_t comm_init_rank_config(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                   ncclConfig_t* config) {
  return init_rank(id, config, comm,
                   [&] { return engine->real().CommInitRankConfig(comm, size, id, rank, config); });
}

ncclResult_t comm_init_rank_scalable(ncclComm_t* comm, int size, int rank, int id_count,
                                     ncclUniqueId* ids, ncclConfig_t* config) {
  const auto make = [&] {
    return engine->real().CommInitRankScalable(comm, size, rank, id_count, ids, config);
  };
  if (id_count <= 0 || ids == nullptr) return make();  // Which says what is wrong with it.
  return init_rank(ids[0], config, comm, make);
}

ncclResult_t comm_init_all(ncclComm_t* comms, int count, const int* devices) {
  const ncclResult_t result = engine->real().CommInitAll(comms, count, devices);
  return result == ncclSuccess ? engine->making().made_all(comms, count) : result;
}

ncclResult_t comm_split(ncclComm_t comm, int color, int key, ncclComm_t* made,
                        ncclConfig_t* config) {
  const ncclResult_t expected = engine->making().expect_child();
  if (expected != ncclSuccess) return expected;
  const ncclResult_t result = engine->real().CommSplit(comm, color, key, made, config);
  return tell(result, config, made, [&] {
    engine->making().made_child(made, comm, color, name_in(config));
    return ncclSuccess;
  });
}

ncclResult_t comm_shrink(ncclComm_t comm, int* excluded, int excluded_count, ncclComm_t* made,
                         ncclConfig_t* config, int flags) {
  const ncclResult_t expected = engine->making().expect_child();
  if (expected != ncclSuccess) return expected;
  const ncclResult_t result =
      engine->real().CommShrink(comm, excluded, excluded_count, made, config, flags);
  return tell(result, config, made, [&] {
    engine->making().made_shrunk(made, comm, name_in(config));
    return ncclSuccess;
  });
}

ncclResult_t comm_get_unique_id(ncclComm_t comm, ncclUniqueId* id) {
  const ncclResult_t result = engine->real().CommGetUniqueId(comm, id);
  if (result == ncclSuccess) engine->making().grow_id_made(comm, id);
  return result;
}

/// The real library is given the id that it has made: without a place.
ncclResult_t comm_grow(ncclComm_t comm, int size, const ncclUniqueId* id, int rank,
                       ncclComm_t* made, ncclConfig_t* config) {
  ncclUniqueId plain{};
  if (id != nullptr) plain = without_place(*id);
  const auto make = [&] {
    return engine->real().CommGrow(comm, size, id == nullptr ? nullptr : &plain, rank, made,
                                   config);
  };
  if (comm == nullptr) return id == nullptr ? make() : init_rank(*id, config, made, make);
  const ncclResult_t expected = engine->making().expect_child();
  if (expected != ncclSuccess) return expected;
  const std::optional<ncclUniqueId> known = engine->making().growing(comm, id);
  const ncclResult_t result = make();
  if (known) tell_others(*known, result, config, "its ncclCommGrow answers ");
  return tell(result, config, made, [&] {
    return engine->making().made_grown(made, comm, known ? &*known : nullptr, name_in(config));
  });
}

/// The real library refuses calls of one that is suspended.
ncclResult_t comm_suspend(ncclComm_t comm, int flags) {
  const ncclResult_t result = engine->real().CommSuspend(comm, flags);
  if (result == ncclSuccess || result == ncclInProgress) engine->set_left_alone(comm, true);
  return result;
}
ncclResult_t comm_resume(ncclComm_t comm) {
  const ncclResult_t result = engine->real().CommResume(comm);
  if (result == ncclSuccess || result == ncclInProgress) engine->set_left_alone(comm, false);
  return result;
}

ncclResult_t comm_finalize(ncclComm_t comm) {
  return engine->end_in_order(comm, engine->real().CommFinalize);
}
ncclResult_t comm_destroy(ncclComm_t comm) {
  return engine->end_in_order(comm, engine->real().CommDestroy);
}
ncclResult_t comm_abort(ncclComm_t comm) {
  return engine->end(comm, Engine::Ending::kAbort, [&] { return engine->real().CommAbort(comm); });
}
ncclResult_t comm_revoke(ncclComm_t comm, int flags) {
  engine->revoking(comm);
  return engine->real().CommRevoke(comm, flags);
}

ncclResult_t group_start() {
  return engine->group_start();
}
ncclResult_t group_end() {
  return engine->group_end();
}
ncclResult_t group_simulate_end(ncclSimInfo_t* info) {
  return engine->group_simulate_end(info);
}

ncclResult_t all_reduce(const void* send, void* receive, size_t count, ncclDataType_t dtype,
                        ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return engine->reduce(
      {CollectiveKind::kAllReduce, send, receive, count, dtype, op, comm, stream});
}
ncclResult_t reduce_scatter(const void* send, void* receive, size_t count, ncclDataType_t dtype,
                            ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return engine->reduce(
      {CollectiveKind::kReduceScatter, send, receive, count, dtype, op, comm, stream});
}
/// `count`: elements of each rank.
ncclResult_t all_gather(const void* send, void* receive, size_t count, ncclDataType_t dtype,
                        ncclComm_t comm, cudaStream_t stream) {
  return engine->reduce(
      {CollectiveKind::kAllGather, send, receive, count, dtype, ncclSum, comm, stream});
}
// The same with what a program says of one call.
ncclResult_t all_reduce_config(const void* send, void* receive, size_t count, ncclDataType_t dtype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
                               const ncclCollConfig_t* config) {
  return engine->reduce_as_asked(
      {CollectiveKind::kAllReduce, send, receive, count, dtype, op, comm, stream}, config);
}
ncclResult_t reduce_scatter_config(const void* send, void* receive, size_t count,
                                   ncclDataType_t dtype, ncclRedOp_t op, ncclComm_t comm,
                                   cudaStream_t stream, const ncclCollConfig_t* config) {
  return engine->reduce_as_asked(
      {CollectiveKind::kReduceScatter, send, receive, count, dtype, op, comm, stream}, config);
}
ncclResult_t all_gather_config(const void* send, void* receive, size_t count, ncclDataType_t dtype,
                               ncclComm_t comm, cudaStream_t stream,
                               const ncclCollConfig_t* config) {
  return engine->reduce_as_asked(
      {CollectiveKind::kAllGather, send, receive, count, dtype, ncclSum, comm, stream}, config);
}
ncclResult_t comm_get_async_error(ncclComm_t comm, ncclResult_t* error) {
  return engine->async_error(comm, error);
}
const char* get_last_error(ncclComm_t comm) {
  return engine->last_error(comm);
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer

extern "C" RINGPRESS_EXPORT int ringpressOpenEngine(const ringpressRealNccl* real,
                                                    ringpressEngine* functions) {
  namespace interposer = ringpress::nccl_plugin::interposer;
  if (real == nullptr || functions == nullptr || functions->size != sizeof *functions ||
      functions->version != RINGPRESS_ENGINE_VERSION || interposer::engine != nullptr) {
    return 1;
  }
  interposer::engine = interposer::open_engine(*real);
  if (interposer::engine == nullptr) return 1;
  *functions = {sizeof *functions,
                RINGPRESS_ENGINE_VERSION,
                interposer::get_unique_id,
                interposer::comm_init_rank,
                interposer::comm_init_rank_config,
                interposer::comm_init_rank_scalable,
                interposer::comm_init_all,
                interposer::comm_split,
                interposer::comm_shrink,
                interposer::comm_get_unique_id,
                interposer::comm_grow,
                interposer::comm_suspend,
                interposer::comm_resume,
                interposer::comm_finalize,
                interposer::comm_destroy,
                interposer::comm_abort,
                interposer::comm_revoke,
                interposer::group_start,
                interposer::group_end,
                interposer::group_simulate_end,
                interposer::all_reduce,
                interposer::reduce_scatter,
                interposer::all_gather,
                interposer::all_reduce_config,
                interposer::reduce_scatter_config,
                interposer::all_gather_config,
                interposer::comm_get_async_error,
                interposer::get_last_error};
  return 0;
}
