#include "nccl_plugin/interposer/meeting/place_exchange.h"

#include <array>
#include <cstring>
#include <vector>

#include "nccl_plugin/interposer/calls/number_exchange.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

// A place as numbers that ranks can exchange.
constexpr std::size_t kNumbers = sizeof(UniqueId) / sizeof(std::int32_t);
using Numbers = std::array<std::int32_t, kNumbers>;

Numbers numbers_of(const std::optional<UniqueId>& place) {
  Numbers numbers{};
  static_assert(sizeof numbers == sizeof *place);
  if (place) std::memcpy(numbers.data(), place->data(), sizeof numbers);
  return numbers;
}

std::optional<UniqueId> place_of(const Numbers& numbers) {
  if (numbers == Numbers{}) return std::nullopt;
  UniqueId place;
  std::memcpy(place.data(), numbers.data(), sizeof numbers);
  return place;
}

}  // namespace

void exchange_places(const ringpressRealNccl& real, std::span<PlaceExchange> exchanges) {
  std::vector<Numbers> places;
  for (const PlaceExchange& exchange : exchanges) places.push_back(numbers_of(exchange.place));
  for (std::size_t part = 0; part < kNumbers; ++part) {
    std::vector<NumberExchange> parts;
    for (std::size_t i = 0; i < exchanges.size(); ++i) {
      Comm& before = *exchanges[i].before;
      parts.push_back(
          {before.handle(), &before.exchange(), {places[i][part]}, &before.lifetime().watch()});
    }
    exchange_numbers(real, parts);
    for (std::size_t i = 0; i < exchanges.size(); ++i) {
      if (exchanges[i].status.is_ok()) exchanges[i].status = parts[i].status;
      for (const std::int32_t number : parts[i].numbers) {
        if (number != 0) places[i][part] = number;
      }
    }
  }
  for (std::size_t i = 0; i < exchanges.size(); ++i) {
    exchanges[i].place = place_of(places[i]);
    if (exchanges[i].place || !exchanges[i].status.is_ok()) continue;
    exchanges[i].status = {Code::kUnsupported, "the id by which it has grown has no place to meet"};
  }
}

}  // namespace ringpress::nccl_plugin::interposer
