// A DeviceModels whose kernels `Backend` launches (core/projection_tasks.h).
#ifndef COMPRESS_KERNELS_MODELS_TASK_MODELS_H_
#define COMPRESS_KERNELS_MODELS_TASK_MODELS_H_

#include <cstddef>
#include <utility>

#include "compress_kernels/models/device_tasks.h"
#include "ringpress/internal/device.h"

namespace ringpress::compress_kernels::models {

template <typename Backend>
class TaskModels final : public DeviceModels {
 public:
  explicit TaskModels(Backend backend) : backend_(std::move(backend)) {}

  Status measure_change(Stream stream, const ModelSpan& model, const void* reference,
                        ChangePart* parts) override {
    const ChangeTask task{{}, model.values, reference, model.count, parts};
    return backend_.launch(stream, model.dtype, task, kChangeParts);
  }
  Status average(Stream stream, const ModelSpan& model, const void* theirs) override {
    return launch(stream, model, AverageTask{{}, model.values, theirs, model.count});
  }
  Status take_difference(Stream stream, const ModelSpan& model, const float* base,
                         float* difference) override {
    return launch(stream, model, DifferenceTask{{}, model.values, base, model.count, difference});
  }
  Status add_half_difference(Stream stream, const ModelSpan& model, const float* own,
                             const float* theirs, LostMark lost) override {
    return launch(
        stream, model,
        HalfDifferenceTask{{}, model.values, own, theirs, model.count, lost.word, lost.mark});
  }

  Status widen(Stream stream, const ModelSpan& model, double* wide) override {
    return launch(stream, model, WidenTask{{}, model.values, model.count, wide}, kLaneElements);
  }
  Status take_mean(Stream stream, const double* sums, double divisor,
                   const ModelSpan& model) override {
    return launch(stream, model, MeanTask{{}, sums, model.count, divisor, model.values},
                  kLaneElements);
  }

  Status measure_lengths(Stream stream, const GradientSpan& gradient, const float* sum,
                         LengthPart* parts) override {
    const LengthTask task{{}, gradient.values, sum, gradient.count, parts};
    return backend_.launch(stream, gradient.dtype, task, kChangeParts);
  }
  Status add_values(Stream stream, const GradientSpan& gradient, float* sum) override {
    return launch(stream, gradient, AddValuesTask{{}, gradient.values, gradient.count, sum});
  }
  Status write_total(Stream stream, const GradientSpan& gradient, const float* sum,
                     void* to) override {
    return launch(stream, gradient, TotalTask{{}, gradient.values, sum, gradient.count, to});
  }

 private:
  // Of a piece: a group of 8 to a lane, or one.
  static constexpr std::size_t kGroupElements = 256;
  static constexpr std::size_t kLaneElements = 32;

  /// `Span`: a ModelSpan or a GradientSpan.
  template <typename Span, typename Task>
  Status launch(Stream stream, const Span& span, const Task& task,
                std::size_t piece_elements = kGroupElements) const {
    if (span.count == 0) return Status::ok();
    const std::size_t pieces = (span.count + piece_elements - 1) / piece_elements;
    return backend_.launch(stream, span.dtype, task, pieces);
  }

  const Backend backend_;
};

}  // namespace ringpress::compress_kernels::models

#endif  // COMPRESS_KERNELS_MODELS_TASK_MODELS_H_
