#include <memory>

#include "nccl_plugin/command/doctor.h"
#include "nccl_plugin/command/line/subcommand.h"
#include "nccl_plugin/command/params.h"

namespace ringpress::nccl_plugin::command {

Subcommand add_doctor(CLI::App* all) {
  const auto options = std::make_shared<DoctorOptions>();
  CLI::App* const doctor = all->add_subcommand("doctor", "which doors work in this environment");
  doctor->add_flag("--json", options->json, "for programs");
  doctor->add_option("PROGRAM", options->program,
                     "that the job starts, such as torchrun: the verdict is of its NCCL. "
                     "Default: PyTorch's of python3, VIRTUAL_ENV or CONDA_PREFIX");
  return {doctor, [options](const auto&) { return run_doctor(*options); }};
}

Subcommand add_params(CLI::App* all) {
  const auto is_json = std::make_shared<bool>(false);
  CLI::App* const params = all->add_subcommand("params", "all settings, their values and origins");
  params->add_flag("--json", *is_json, "for programs");
  return {params, [is_json](const auto&) { return print_params(*is_json); }};
}

}  // namespace ringpress::nccl_plugin::command
