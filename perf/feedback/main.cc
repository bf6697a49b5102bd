// What error feedback does over many calls, on host memory (door C).
//
//   feedback_perf                      how soon it is back after other calls
//   feedback_perf identity [PROGRAMS]  whose residuals calls get, in so many random programs
//                                      (10000)
//   feedback_perf CODEC [CALLS]        how wrong the sum of all calls is, up to so many (10000)
//   feedback_perf logged CODEC         the same after 200 calls, if a value is logged now and then
//
// Each letter is a call of its own size. The calls of a step come so many times, then the others,
// then the step again. Printed is which call after the others is the first whose result a residual
// has changed. Ranks are threads.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/feedback_runs.h"
#include "tests/support/random_program.h"

namespace ringpress::perf {
namespace {

void print_resumptions() {
  const testing::Interruption tried[] = {{"A", 100, "X"},
                                         {"A", 30, "XYXYXYX"},
                                         {"ABC", 30, "X"},
                                         {"AAB", 10, "X"},
                                         {"ABCD", 30, "X"},
                                         {"ABCD", 30, "EFEFEFEFEFEF"},
                                         {"ABCD", 30, "abcd"},
                                         {"ABCD", 30, "ABxy"},
                                         {"ABCDEFGHIJKLMNOPQ", 3, "x"},
                                         {"ABCDEFGHIJKLMNOP", 300, "XYZ"}};
  std::printf("| step | times | others | back at call |\n|---|---|---|---|\n");
  for (const testing::Interruption& one : tried) {
    std::printf("| %s | %zu | %s | %zu |\n", one.step.c_str(), one.times, one.others.c_str(),
                testing::resumed_on_host(one));
  }
}

void print_identities(std::size_t programs) {
  using testing::Buffers;
  using testing::Program;
  const std::pair<Program, const char*> programs_of[] = {{Program::kSteps, "steps"},
                                                         {Program::kTraining, "a training"}};
  const std::pair<Buffers, const char*> kinds[] = {{Buffers::kKept, "keep their tensors"},
                                                   {Buffers::kMoved, "change now and then"},
                                                   {Buffers::kRebuilt, "get other tensors"},
                                                   {Buffers::kAnew, "are new in each call"},
                                                   {Buffers::kOne, "are one"}};
  std::printf(
      "| program | buffers | programs | calls | with a residual | another tensor's | a new one |\n"
      "|---|---|---|---|---|---|---|\n");
  for (const auto& [program, of] : programs_of) {
    for (const auto& [buffers, name] : kinds) {
      const auto found =
          testing::run_programs(program, buffers, static_cast<std::uint32_t>(programs));
      std::printf("| %s | %s | %zu | %zu | %zu | %zu | %zu |\n", of, name, programs, found.calls,
                  found.found, found.others, found.anew);
    }
  }
}

void print_errors(const std::string& codec, std::size_t most) {
  std::vector<std::size_t> calls;
  for (std::size_t call = 100; call < most; call *= 2) calls.push_back(call);
  calls.push_back(most);
  const std::vector<double> errors = testing::cumulative_errors(codec, calls);
  std::printf("| codec | calls | error of their sum over the norm of one |\n|---|---|---|\n");
  for (std::size_t i = 0; i < calls.size(); ++i) {
    std::printf("| %s | %zu | %.4g |\n", codec.c_str(), calls[i], errors[i]);
  }
}

void print_errors_beside_logged_values(const std::string& codec) {
  const std::size_t calls[] = {200};
  std::printf(
      "| logged every | error, its buffer is its own | in a new one each time |\n|---|---|---|\n");
  for (std::size_t every = 0; every <= 10; ++every) {
    if (every == 1) continue;  // That is a part of the step.
    const double own = testing::cumulative_errors(codec, calls, {every, false})[0];
    const double anew = testing::cumulative_errors(codec, calls, {every, true})[0];
    std::printf("| %zu calls | %.4g | %.4g |\n", every, own, anew);
  }
}

}  // namespace
}  // namespace ringpress::perf

int main(int count, char** values) {
  try {
    if (count == 1) {
      ringpress::perf::print_resumptions();
      return 0;
    }
    if (count == 3 && values[1] == std::string("logged")) {
      ringpress::perf::print_errors_beside_logged_values(values[2]);
      return 0;
    }
    const std::size_t number = count > 2 ? std::strtoull(values[2], nullptr, 10) : 10000;
    if (count > 3 || number == 0) {
      std::fprintf(stderr,
                   "usage: feedback_perf [identity [PROGRAMS] | CODEC [CALLS] | logged CODEC]\n");
      return 2;
    }
    if (values[1] == std::string("identity")) {
      ringpress::perf::print_identities(number);
    } else {
      ringpress::perf::print_errors(values[1], number);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "feedback_perf: %s\n", error.what());
    return 1;
  }
}
