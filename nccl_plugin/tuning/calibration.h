// Measures what links and codecs do, and makes all ranks believe the same of them.
#ifndef NCCL_PLUGIN_TUNING_CALIBRATION_H_
#define NCCL_PLUGIN_TUNING_CALIBRATION_H_

#include <array>
#include <cstddef>
#include <string>

#include "nccl_plugin/tuning/peers.h"
#include "ringpress/settings.h"
#include "ringpress/status.h"
#include "ringpress/tuning.h"
#include "ringpress/types.h"

namespace ringpress::nccl_plugin::tuning {

inline constexpr std::array kTunedTypes{DType::kFloat32, DType::kFloat16, DType::kBfloat16};

/// By type, in the order of kTunedTypes.
struct Calibrations {
  std::array<Calibration, kTunedTypes.size()> by_type;

  const LinkSpeed& link() const { return by_type[0].link; }
  void set_link(const LinkSpeed& link) {
    for (Calibration& one : by_type) one.link = link;
  }
};

/// What is measured at first: of each type, RINGPRESS_BUDGET's codec and those of a short list
/// that lose no more than it. Collective; the same on all ranks.
Result<Calibrations> calibrate(Peers& peers, const Settings& settings);

/// True if calls of some milliseconds take about what is said of the link. Collective; the same on
/// all ranks.
Result<bool> still_holds(Peers& peers, const LinkSpeed& link);

}  // namespace ringpress::nccl_plugin::tuning

#endif  // NCCL_PLUGIN_TUNING_CALIBRATION_H_
