#include "nccl_plugin/plugin/tuner.h"

#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>

#include "nccl_plugin/plugin/door_variables.h"
#include "nccl_plugin/plugin/net.h"
#include "nccl_plugin/plugin/report.h"
#include "ring/factory.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

constexpr int kChain = static_cast<int>(abi::Algorithm::kCollNetChain);
constexpr int kDirect = static_cast<int>(abi::Algorithm::kCollNetDirect);
constexpr int kNvls = static_cast<int>(abi::Algorithm::kNvls);
constexpr int kNvlsTree = static_cast<int>(abi::Algorithm::kNvlsTree);
constexpr int kSimple = static_cast<int>(abi::Protocol::kSimple);

// What NCCL has at most: channels, and what it may come to have of protocols (3 now).
constexpr int kMostChannelsOfNccl = 64;
constexpr int kMostProtocols = 63;

/// The entry, or null where the table has no such one or NCCL cannot use it.
float* available(const CostTable& table, int algorithm) {
  if (table.costs == nullptr || algorithm >= table.algorithms) return nullptr;
  if (kSimple >= table.protocols || table.protocols > kMostProtocols) return nullptr;
  float* const entry = table.costs + algorithm * table.protocols + kSimple;
  return *entry < 0.0F ? nullptr : entry;
}

/// The user's variables that leave NCCL no CollNet, with what to do; empty: none does. Which
/// network NCCL has taken is known where it is this one.
std::string silencing_variables() {
  std::string all;
  for (const Conflict& conflict : conflicts([](const char* name) { return std::getenv(name); })) {
    if (!conflict.fatal || (conflict.is_of_network && is_net_initialised())) continue;
    all += (all.empty() ? "" : "; ") + conflict.variable + ": " + conflict.loses + " (" +
           conflict.remedy + ")";
  }
  return all;
}

}  // namespace

Tuner::Tuner(std::uint64_t comm_id, CollNetPolicy policy, std::string silenced)
    : Object(kKind), comm_id_(comm_id), policy_(std::move(policy)), silenced_(std::move(silenced)) {
  log(abi::LogLevel::kInfo, abi::kLogTuning, "tuner: communicator %016llx, %s",
      static_cast<unsigned long long>(comm_id), policy_.description().c_str());
}

void Tuner::note_absence(std::size_t bytes) const {
  if (absence_noted_.exchange(true)) return;
  log(abi::LogLevel::kInfo, abi::kLogTuning,
      "tuner: communicator %016llx: an all-reduce of %zu bytes stays uncompressed: %s",
      static_cast<unsigned long long>(comm_id_), bytes,
      silenced_.empty() ? "NCCL has no CollNet here, or not for its type and operation"
                        : silenced_.c_str());
}

/// NVLS has channels of its own.
void Tuner::note_channels(int algorithm, int channels) const {
  if (algorithm == kNvls || algorithm == kNvlsTree || channels > kMostChannelsOfNccl) return;
  int seen = seen_channels_.load();
  while (channels > seen && !seen_channels_.compare_exchange_weak(seen, channels)) continue;
}

void Tuner::advise(abi::Function function, std::size_t bytes, CostTable table,
                   int* channels) const {
  const Preference preference = policy_.preference(function, bytes);
  if (preference == Preference::kLeave) return;
  float* const direct = available(table, kDirect);
  float* const chain = available(table, kChain);
  const bool wanted = preference == Preference::kCollNet;
  for (float* const entry : {direct, chain}) {
    if (entry != nullptr) *entry = wanted ? 0.0F : kAvoided;
  }
  if (!wanted) return;
  if (direct == nullptr && chain == nullptr) return note_absence(bytes);
  // Of two equal costs NCCL takes the first.
  const CollNetRoute route = direct != nullptr ? CollNetRoute::kDirect : CollNetRoute::kChain;
  const int count = policy_.channels(route, bytes, seen_channels_.load());
  if (channels != nullptr && count > 0) *channels = count;
}

void Tuner::advise_v2(abi::Function function, std::size_t bytes, bool collnet_supported,
                      bool user_chose, int* algorithm, int* protocol, int* channels) const {
  if (user_chose || policy_.preference(function, bytes) != Preference::kCollNet) return;
  if (!collnet_supported) return note_absence(bytes);
  *algorithm =
      kChain;  // Direct needs a switch between the GPUs, of which this version says nothing.
  *protocol = kSimple;
  const int count = policy_.channels(CollNetRoute::kChain, bytes, seen_channels_.load());
  if (channels != nullptr && count > 0) *channels = count;
}

void Tuner::advise_chunk(abi::Function function, std::size_t bytes, int algorithm, int protocol,
                         int channels, std::size_t* chunk_bytes) const {
  note_channels(algorithm, channels);
  if ((algorithm != kChain && algorithm != kDirect) || protocol != kSimple) return;
  if (policy_.preference(function, bytes) != Preference::kCollNet) return;
  const CollNetRoute route = algorithm == kDirect ? CollNetRoute::kDirect : CollNetRoute::kChain;
  *chunk_bytes = policy_.chunk_bytes(route, bytes, channels, *chunk_bytes);
}

int guaranteed_channels() {
  return least_channels({std::getenv("NCCL_MIN_NCHANNELS"), std::getenv("NCCL_MIN_CTAS"),
                         std::getenv("NCCL_MAX_CTAS")});
}

Status check_own_interface() {
  const Settings settings = settings_from_environment();
  return settings.interface.empty() ? Status::ok() : ring::check_address(settings.address);
}

std::unique_ptr<Tuner> make_tuner(std::uint64_t comm_id, std::size_t ranks, std::size_t nodes) {
  JobShape shape;
  shape.ranks = ranks;
  shape.nodes = nodes;
  shape.least_channels = guaranteed_channels();
  CollNetPolicy policy(read_settings(), shape);
  const std::string silenced = policy.wants_collnet() ? silencing_variables() : "";
  if (!silenced.empty()) {
    static std::once_flag told;
    std::call_once(told, [&] {
      log(abi::LogLevel::kWarn, abi::kLogInit | abi::kLogTuning, "%s", silenced.c_str());
    });
  }
  return std::make_unique<Tuner>(comm_id, std::move(policy), silenced);
}

}  // namespace ringpress::nccl_plugin::plugin
