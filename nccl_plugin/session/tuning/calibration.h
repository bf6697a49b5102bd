// Measures what links and codecs do, and makes all ranks believe the same of them.
#ifndef NCCL_PLUGIN_SESSION_TUNING_CALIBRATION_H_
#define NCCL_PLUGIN_SESSION_TUNING_CALIBRATION_H_

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "nccl_plugin/session/tuning/peers.h"
#include "ringpress/internal/settings.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/tuning.h"
#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin::tuning {

inline constexpr std::array kTunedTypes = kCompressibleTypes;

/// By type, in the order of kTunedTypes.
struct Calibrations {
  std::array<Calibration, kTunedTypes.size()> by_type;

  const LinkSpeed& link() const { return by_type[0].link; }
  /// Of hosts of several ranks; else no link.
  const LinkSpeed& inside() const { return by_type[0].inside; }
  void set_links(const LinkSpeed& link, const LinkSpeed& inside) {
    for (Calibration& one : by_type) {
      one.link = link;
      one.inside = inside;
    }
  }
};

/// What automatic mode chooses from on host memory, if it loses no more than the budget's codec:
/// none first, the budget's as it is written, last.
std::vector<std::string> candidate_codecs(const std::string& budget);

/// What a codec loses, of each kind of values.
Result<std::vector<double>> measure_errors(const std::string& codec, DType dtype);

/// What a codec loses more than is allowed, of the values of which that is most: above 0, too much.
double find_excess(const std::vector<double>& errors, const std::vector<double>& allowed);

/// How many ranks each of several hosts has; 1 if not all have as many, or there is one host: all
/// links are of a kind then. Collective; the same on all ranks.
Result<int> count_ranks_per_host(Peers& peers);

/// What is measured at first: the link between hosts, or all if they are of a kind; else that
/// inside them, too; of each type, RINGPRESS_BUDGET's codec and those of a short list
/// that lose no more than it. Collective; the same on all ranks.
Result<Calibrations> calibrate(Peers& peers, const CallSettings& settings, int ranks_per_host);

/// The link as a cost model sees it that takes each rank for a host. Collective; the same on all
/// ranks.
Result<LinkSpeed> measure_link_of_ranks(Peers& peers);

/// True if links are about as quick as is said of them. Collective; the same on all ranks.
Result<bool> still_hold(Peers& peers, const Calibrations& said, int ranks_per_host);

}  // namespace ringpress::nccl_plugin::tuning

#endif  // NCCL_PLUGIN_SESSION_TUNING_CALIBRATION_H_
