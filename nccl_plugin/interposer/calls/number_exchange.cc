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

Status exchange_together(const ringpressRealNccl& real, const Wave& wave) {
  for (const NumberExchange* exchange : wave) {
    ExchangeMemory& memory = *exchange->memory;
    RINGPRESS_RETURN_IF_ERROR(memory.device().copy(memory.stream(), memory.numbers(),
                                                   exchange->numbers.data(), sizeof(std::int32_t)));
  }
  RINGPRESS_RETURN_IF_ERROR(gather(real, wave));
  for (NumberExchange* exchange : wave) {
    ExchangeMemory& memory = *exchange->memory;
    RINGPRESS_RETURN_IF_ERROR(
        memory.device().copy(memory.stream(), exchange->numbers.data(), memory.numbers() + 1,
                             exchange->numbers.size() * sizeof(std::int32_t)));
    RINGPRESS_RETURN_IF_ERROR(memory.device().synchronize(memory.stream()));
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
