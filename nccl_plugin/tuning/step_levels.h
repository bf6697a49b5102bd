// Bits of its own for each call of a training step: L-GreCo's levels (ringpress/levels.h), where a
// layer is a call, at no more error than one level for all.
//
// Every RINGPRESS_ADJUST_STEPS steps each rank measures, in a whole step, what each number of bits
// would lose of each call's values and their residuals. At the first call of the step after it the
// ranks take the largest of what they have measured, and each works out the same levels from that.
//
// RINGPRESS_ACCORDION (Agarwal, Wang, Lee, Venkataraman and Papailiopoulos, MLSys 2021): a call
// whose norm differs by half or more from when it was measured before, or that is measured for the
// first time, is in a critical regime and counts with the error of two bits more.
#ifndef NCCL_PLUGIN_TUNING_STEP_LEVELS_H_
#define NCCL_PLUGIN_TUNING_STEP_LEVELS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nccl_plugin/error_feedback.h"
#include "nccl_plugin/tuning/peers.h"
#include "ringpress/error_tables.h"
#include "ringpress/planner.h"
#include "ringpress/settings.h"

namespace ringpress::nccl_plugin::tuning {

/// Codecs that differ in their bits alone: "q", the bits, and what follows.
struct BitLevels {
  int default_bits = 4;
  std::size_t block = 0;  // Elements.
  std::string rest;       // ":block=..."

  std::string specification(int bits) const { return "q" + std::to_string(bits) + rest; }
};

/// Of RINGPRESS_BUDGET; nothing if it is not `q2` to `q8` of the uniform grid, rounded to nearest.
std::optional<BitLevels> find_bit_levels(const std::string& budget);

/// Of one communicator. One thread at a time.
class StepLevels {
 public:
  /// `settings` and `peers` outlive this.
  StepLevels(const Settings& settings, Peers& peers, BitLevels levels);

  /// The next call of those that may be compressed, the same on all ranks. Where its codec would be
  /// the budget's, it gets the bits of its place in the step. Collective now and then; an error
  /// ends the communicator.
  Status choose(const PlanRequest& request, Plan* plan);
  /// True if take() is to have the values of the call that choose() was asked about last.
  bool wants_values() const { return wants_values_; }
  void take(const MeasuredTensor& tensor);

  /// By place in the step; empty while all calls have the default.
  const std::vector<int>& bits() const { return bits_; }

 private:
  void forget();
  Status start_step();
  Status find_bits();
  std::vector<std::size_t> find_default_levels() const;

  const Settings& settings_;
  Peers& peers_;
  const BitLevels levels_;
  CallPattern pattern_;
  std::uint64_t breaks_ = 0;
  std::size_t position_ = 0;
  std::uint64_t steps_ = 0;  // Begun since the pattern is known.
  bool is_measuring_ = false;
  bool wants_values_ = false;
  std::vector<double> errors_;         // By place, then level: of the step that is measured.
  std::vector<double> counts_;         // By place: elements.
  std::vector<double> norms_;          // By place: of the step that is measured,
  std::vector<double> earlier_norms_;  // and of the one before it; empty if there was none.
  std::vector<int> bits_;
};

}  // namespace ringpress::nccl_plugin::tuning

#endif  // NCCL_PLUGIN_TUNING_STEP_LEVELS_H_
