// Ranks of new communicators ask each other, over the real NCCL, for one number each.
#ifndef NCCL_PLUGIN_INTERPOSER_CALLS_NUMBER_EXCHANGE_H_
#define NCCL_PLUGIN_INTERPOSER_CALLS_NUMBER_EXCHANGE_H_

#include <cstdint>
#include <vector>

#include "nccl_plugin/interposer/calls/exchange_memory.h"
#include "nccl_plugin/interposer/stream/stream_wait.h"
#include "nccl_plugin/preload/engine.h"

namespace ringpress::nccl_plugin::interposer {

struct NumberExchange {
  ncclComm_t handle = nullptr;
  ExchangeMemory* memory = nullptr;   // This communicator's, or its parent's.
  std::vector<std::int32_t> numbers;  // One in; that of every rank out, in their order.
  const Watch* watch = nullptr;       // Of the communicator whose memory it is.
  Status status{};
};

/// One call for all communicators that one group has made. Those that share memory come one after
/// the other, and so do they on every rank, in the order in which they were made. Waits for all
/// ranks, as await_word() does.
void exchange_numbers(const ringpressRealNccl& real, std::vector<NumberExchange>& exchanges);

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_CALLS_NUMBER_EXCHANGE_H_
