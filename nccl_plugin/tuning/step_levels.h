// Levels of compression of its own for each call of a training step, and for each part of a call:
// L-GreCo's (ringpress/levels.h), at no more error than one level for all.
//
// Every RINGPRESS_ADJUST_STEPS steps each rank measures, in a whole step, what each level would
// lose of each part of each call's values and their residuals. At the first call of the step after
// it the ranks add up what they have measured, and each works out the same levels from that. What
// is lost when a sum is encoded again counts too: in proportion to the squares of the sum's values,
// as what is lost of the ranks' values is to theirs. Parts are the layers that the program has told
// of, or segments (tensor_cut.h); a call that the ranks have not cut alike, as they know of
// different layers, is one part.
//
// RINGPRESS_ACCORDION (Agarwal, Wang, Lee, Venkataraman and Papailiopoulos, MLSys 2021): a call
// whose norm differs by half or more from when it was measured before, or that is measured for the
// first time, is in a critical regime and counts with the error of two bits more.
#ifndef NCCL_PLUGIN_TUNING_STEP_LEVELS_H_
#define NCCL_PLUGIN_TUNING_STEP_LEVELS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "nccl_plugin/error_feedback.h"
#include "nccl_plugin/tuning/level_family.h"
#include "nccl_plugin/tuning/peers.h"
#include "ringpress/error_tables.h"
#include "ringpress/planner.h"
#include "ringpress/projection.h"
#include "ringpress/settings.h"

namespace ringpress::nccl_plugin::tuning {

/// Elements of a call up to `end`, from where the part before it ends.
struct LeveledPart {
  std::size_t end = 0;
  std::size_t level = 0;  // Of the family.

  bool operator==(const LeveledPart&) const = default;
};
using LeveledCall = std::vector<LeveledPart>;  // Neighbours differ in their levels.

/// Of one communicator. One thread at a time.
class StepLevels {
 public:
  /// `settings` and `peers` outlive this.
  StepLevels(const Settings& settings, Peers& peers, std::unique_ptr<LevelFamily> family);

  /// The next call of those that may be compressed, the same on all ranks, whatever becomes of it.
  /// Where its codec would be that of all (adjusted_codec()), it gets the levels of its place in
  /// the step: one level is the plan's codec, several are parts(). Collective now and then; an
  /// error ends the communicator.
  Status choose(const PlanRequest& request, Plan* plan);
  /// Of that call, until the next one: empty where it has one codec.
  std::span<const LeveledPart> parts() const { return parts_; }
  /// That call is the first one after levels that make calls clearly larger or smaller.
  bool has_changed_sizes() const { return has_changed_sizes_; }
  /// True if take() is to have the values of that call.
  bool wants_values() const { return wants_values_; }
  /// `layers`: what is known of the tensor; may differ between ranks.
  void take(const MeasuredTensor& tensor, std::span<const Layer> layers);
  /// After take(): the values of that call's result.
  void take_result(const void* values);

  const LevelFamily& family() const { return *family_; }
  /// By place in the step; empty while all calls have the default.
  const std::vector<LeveledCall>& levels() const { return levels_; }

 private:
  struct MeasuredCall {
    DType dtype = DType::kFloat32;
    ReduceOp op = ReduceOp::kSum;
    std::vector<std::size_t> ends;  // Of its parts.
    std::vector<double> bytes;      // By part, then level; and so
    std::vector<double> errors;
    std::vector<double> norms;         // By part,
    std::vector<double> result_norms;  // and those of the result.

    double norm() const;
  };

  void forget();
  Status start_step();
  void start_measuring();
  MeasuredCall measure(const MeasuredCall& unknown, const MeasuredTensor& tensor,
                       std::span<const Layer> layers) const;
  Status find_levels();
  Status agree_on_cuts();
  void join_parts(MeasuredCall* call) const;
  Status agree_on_errors();
  void count_second_encoding();
  std::size_t default_level_of(std::size_t place) const;
  void set_levels(const std::vector<std::size_t>& by_part);
  double bytes_of(const LeveledCall& call) const;

  const Settings& settings_;
  Peers& peers_;
  const std::unique_ptr<LevelFamily> family_;
  const bool has_parts_;
  CallPattern pattern_;
  std::uint64_t breaks_ = 0;
  std::size_t position_ = 0;
  std::uint64_t steps_ = 0;  // Begun since the pattern is known.
  std::size_t segment_ = 0;  // Elements.
  bool is_measuring_ = false;
  bool wants_values_ = false;
  bool has_changed_sizes_ = false;
  std::vector<MeasuredCall> measured_;  // By place: of the step that is measured.
  std::vector<double> earlier_norms_;   // Of the one before it; empty if there was none.
  std::vector<LeveledCall> levels_;
  std::span<const LeveledPart> parts_;
};

}  // namespace ringpress::nccl_plugin::tuning

#endif  // NCCL_PLUGIN_TUNING_STEP_LEVELS_H_
