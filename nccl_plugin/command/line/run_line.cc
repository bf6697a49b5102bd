#include <memory>

#include "nccl_plugin/command/line/subcommand.h"
#include "nccl_plugin/command/run.h"

namespace ringpress::nccl_plugin::command {

Subcommand add_run(CLI::App* all) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App* const run = all->add_subcommand("run", "start a program whose NCCL uses this library");
  run->footer("usage: ringpress run [OPTIONS] [--] CMD...");
  run->add_flag("--dry-run", options->dry_run, "say what would be set, start nothing");
  run->add_option("--library", options->library_folder,
                  "where this library's files are; default: beside this program");
  run->add_option("--door", options->door,
                  "A: preloaded; B: plugin of NCCL; C: in place of NCCL, without a GPU; auto: what "
                  "the doctor finds to work, A before B")
      ->capture_default_str();
  SettingOptions& settings = options->settings;
  run->add_option("--codec", settings.codec, "RINGPRESS_CODEC: such as q4, or auto");
  run->add_option("--budget", settings.budget,
                  "RINGPRESS_BUDGET: what automatic mode may lose, such as q8 or error=0.05");
  run->add_flag("--off", settings.is_off, "RINGPRESS=off: compress nothing");
  run->add_flag("--lossless", settings.is_lossless, "RINGPRESS=lossless: lose nothing");
  run->add_flag("--encrypt", settings.is_encrypted,
                "RINGPRESS_ENCRYPT=on: encrypt what doors B and C send");
  run->add_option("--report", options->report_folder,
                  "a folder for what the job says of itself; made if it is not there");
  return {run, [options](const std::vector<std::string>& command) {
            options->command = command;
            if (command.empty() && !options->dry_run) {
              return refuse("run needs a command: ringpress run CMD...");
            }
            return refuse_errors("run", [&options] { return run_command(*options); });
          }};
}

}  // namespace ringpress::nccl_plugin::command
