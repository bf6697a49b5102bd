#include "nccl_plugin/host/configuration.h"

#include <cstddef>
#include <cstring>
#include <limits>
#include <string>

#include "nccl_plugin/host/log_output.h"

namespace ringpress::nccl_plugin::host {
namespace {

constexpr unsigned kConfigMagic = 0xcafebeef;
constexpr int kAny = std::numeric_limits<int>::max();
// The struct of NCCL 2.14, the first: it ends with `blocking`.
constexpr std::size_t kSmallestBytes = offsetof(ncclConfig_t, blocking) + sizeof(int);

struct IntegerField {
  const char* name;
  int ncclConfig_t::*field;
  int smallest;
  int largest;
};
constexpr IntegerField kIntegerFields[] = {
    {"blocking", &ncclConfig_t::blocking, 0, 1},
    {"cgaClusterSize", &ncclConfig_t::cgaClusterSize, 0, kAny},
    {"minCTAs", &ncclConfig_t::minCTAs, 1, kAny},
    {"maxCTAs", &ncclConfig_t::maxCTAs, 1, kAny},
    {"splitShare", &ncclConfig_t::splitShare, 0, 1},
    {"trafficClass", &ncclConfig_t::trafficClass, 0, kAny},
    {"collnetEnable", &ncclConfig_t::collnetEnable, 0, 1},
    {"CTAPolicy", &ncclConfig_t::CTAPolicy, 0, kAny},
    {"shrinkShare", &ncclConfig_t::shrinkShare, 0, 1},
    {"nvlsCTAs", &ncclConfig_t::nvlsCTAs, 1, kAny},
    {"nChannelsPerNetPeer", &ncclConfig_t::nChannelsPerNetPeer, 1, kAny},
    {"nvlinkCentricSched", &ncclConfig_t::nvlinkCentricSched, 0, 1},
};

Status check_fields(const ncclConfig_t& config) {
  for (const IntegerField& f : kIntegerFields) {
    const int value = config.*f.field;
    if (value == NCCL_CONFIG_UNDEF_INT || (value >= f.smallest && value <= f.largest)) continue;
    const std::string limit = f.largest == kAny
                                  ? "at least " + std::to_string(f.smallest)
                                  : std::to_string(f.smallest) + " or " + std::to_string(f.largest);
    return Status(Code::kInvalidArgument, std::string("config.") + f.name + " is " +
                                              std::to_string(value) + ", but must be " + limit);
  }
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
  if (config->magic != kConfigMagic || config->size < kSmallestBytes) {
    return Status(Code::kInvalidArgument,
                  "config does not start from NCCL_CONFIG_INITIALIZER: its size or magic is wrong");
  }
  if (config->version < NCCL_VERSION(2, 14, 0)) {
    return Status(Code::kInvalidArgument, "config.version is " + std::to_string(config->version) +
                                              ", but configurations came with 21400");
  }
  // Fields that the caller's version lacks stay unset; those that ours lacks are not read.
  ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
  std::memcpy(&known, config, config->size < sizeof known ? config->size : sizeof known);
  RINGPRESS_RETURN_IF_ERROR(check_fields(known));
  Configuration result = inherited;
  if (known.blocking != NCCL_CONFIG_UNDEF_INT) result.blocking = known.blocking == 1;
  if (known.commName != NCCL_CONFIG_UNDEF_PTR) result.name = known.commName;
  return result;
}

Settings settings_for_init(const std::string& comm_name) {
  Settings settings = settings_from_environment();
  settings.comm_name = comm_name;
  direct_log(settings);
  return settings;
}

}  // namespace ringpress::nccl_plugin::host
