#include "nccl_plugin/interposer/calls/number_exchange.h"

#include <algorithm>

#include "nccl_plugin/errors/firewall.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

using Wave = std::vector<NumberExchange*>;

Status gather(const ringpressRealNccl& real, const Wave& wave) {
  RINGPRESS_RETURN_IF_ERROR(answered("ncclGroupStart", real.GroupStart()));
  ncclResult_t result = ncclSuccess;
  for (const NumberExchange* exchange : wave) {
    std::int32_t* const numbers = exchange->memory->numbers();
    const auto stream = static_cast<cudaStream_t>(exchange->memory->stream());
    if (result == ncclSuccess) {
      result = real.AllGather(numbers, numbers + 1, 1, ncclInt32, exchange->handle, stream);
    }
  }
  const Status ended = answered("ncclGroupEnd", real.GroupEnd());
  RINGPRESS_RETURN_IF_ERROR(answered("ncclAllGather", result));
  return ended;
}

/// One after the other: the word is not there before the numbers are.
Status receive(ExchangeMemory& memory, std::size_t ranks) {
  Device& device = memory.device();
  const Stream stream = memory.stream();
  ExchangeMemory::Words& words = memory.words();
  RINGPRESS_RETURN_IF_ERROR(
      device.copy(stream, words.numbers, memory.numbers() + 1, ranks * sizeof(std::int32_t)));
  RINGPRESS_RETURN_IF_ERROR(device.zero(stream, memory.zero(), sizeof words.is_pending));
  return device.copy(stream, &words.is_pending, memory.zero(), sizeof words.is_pending);
}

Status exchange_together(const ringpressRealNccl& real, const Wave& wave) {
  for (const NumberExchange* exchange : wave) {
    ExchangeMemory& memory = *exchange->memory;
    memory.words().own = exchange->numbers.front();
    memory.words().is_pending = 1;
    RINGPRESS_RETURN_IF_ERROR(memory.device().copy(memory.stream(), memory.numbers(),
                                                   &memory.words().own, sizeof(std::int32_t)));
  }
  RINGPRESS_RETURN_IF_ERROR(gather(real, wave));
  for (NumberExchange* exchange : wave) {
    RINGPRESS_RETURN_IF_ERROR(receive(*exchange->memory, exchange->numbers.size()));
  }
  for (NumberExchange* exchange : wave) {
    ExchangeMemory& memory = *exchange->memory;
    RINGPRESS_RETURN_IF_ERROR(await_word(&memory.words().is_pending, memory.stream(),
                                         *exchange->watch, "what other ranks say has not come",
                                         [](std::uint64_t word) { return word == 0; })
                                  .status());
    std::copy_n(memory.words().numbers, exchange->numbers.size(), exchange->numbers.begin());
  }
  return Status::ok();
}

}  // namespace

void exchange_numbers(const ringpressRealNccl& real, std::vector<NumberExchange>& exchanges) {
  std::vector<Wave> waves;
  for (NumberExchange& exchange : exchanges) {
    int size = 0;
    static_cast<void>(real.CommCount(exchange.handle, &size));
    exchange.numbers.resize(static_cast<std::size_t>(size));
    const auto fits = [&exchange](const Wave& wave) {
      return std::none_of(wave.begin(), wave.end(), [&exchange](const NumberExchange* other) {
        return other->memory == exchange.memory;
      });
    };
    auto wave = std::find_if(waves.begin(), waves.end(), fits);
    if (wave == waves.end()) wave = waves.insert(wave, Wave());
    wave->push_back(&exchange);
  }
  for (const Wave& wave : waves) {
    const Status status = exchange_together(real, wave);
    for (NumberExchange* exchange : wave) exchange->status = status;
  }
}

}  // namespace ringpress::nccl_plugin::interposer
