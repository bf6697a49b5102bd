// Ranks of a communicator that grows tell each other where they meet those that are new.
#ifndef NCCL_PLUGIN_INTERPOSER_MEETING_PLACE_EXCHANGE_H_
#define NCCL_PLUGIN_INTERPOSER_MEETING_PLACE_EXCHANGE_H_

#include <optional>
#include <span>

#include "nccl_plugin/interposer/comm/comm.h"
#include "ringpress/internal/rendezvous.h"

namespace ringpress::nccl_plugin::interposer {

struct PlaceExchange {
  Comm* before = nullptr;         // The communicator that grows.
  std::optional<UniqueId> place;  // In: that of the rank that made the id. Out: that of all.
  Status status;                  // kUnsupported: no rank knows one.
};

/// Over the communicators that grow. One call for all those of a group; all their ranks.
void exchange_places(const ringpressRealNccl& real, std::span<PlaceExchange> exchanges);

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_MEETING_PLACE_EXCHANGE_H_
