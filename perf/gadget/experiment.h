// The paper's experiment: utilities and embedded jobs of the policies on random clusters.
#ifndef PERF_GADGET_EXPERIMENT_H_
#define PERF_GADGET_EXPERIMENT_H_

#include <string>

namespace ringpress::perf {

/// Prints the tables, and draws utility against load into a file.
void print_experiment(const std::string& svg_file);

}  // namespace ringpress::perf

#endif  // PERF_GADGET_EXPERIMENT_H_
