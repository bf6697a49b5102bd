// Answers from child processes: what they do to themselves does not reach this one.
#ifndef PERF_RINGPRESS_CHILD_H_
#define PERF_RINGPRESS_CHILD_H_

#include <functional>
#include <string>
#include <vector>

namespace ringpress::perf {

/// What `work` returns in a child of this process, which must have one thread; empty if the child
/// dies or takes longer than half a minute.
std::string answer_of_child(const std::function<std::string()>& work);

/// The standard output of a program; empty if it cannot be started or takes longer than that.
std::string output_of(const std::vector<std::string>& command);

}  // namespace ringpress::perf

#endif  // PERF_RINGPRESS_CHILD_H_
