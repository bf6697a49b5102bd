// Variables of the environment, as they were again afterwards. For tests with one thread.
#ifndef TESTS_SUPPORT_SCOPED_ENVIRONMENT_H_
#define TESTS_SUPPORT_SCOPED_ENVIRONMENT_H_

#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ringpress::test {

class ScopedEnvironment {
 public:
  struct Variable {
    const char* name;
    const char* value;  // Null: not there.
  };

  explicit ScopedEnvironment(std::initializer_list<Variable> variables) {
    for (const auto& [name, value] : variables) {
      const char* const old = std::getenv(name);
      before_.emplace_back(name, old == nullptr ? std::nullopt : std::optional<std::string>(old));
      set(name, value);
    }
  }
  ~ScopedEnvironment() {
    for (auto entry = before_.rbegin(); entry != before_.rend(); ++entry) {
      set(entry->first.c_str(), entry->second ? entry->second->c_str() : nullptr);
    }
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  static void set(const char* name, const char* value) {
    if (value == nullptr) {
      unsetenv(name);
    } else {
      setenv(name, value, 1);
    }
  }

  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

}  // namespace ringpress::test

#endif  // TESTS_SUPPORT_SCOPED_ENVIRONMENT_H_
