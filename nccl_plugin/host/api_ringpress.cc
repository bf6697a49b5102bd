// Entry points that NCCL does not have.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "nccl_plugin/host/arguments.h"
#include "nccl_plugin/host/comm.h"
#include "nccl_plugin/host/registry.h"
#include "nccl_plugin/host/translate.h"
#include "nccl_plugin/session/lazy/lazy_flusher.h"
#include "ringpress/internal/export.h"
#include "ringpress/ringpress.h"
#include "ringpress/version.h"

using namespace ringpress::nccl_plugin::host;  // NOLINT: the entry points are in no namespace.
using ringpress::Code;
using ringpress::Communicator;
using ringpress::HintedCall;
using ringpress::Layer;
using ringpress::Result;
using ringpress::Statistics;
using ringpress::Status;

namespace {

template <std::size_t kBytes>
void copy_text(const std::string& from, char (&to)[kBytes]) {
  std::snprintf(to, kBytes, "%s", from.c_str());
}

/// What the first version of the header knew.
constexpr std::size_t kOldestStatisticsBytes = offsetof(ringpressStatistics_t, observed_calls);

ringpressStatistics_t to_c(const Statistics& from) {
  ringpressStatistics_t to{};
  to.calls = from.calls;
  to.compressed_calls = from.compressed_calls;
  to.raw_bytes = from.raw_bytes;
  to.wire_bytes = from.wire_bytes;
  to.residual_bytes = from.residual_bytes;
  copy_text(from.last_codec, to.codec);
  copy_text(from.last_algorithm, to.algorithm);
  copy_text(from.last_reason, to.reason);
  to.observed_calls = from.observed_calls;
  to.observed_raw_bytes = from.observed_raw_bytes;
  to.unsent_tensors = from.unsent_tensors;
  to.unsent_elements = from.unsent_elements;
  to.unsent_norm = from.unsent_norm;
  to.calibration_bytes = from.calibration_bytes;
  return to;
}

Result<HintedCall> to_hinted_call(const ringpressCall_t* call) {
  RINGPRESS_RETURN_IF_ERROR(check_pointer(call, "call"));
  if (call->size < sizeof(ringpressCall_t)) {
    return Status(Code::kInvalidArgument, "call->size is " + std::to_string(call->size) +
                                              "; set it to sizeof(ringpressCall_t)");
  }
  RINGPRESS_ASSIGN_OR_RETURN(const ringpress::DType dtype, to_dtype(call->datatype));
  RINGPRESS_RETURN_IF_ERROR(check_bytes(call->count, dtype, 1));
  return HintedCall{call->count, dtype, call->sendbuff};
}

Result<std::vector<Layer>> to_layers(const ringpressLayer_t* layers, std::size_t count) {
  if (count > 0) RINGPRESS_RETURN_IF_ERROR(check_pointer(layers, "layers"));
  std::vector<Layer> result;
  for (std::size_t i = 0; i < count; ++i) {
    const ringpressLayer_t& layer = layers[i];
    if ((layer.flags & ~RINGPRESS_LAYER_EXACT) != 0) {
      return Status(Code::kInvalidArgument, "layers[" + std::to_string(i) + "].flags is " +
                                                std::to_string(layer.flags) +
                                                ", but must be RINGPRESS_LAYER_EXACT or 0");
    }
    result.push_back({layer.offset, layer.count, layer.rows, layer.columns,
                      (layer.flags & RINGPRESS_LAYER_EXACT) != 0});
  }
  return result;
}

}  // namespace

extern "C" {

RINGPRESS_EXPORT int ringpressGetStatistics(void* comm, ringpressStatistics_t* statistics) {
  const auto handle = static_cast<ncclComm_t>(comm);
  return firewall("ringpressGetStatistics", handle, [&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> live, find_known_comm(handle));
    RINGPRESS_RETURN_IF_ERROR(check_pointer(statistics, "statistics"));
    const std::size_t bytes = statistics->size;
    if (bytes < kOldestStatisticsBytes) {
      return Status(Code::kInvalidArgument,
                    "statistics->size is " + std::to_string(bytes) +
                        "; set it to sizeof(ringpressStatistics_t) before the call");
    }
    ringpressStatistics_t current = to_c(live->statistics());
    current.size = bytes;
    std::memcpy(statistics, &current, std::min(bytes, sizeof current));
    return Status::ok();
  });
}

RINGPRESS_EXPORT int ringpressSetLayers(void* comm, const ringpressCall_t* call,
                                        const ringpressLayer_t* layers, size_t layer_count) {
  const auto handle = static_cast<ncclComm_t>(comm);
  return firewall("ringpressSetLayers", handle, [&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> live, find_ready_comm(handle));
    RINGPRESS_ASSIGN_OR_RETURN(const HintedCall hinted, to_hinted_call(call));
    RINGPRESS_ASSIGN_OR_RETURN(const std::vector<Layer> known, to_layers(layers, layer_count));
    return live->run(
        [&](Communicator& communicator) { return communicator.set_layers(hinted, known); });
  });
}

RINGPRESS_EXPORT int ringpressLazyFlush(void* comm) {
  const auto handle = static_cast<ncclComm_t>(comm);
  return firewall("ringpressLazyFlush", handle, [&]() -> Status {
    // Of this library, or else of the one that it stands before.
    const ringpress::nccl_plugin::LazyFlusher flush = ringpress::nccl_plugin::lazy_flusher();
    if (handle != nullptr && flush && !find_comm(handle).is_ok()) return flush(handle);
    RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> live, find_ready_comm(handle));
    return live->run([](Communicator& communicator) { return communicator.flush_lazy(); });
  });
}

RINGPRESS_EXPORT const char* ringpressVersion(void) {
  return RINGPRESS_VERSION;
}

}  // extern "C"
