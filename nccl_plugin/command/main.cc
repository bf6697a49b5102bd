// ringpress: the command for people who start jobs.
//
//   ringpress run [OPTIONS] [--] CMD...           CMD with the variables of a door set
//   ringpress doctor [--json] [PROGRAM]           which doors work here, and why not
//   ringpress params [--json]                     all settings
//   ringpress plan [--svg FILE] JOB.json          what to compress in a training step
//   ringpress schedule CLUSTER.json JOBS.json     which jobs of a cluster run, and where
//   ringpress explain SIZE DTYPE NRANKS           what an all-reduce would take, predicted
//   ringpress estimate --params 1.3B ...          whether it is worth it for a training
//   ringpress report FILE...                     what a job did, as a page
//
// Exit status 2: a bad command line. `run`: that of CMD; 125 to 127 if it was not started.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "nccl_plugin/command/line/subcommand.h"
#include "nccl_plugin/command/line/validators.h"
#include "nccl_plugin/command/terminal/error.h"
#include "nccl_plugin/command/terminal/standard_output.h"
#include "ringpress/version.h"

namespace ringpress::nccl_plugin::command {

int refuse(const std::string& text) {
  fmt::print(stderr, "ringpress: {}\n", text);
  return kBadUsage;
}

int refuse_errors(const char* command, const std::function<int()>& work) {
  try {
    return work();
  } catch (const terminal::Error& error) {
    return refuse(std::string(command) + ": " + error.what());
  }
}

namespace {

struct CommandLine {
  CLI::App app{"Compressed all-reduce for NCCL programs: start them, look at what is there.",
               "ringpress"};
  // In the order in which they are listed.
  std::vector<Subcommand> commands = {add_run(&app),      add_doctor(&app),   add_params(&app),
                                      add_plan(&app),     add_schedule(&app), add_explain(&app),
                                      add_estimate(&app), add_report(&app)};

  CommandLine() {
    app.require_subcommand(1);
    app.set_version_flag("--version", RINGPRESS_VERSION);
    for (const Subcommand& command : commands) {
      for (CLI::Option* const option : command.words->get_options()) option->check(not_empty());
    }
  }

  const Subcommand* find(const std::string& name) const {
    const auto found = std::find_if(commands.begin(), commands.end(), [&](const Subcommand& one) {
      return one.words->get_name() == name;
    });
    return found == commands.end() ? nullptr : &*found;
  }

  /// "run, doctor and params".
  std::string names() const {
    std::string text;
    for (std::size_t i = 0; i < commands.size(); ++i) {
      const bool is_last = i + 1 == commands.size();
      text += (i == 0 ? "" : is_last ? " and " : ", ") + commands[i].words->get_name();
    }
    return text;
  }
};

bool is_word(const char* word, const char* wanted) {
  return std::strcmp(word, wanted) == 0;
}

/// Whether what follows this word on the command line is its value.
bool takes_next_word(const CLI::App& words, const char* word) {
  const CLI::Option* const option = words.get_option_no_throw(word);
  return option != nullptr && option->get_items_expected_max() > 0;
}

/// Where our own words end: at the first `--`, or where the command that `run` starts begins
/// without one. What comes after is that command's, another `--` too.
char** end_of_own_words(const CommandLine& line, char** argv, char** end) {
  char** const dashes =
      std::find_if(argv, end, [](const char* word) { return is_word(word, "--"); });
  if (end - argv < 2 || !is_word(argv[1], "run")) return dashes;
  const CLI::App& words = *line.find("run")->words;
  for (char** word = argv + 2; word < dashes; ++word) {
    if (**word != '-') return word;
    if (takes_next_word(words, *word)) ++word;
  }
  return dashes;
}

int run_program(int argc, char** argv) {
  CommandLine line;
  char** const end = argv + argc;
  char** const dashes = end_of_own_words(line, argv, end);
  const std::string first = argc > 1 && argv + 1 != dashes ? argv[1] : "";
  if (!first.empty() && first[0] != '-' && line.find(first) == nullptr) {
    return refuse("there is no command \"" + first + "\"; there are " + line.names());
  }
  try {
    line.app.parse(static_cast<int>(dashes - argv), argv);
  } catch (const CLI::ParseError& error) {
    return line.app.exit(error) == 0 ? EXIT_SUCCESS : kBadUsage;
  }
  std::vector<std::string> command;
  const bool has_dashes = dashes != end && is_word(*dashes, "--");
  if (dashes != end) command.assign(has_dashes ? dashes + 1 : dashes, end);
  for (const Subcommand& one : line.commands) {
    if (!one.words->parsed()) continue;
    if (dashes != end && one.words->get_name() != "run") {
      return refuse("only run takes a command after --");
    }
    return one.run(command);
  }
  return kBadUsage;  // Not reached: one is required.
}

}  // namespace
}  // namespace ringpress::nccl_plugin::command

int main(int argc, char** argv) {
  try {
    return ringpress::terminal::end_with(ringpress::nccl_plugin::command::run_program(argc, argv),
                                         "ringpress");
  } catch (const std::exception& error) {
    fmt::print(stderr, "ringpress: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
