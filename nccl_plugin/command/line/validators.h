// What options of several commands must be.
#ifndef NCCL_PLUGIN_COMMAND_LINE_VALIDATORS_H_
#define NCCL_PLUGIN_COMMAND_LINE_VALIDATORS_H_

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <string>

namespace ringpress::nccl_plugin::command {

/// CLI::Range lets through what compares with nothing.
inline CLI::Validator finite() {
  return CLI::Validator(
      [](const std::string& text) {
        return std::isfinite(std::strtod(text.c_str(), nullptr)) ? std::string()
                                                                 : text + " is not finite";
      },
      "", "finite");
}

/// Of a variable that a script has not set, for one.
inline CLI::Validator not_empty() {
  return CLI::Validator(
      [](const std::string& text) {
        return text.empty() ? std::string("is empty") : std::string();
      },
      "", "not empty");
}

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_LINE_VALIDATORS_H_
