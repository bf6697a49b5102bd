// Answers from child processes: what they do to themselves does not reach this one.
#ifndef NCCL_PLUGIN_COMMAND_CHILD_H_
#define NCCL_PLUGIN_COMMAND_CHILD_H_

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace ringpress::nccl_plugin::command {

constexpr std::chrono::milliseconds kChildPatience(30000);

struct ChildAnswer {
  std::string text;
  std::string problem;  // What became of the child, "died of signal 11 (...)"; empty: it answered.
};

/// What `work` returns in a child of this process, which must have one thread. Standard output is
/// not the child's: what it loads may write there.
ChildAnswer answer_of_child(const std::function<std::string()>& work,
                            std::chrono::milliseconds patience = kChildPatience);

/// Variables that a program gets besides those of this process.
using Variables = std::vector<std::pair<std::string, std::string>>;

/// The standard output of a program; empty if it cannot be started or takes longer than that.
std::string output_of(const std::vector<std::string>& command, const Variables& variables = {});

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_CHILD_H_
