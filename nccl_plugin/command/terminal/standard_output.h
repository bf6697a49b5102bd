// The end of a program whose output somebody reads.
#ifndef NCCL_PLUGIN_COMMAND_TERMINAL_STANDARD_OUTPUT_H_
#define NCCL_PLUGIN_COMMAND_TERMINAL_STANDARD_OUTPUT_H_

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

namespace ringpress::terminal {

/// The exit status of a program that has printed all: `status`, or EXIT_FAILURE in place of
/// success, with a line on standard error, where not all of it could be written.
inline int end_with(int status, const char* program) {
  const bool is_lost = std::ferror(stdout) != 0;
  if (std::fflush(stdout) == 0 && !is_lost) return status;
  std::fprintf(stderr, "%s: standard output: %s\n", program,
               is_lost ? "not all could be written" : std::strerror(errno));
  return status == EXIT_SUCCESS ? EXIT_FAILURE : status;
}

/// The same of a program that does `run`, which gives its status; an exception is told on standard
/// error.
template <typename Run>
int run_to_end(const char* program, Run&& run) {
  try {
    return end_with(run(), program);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return EXIT_FAILURE;
  }
}

}  // namespace ringpress::terminal

#endif  // NCCL_PLUGIN_COMMAND_TERMINAL_STANDARD_OUTPUT_H_
