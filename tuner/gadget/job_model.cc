#include "ringpress/internal/job_model.h"

namespace ringpress {

double step_seconds(const JobModel& model, std::size_t workers) {
  if (workers < 2) return model.compute_seconds;
  const auto count = static_cast<double>(workers);
  const double ratios = model.ratio_reduce_scatter + model.ratio_all_gather;
  const double seconds_per_byte = ratios / model.bytes_per_second + model.codec_seconds_per_byte;
  return model.bytes * (count - 1) / count * seconds_per_byte + model.compute_seconds +
         model.overhead_seconds;
}

}  // namespace ringpress
