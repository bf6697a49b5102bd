#include "nccl_plugin/host/configuration.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <string>

#include "nccl_plugin/host/encryption.h"
#include "nccl_plugin/host/log_output.h"
#include "nccl_plugin/session/calls/option_list.h"

namespace ringpress::nccl_plugin::host {
namespace {

constexpr int kAny = std::numeric_limits<int>::max();
// The struct of NCCL 2.14, the first: it ends with `blocking`.
constexpr std::size_t kSmallestBytes = offsetof(ncclConfig_t, blocking) + sizeof(int);

template <typename Config>
struct IntegerField {
  const char* name;
  int Config::*field;
  int smallest;
  int largest;
  unsigned since = 0;  // The version that it came with.
};
constexpr IntegerField<ncclConfig_t> kIntegerFields[] = {
    {"blocking", &ncclConfig_t::blocking, 0, 1, NCCL_VERSION(2, 14, 0)},
    {"cgaClusterSize", &ncclConfig_t::cgaClusterSize, 0, kAny, NCCL_VERSION(2, 17, 0)},
    {"minCTAs", &ncclConfig_t::minCTAs, 1, kAny, NCCL_VERSION(2, 17, 0)},
    {"maxCTAs", &ncclConfig_t::maxCTAs, 1, kAny, NCCL_VERSION(2, 17, 0)},
    {"splitShare", &ncclConfig_t::splitShare, 0, 1, NCCL_VERSION(2, 18, 0)},
    {"trafficClass", &ncclConfig_t::trafficClass, 0, kAny, NCCL_VERSION(2, 25, 0)},
    {"collnetEnable", &ncclConfig_t::collnetEnable, 0, 1, NCCL_VERSION(2, 27, 0)},
    {"CTAPolicy", &ncclConfig_t::CTAPolicy, 0, kAny, NCCL_VERSION(2, 27, 0)},
    {"shrinkShare", &ncclConfig_t::shrinkShare, 0, 1, NCCL_VERSION(2, 27, 0)},
    {"nvlsCTAs", &ncclConfig_t::nvlsCTAs, 1, kAny, NCCL_VERSION(2, 27, 0)},
    {"nChannelsPerNetPeer", &ncclConfig_t::nChannelsPerNetPeer, 1, kAny, NCCL_VERSION(2, 28, 0)},
    {"nvlinkCentricSched", &ncclConfig_t::nvlinkCentricSched, 0, 1, NCCL_VERSION(2, 28, 0)},
    {"graphUsageMode", &ncclConfig_t::graphUsageMode, 0, 2, NCCL_VERSION(2, 29, 0)},
    {"numRmaCtx", &ncclConfig_t::numRmaCtx, 0, kAny, NCCL_VERSION(2, 29, 0)},
    {"maxP2pPeers", &ncclConfig_t::maxP2pPeers, 1, kAny, NCCL_VERSION(2, 30, 0)},
    {"graphStreamOrdering", &ncclConfig_t::graphStreamOrdering, 0, 1, NCCL_VERSION(2, 30, 5)},
    {"launchOrderImplicit", &ncclConfig_t::launchOrderImplicit, 0, 1, NCCL_VERSION(2, 31, 0)},
    {"numRmaSig", &ncclConfig_t::numRmaSig, 1, kAny, NCCL_VERSION(2, 31, 0)},
    {"rmaEagerInit", &ncclConfig_t::rmaEagerInit, 0, 1, NCCL_VERSION(2, 31, 0)},
    {"hostCftMode", &ncclConfig_t::hostCftMode, ncclHostCftEnable, ncclHostCftFallback,
     NCCL_VERSION(2, 31, 0)},
    {"nvlsHostMode", &ncclConfig_t::nvlsHostMode, ncclNvlsHostModeEnable, kAny,
     NCCL_VERSION(2, 31, 0)},
};

constexpr IntegerField<ncclCollConfig_t> kCallFields[] = {
    {"minCTAs", &ncclCollConfig_t::minCTAs, 1, kAny},
    {"maxCTAs", &ncclCollConfig_t::maxCTAs, 1, kAny},
    {"nvlsCTAs", &ncclCollConfig_t::nvlsCTAs, 1, kAny},
    {"cgaClusterSize", &ncclCollConfig_t::cgaClusterSize, 0, kAny},
    {"forceAlgSelection", &ncclCollConfig_t::forceAlgSelection, 0, 1},
    {"CTAPolicy", &ncclCollConfig_t::CTAPolicy, 0,
     NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO},
};

/// Each is unset or within its limits.
template <typename Config>
Status check_integers(const Config& config, std::span<const IntegerField<Config>> fields) {
  for (const IntegerField<Config>& f : fields) {
    const int value = config.*f.field;
    if (value == NCCL_CONFIG_UNDEF_INT || (value >= f.smallest && value <= f.largest)) continue;
    const std::string limit = f.largest == kAny
                                  ? "at least " + std::to_string(f.smallest)
                                  : std::to_string(f.smallest) +
                                        (f.largest - f.smallest > 1 ? " to " : " or ") +
                                        std::to_string(f.largest);
    return Status(Code::kInvalidArgument, std::string("config.") + f.name + " is " +
                                              std::to_string(value) + ", but must be " + limit);
  }
  return Status::ok();
}

/// Fields that came after the caller's version. What stands there is padding, or what was in
/// memory.
void unset_newer_fields(unsigned version, ncclConfig_t* config) {
  for (const IntegerField<ncclConfig_t>& f : kIntegerFields) {
    if (version < f.since) config->*f.field = NCCL_CONFIG_UNDEF_INT;
  }
  if (version < NCCL_VERSION(2, 17, 0)) config->netName = NCCL_CONFIG_UNDEF_PTR;
  if (version < NCCL_VERSION(2, 27, 0)) config->commName = NCCL_CONFIG_UNDEF_PTR;
}

template <typename Config>
Status check_channels(const Config& config) {
  const bool both =
      config.minCTAs != NCCL_CONFIG_UNDEF_INT && config.maxCTAs != NCCL_CONFIG_UNDEF_INT;
  if (both && config.minCTAs > config.maxCTAs) {
    return Status(Code::kInvalidArgument, "config.minCTAs is " + std::to_string(config.minCTAs) +
                                              ", more than config.maxCTAs, which is " +
                                              std::to_string(config.maxCTAs));
  }
  return Status::ok();
}

}  // namespace

Result<Configuration> parse_configuration(const ncclConfig_t* config,
                                          const Configuration& inherited) {
  if (config == nullptr) return inherited;
  if (config->magic != NCCL_API_MAGIC || config->size < kSmallestBytes) {
    return Status(Code::kInvalidArgument,
                  "config does not start from NCCL_CONFIG_INITIALIZER: its size or magic is wrong");
  }
  // Fields that ours lacks are not read.
  ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
  std::memcpy(&known, config, config->size < sizeof known ? config->size : sizeof known);
  unset_newer_fields(config->version, &known);
  RINGPRESS_RETURN_IF_ERROR(check_integers<ncclConfig_t>(known, kIntegerFields));
  RINGPRESS_RETURN_IF_ERROR(check_channels(known));
  Configuration result = inherited;
  if (known.blocking != NCCL_CONFIG_UNDEF_INT) result.blocking = known.blocking == 1;
  if (known.maxCTAs != NCCL_CONFIG_UNDEF_INT) result.most_channels = known.maxCTAs;
  if (known.numRmaCtx != NCCL_CONFIG_UNDEF_INT) result.one_sided.contexts = known.numRmaCtx;
  if (known.numRmaSig != NCCL_CONFIG_UNDEF_INT) result.one_sided.signals = known.numRmaSig;
  if (known.commName != NCCL_CONFIG_UNDEF_PTR) result.name = known.commName;
  return result;
}

Result<CallOptions> parse_call_options(const ncclCollConfig_t* config,
                                       const Configuration& configuration) {
  if (config == nullptr) return CallOptions{};
  // The first version ended somewhere behind the list.
  constexpr std::size_t kSmallest = offsetof(ncclCollConfig_t, minCTAs);
  if (config->magic != NCCL_API_MAGIC || config->size < kSmallest) {
    return Status(Code::kInvalidArgument,
                  "config does not start from NCCL_COLLCONFIG_INITIALIZER: its size or magic is "
                  "wrong");
  }
  if (config->version < NCCL_VERSION(2, 31, 0)) {
    return Status(Code::kInvalidArgument, "config.version is " + std::to_string(config->version) +
                                              ", but those of calls came with 23100");
  }
  ncclCollConfig_t known = NCCL_COLLCONFIG_INITIALIZER;
  std::memcpy(&known, config, std::min(config->size, sizeof known));
  RINGPRESS_RETURN_IF_ERROR(check_integers<ncclCollConfig_t>(known, kCallFields));
  RINGPRESS_RETURN_IF_ERROR(check_channels(known));
  if (known.maxCTAs != NCCL_CONFIG_UNDEF_INT && known.maxCTAs > configuration.most_channels) {
    return Status(Code::kInvalidArgument, "config.maxCTAs is " + std::to_string(known.maxCTAs) +
                                              ", more than the communicator's, which is " +
                                              std::to_string(configuration.most_channels));
  }
  CallOptions options;
  RINGPRESS_RETURN_IF_ERROR(read_options(known.ext, &options));
  if (known.launchCompletionEvent != nullptr) {
    return Status(Code::kInvalidUsage,
                  "config.launchCompletionEvent is set, but there is no device to record it");
  }
  options.tag = known.userProfilerTag;
  return options;
}

Settings settings_for_init(const std::string& comm_name) {
  Settings settings = settings_from_environment();
  settings.comm_name = comm_name;
  settings.program_key = encryption_key();
  direct_log(settings);
  return settings;
}

}  // namespace ringpress::nccl_plugin::host
