// The commands of `ringpress`: their words on the command line, and what is done when one is given.
#ifndef NCCL_PLUGIN_COMMAND_LINE_SUBCOMMAND_H_
#define NCCL_PLUGIN_COMMAND_LINE_SUBCOMMAND_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace ringpress::nccl_plugin::command {

/// The exit status of a bad command line.
constexpr int kBadUsage = 2;

struct Subcommand {
  CLI::App* words = nullptr;  // Of the CLI::App that it was added to.
  // After the words were read; gives the exit status. `command`: what comes after `--`.
  std::function<int(const std::vector<std::string>& command)> run;
};

Subcommand add_run(CLI::App* all);
Subcommand add_doctor(CLI::App* all);
Subcommand add_params(CLI::App* all);
Subcommand add_plan(CLI::App* all);
Subcommand add_schedule(CLI::App* all);
Subcommand add_explain(CLI::App* all);
Subcommand add_estimate(CLI::App* all);
Subcommand add_report(CLI::App* all);

/// Says `text` on standard error; kBadUsage.
int refuse(const std::string& text);

/// What `work` gives; a terminal::Error is refused, with the command's name before it.
int refuse_errors(const char* command, const std::function<int()>& work);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_LINE_SUBCOMMAND_H_
