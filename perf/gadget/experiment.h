// The paper's experiment: utilities and embedded jobs of the policies on random clusters.
#ifndef PERF_GADGET_EXPERIMENT_H_
#define PERF_GADGET_EXPERIMENT_H_

#include <string>

#include "nccl_plugin/command/schedule/svg.h"

namespace ringpress::perf {

using nccl_plugin::command::LineChart;

/// Throws std::runtime_error if the file cannot be written.
void write_chart(const std::string& svg_file, const LineChart& chart);

/// Prints the tables, and draws utility against load into a file.
void print_experiment(const std::string& svg_file);

}  // namespace ringpress::perf

#endif  // PERF_GADGET_EXPERIMENT_H_
