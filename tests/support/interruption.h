// How soon error feedback is back after calls that are not those of the step.
#ifndef TESTS_SUPPORT_INTERRUPTION_H_
#define TESTS_SUPPORT_INTERRUPTION_H_

#include <cstddef>
#include <map>
#include <string>

namespace ringpress::testing {

/// A program whose step is interrupted. Each letter is a call of its own size, from a buffer of its
/// own.
struct Interruption {
  std::string step;
  std::size_t times = 0;  // The step, before the others and again afterwards.
  std::string others;     // That come in between.
};

/// Different for each letter.
inline std::size_t elements_of(char call) {
  const int number = call >= 'a' ? call - 'a' + 26 : call - 'A';
  return 6000 + 500 * static_cast<std::size_t>(number);
}

/// Which call after the others, from 1 on, is the first one whose result is not that of a call
/// without a residual. 0: none. `reduce(call)` gives the result of such a call, which a residual
/// would change.
template <typename Reduce>
std::size_t resumed_at(const Interruption& tried, Reduce&& reduce) {
  std::map<char, decltype(reduce('A'))> without;
  for (std::size_t i = 0; i < tried.times; ++i) {
    for (const char call : tried.step) without.try_emplace(call, reduce(call));
  }
  for (const char call : tried.others) reduce(call);
  std::size_t calls = 0;
  std::size_t resumed = 0;
  for (std::size_t i = 0; i < tried.times; ++i) {
    for (const char call : tried.step) {
      ++calls;
      const bool is_other = reduce(call) != without.at(call);
      if (is_other && resumed == 0) resumed = calls;
    }
  }
  return resumed;
}

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_INTERRUPTION_H_
