// ringpress params: every setting, what it is and where it comes from.
#ifndef PERF_RINGPRESS_PARAMS_H_
#define PERF_RINGPRESS_PARAMS_H_

#include <string>
#include <vector>

#include "perf/ringpress/environment.h"

namespace ringpress::perf {

struct Param {
  std::string name;
  std::string value;  // That is in force, or the default; a secret's is never shown.
  std::string default_value;
  std::string origin;   // "default", "environment", or the path of a file.
  std::string given;    // That is refused; empty: none is.
  std::string mistake;  // Why it is refused.
  bool must_agree = false;
  std::string meaning;
};
std::vector<Param> params(const JobEnvironment& environment);

/// 0: every setting can be used; 1: one is refused, and named on standard error.
int print_params(bool json);

}  // namespace ringpress::perf

#endif  // PERF_RINGPRESS_PARAMS_H_
