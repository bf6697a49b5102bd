// What the calls of a step lose at each level (step_levels.h): measured by each rank, and agreed on
// by all.
#ifndef NCCL_PLUGIN_SESSION_TUNING_STEP_MEASURER_H_
#define NCCL_PLUGIN_SESSION_TUNING_STEP_MEASURER_H_

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "nccl_plugin/session/calls/tensor_call.h"
#include "nccl_plugin/session/tuning/level_family.h"
#include "nccl_plugin/session/tuning/level_trials.h"
#include "nccl_plugin/session/tuning/part_encodings.h"
#include "nccl_plugin/session/tuning/peers.h"
#include "ringpress/internal/error_tables.h"
#include "ringpress/internal/levels.h"
#include "ringpress/internal/projection.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::tuning {

struct MeasuredCall {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::size_t count = 0;
  std::vector<std::size_t> ends;                       // Of its parts; none: not known yet.
  std::vector<SampledPart> samples;                    // By part, if there are any.
  std::vector<double> bytes;                           // By part, then level.
  std::array<std::vector<double>, kLossKinds> errors;  // Each by part, then level.
  std::vector<double> norms;                           // Of the last step's values, by part.
  std::vector<double> later_norms;       // If they grow on until levels are found again.
  std::vector<PartEncodings> encodings;  // By part, as samples.
  std::size_t times = 0;                 // Steps of the window.
  std::vector<RanksSum> sums;            // By part, where ranks have cut the call alike.
  std::vector<const void*> buffers;      // That it came in, in turn: of a step of one call.
  bool is_lost = false;                  // There was no memory, or it is several tensors.
  bool is_cut_alike = false;             // On all ranks.

  double norm() const;
  LevelErrors errors_of(std::size_t part, std::size_t number) const;
  bool is_measured() const;
  bool comes_back_to(const void* buffer);
};

/// The steps that are measured.
struct MeasuredStep {
  std::size_t age = 0;                 // Steps before levels were looked for last.
  std::size_t steps = 0;               // Whole ones, and the one under way, since then.
  std::size_t interval = 0;            // Steps until they are looked for again.
  std::size_t segment = 0;             // Elements of a segment.
  std::size_t elements = 0;            // Elements of the step.
  std::vector<MeasuredCall> measured;  // By place.

  void start(std::span<const TensorCall> calls);
  /// One of the last steps of the interval is under way.
  bool is_in_window(std::size_t window) const { return steps + window > interval; }
};

class StepMeasurer {
 public:
  /// All outlive this.
  StepMeasurer(const CallSettings& settings, Peers& peers, const LevelFamily& family);

  /// True if take() is to have the values of a call of the step that is under way.
  bool wants_values(const MeasuredStep& step) const;
  /// Without memory for it the call counts as not measured, on all ranks.
  void take(const MeasuredTensor& tensor, std::span<const Layer> layers, std::size_t place,
            MeasuredStep* step) const;
  /// What all ranks have measured. False if one has not measured a call, though its turn came, or
  /// what it loses is not finite: then no levels are to change.
  Result<bool> conclude(MeasuredStep* step) const;

 private:
  void start_call(std::span<const Layer> layers, const MeasuredStep& step,
                  MeasuredCall* call) const;
  void add_sample(const MeasuredTensor& tensor, bool is_kept, bool is_encoded,
                  MeasuredCall* call) const;
  void add_measured(const MeasuredTensor& tensor, std::span<const Layer> layers,
                    MeasuredCall* call) const;
  void conclude_call(const MeasuredStep& step, MeasuredCall* call) const;
  Result<bool> agree_on_cuts(MeasuredStep* step) const;
  Status agree_on_errors(MeasuredStep* step) const;
  Status agree_on_sums(MeasuredStep* step) const;

  const CallSettings& settings_;
  Peers& peers_;
  const LevelFamily& family_;
  const bool has_parts_;
};

}  // namespace ringpress::nccl_plugin::tuning

#endif  // NCCL_PLUGIN_SESSION_TUNING_STEP_MEASURER_H_
