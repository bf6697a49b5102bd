#include "nccl_plugin/command/report/job_data.h"

#include <algorithm>
#include <cmath>

namespace ringpress::nccl_plugin::command::report {

void Flow::add(const Flow& other) {
  raw_bytes += other.raw_bytes;
  wire_bytes += other.wire_bytes;
  for (std::size_t i = 0; i < kPhases.size(); ++i) phase_seconds[i] += other.phase_seconds[i];
}

void ErrorSpan::add(const ErrorSpan& other) {
  squares += other.squares;
  worst = std::max(worst, other.worst);
  lines += other.lines;
}

double ErrorSpan::mean() const {
  return lines == 0 ? 0 : std::sqrt(squares / static_cast<double>(lines));
}

}  // namespace ringpress::nccl_plugin::command::report
