// The tables of the tuner plugin. Each function is named after the first version that has its
// signature. None of them but init_v5 returns an error; what went wrong is in the log, and NCCL
// goes on as if there were no tuner.
#include <cstdlib>

#include "nccl_plugin/abi/tuner_v2.h"
#include "nccl_plugin/abi/tuner_v3.h"
#include "nccl_plugin/abi/tuner_v4.h"
#include "nccl_plugin/abi/tuner_v5.h"
#include "nccl_plugin/abi/tuner_v6.h"
#include "nccl_plugin/plugin/door_variables.h"
#include "nccl_plugin/plugin/report.h"
#include "nccl_plugin/plugin/tuner.h"
#include "ringpress/internal/export.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

template <typename Body>
ncclResult_t advice(const char* function, Body&& body) noexcept {
  answer(function, std::forward<Body>(body));
  return ncclSuccess;
}

Status missing(const char* argument) {
  return {Code::kInvalidArgument, std::string(argument) + " is null"};
}

/// Null where init() failed, and after finalize(): such a communicator is left to NCCL.
const Tuner* tuner_of(void* ctx) {
  return object_as<Tuner>(ctx);
}

ncclResult_t start(void** ctx, std::uint64_t comm_id, std::size_t ranks, std::size_t nodes,
                   abi::Logger logger) noexcept {
  set_logger(logger);
  return advice("ncclTuner init", [&]() -> Status {
    if (ctx == nullptr) return missing("context");
    *ctx = nullptr;
    *ctx = make_tuner(comm_id, ranks, nodes).release()->handle();
    return Status::ok();
  });
}

ncclResult_t init_v2(std::size_t ranks, std::size_t nodes, abi::Logger logger, void** ctx) {
  return start(ctx, 0, ranks, nodes, logger);
}

/// The one that refuses a communicator: its peers see that this rank has gone. Those of NCCL before
/// 2.28, which ask an earlier version, would wait for it; CollNet alone is refused there, by a
/// handle that all nodes see (collnet_listen()).
ncclResult_t init_v5(void** ctx, std::uint64_t comm_id, std::size_t ranks, std::size_t nodes,
                     abi::Logger logger, abi::NvlDomainInfoV5*, abi::TunerConstantsV5*) {
  set_logger(logger);
  const ncclResult_t refused = answer("ncclTuner init", check_own_interface);
  if (refused == ncclSuccess) return start(ctx, comm_id, ranks, nodes, logger);
  if (ctx != nullptr) *ctx = nullptr;
  return refused;
}

ncclResult_t get_coll_info_v2(void* ctx, abi::Function function, std::size_t bytes,
                              int collnet_supported, int, int, int* algorithm, int* protocol,
                              int* channels) {
  return advice("ncclTuner getCollInfo", [&]() -> Status {
    if (algorithm == nullptr || protocol == nullptr) return missing("algorithm or protocol");
    const bool user_chose =
        std::getenv("NCCL_ALGO") != nullptr || std::getenv("NCCL_PROTO") != nullptr;
    if (const Tuner* tuner = tuner_of(ctx)) {
      tuner->advise_v2(function, bytes, collnet_supported == 1, user_chose, algorithm, protocol,
                       channels);
    }
    return Status::ok();
  });
}

ncclResult_t get_coll_info_v4(void* ctx, abi::Function function, std::size_t bytes, int,
                              float** costs, int algorithms, int protocols, int, int* channels) {
  return advice("ncclTuner getCollInfo", [&]() -> Status {
    if (costs == nullptr) return missing("cost table");
    // NCCL declares the table so, but passes the address of its first entry.
    const CostTable table{reinterpret_cast<float*>(costs), algorithms, protocols};
    if (const Tuner* tuner = tuner_of(ctx)) tuner->advise(function, bytes, table, channels);
    return Status::ok();
  });
}

ncclResult_t get_coll_info_v3(void* ctx, abi::Function function, std::size_t bytes,
                              int pipelined_ops, float** costs, int algorithms, int protocols,
                              int* channels) {
  return get_coll_info_v4(ctx, function, bytes, pipelined_ops, costs, algorithms, protocols, 0,
                          channels);
}

ncclResult_t get_chunk_size_v6(void* ctx, abi::Function function, std::size_t bytes, int algorithm,
                               int protocol, int channels, std::size_t* chunk_bytes) {
  return advice("ncclTuner getChunkSize", [&]() -> Status {
    if (chunk_bytes == nullptr) return missing("chunk size");
    if (const Tuner* tuner = tuner_of(ctx)) {
      tuner->advise_chunk(function, bytes, algorithm, protocol, channels, chunk_bytes);
    }
    return Status::ok();
  });
}

ncclResult_t finalize_v2(void* ctx) {
  delete tuner_of(ctx);
  return ncclSuccess;
}

}  // namespace
}  // namespace ringpress::nccl_plugin::plugin

namespace plugin = ringpress::nccl_plugin::plugin;

extern "C" {

RINGPRESS_EXPORT extern const ringpress::abi::TunerV2 ncclTunerPlugin_v2 = {
    plugin::kPluginName, plugin::init_v2, plugin::get_coll_info_v2, plugin::finalize_v2};

RINGPRESS_EXPORT extern const ringpress::abi::TunerV3 ncclTunerPlugin_v3 = {
    plugin::kPluginName, plugin::init_v2, plugin::get_coll_info_v3, plugin::finalize_v2};

RINGPRESS_EXPORT extern const ringpress::abi::TunerV4 ncclTunerPlugin_v4 = {
    plugin::kPluginName, plugin::init_v2, plugin::get_coll_info_v4, plugin::finalize_v2};

RINGPRESS_EXPORT extern const ringpress::abi::TunerV5 ncclTunerPlugin_v5 = {
    plugin::kPluginName, plugin::init_v5, plugin::get_coll_info_v4, plugin::finalize_v2};

RINGPRESS_EXPORT extern const ringpress::abi::TunerV6 ncclTunerPlugin_v6 = {
    plugin::kPluginName, plugin::init_v5, plugin::get_coll_info_v4, plugin::finalize_v2,
    plugin::get_chunk_size_v6};

}  // extern "C"
