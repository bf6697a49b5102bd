// Ranks for tests of the NCCL API: threads, each with a communicator of its own.
#ifndef TESTS_SUPPORT_NCCL_RANKS_H_
#define TESTS_SUPPORT_NCCL_RANKS_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "ringpress/nccl.h"

#define EXPECT_NCCL_OK(call) EXPECT_EQ((call), ncclSuccess) << ncclGetLastError(nullptr)
#define ASSERT_NCCL_OK(call) ASSERT_EQ((call), ncclSuccess) << ncclGetLastError(nullptr)

namespace ringpress::testing {

inline ncclUniqueId make_nccl_id() {
  ncclUniqueId id{};
  EXPECT_NCCL_OK(ncclGetUniqueId(&id));
  return id;
}

/// Runs body(rank) in `size` threads.
template <typename Body>
void run_threads(int size, Body body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

/// Runs body(comm, rank) in `size` threads that form one communicator, and destroys it.
template <typename Body>
void run_nccl_ranks(int size, Body body) {
  const ncclUniqueId id = make_nccl_id();
  run_threads(size, [&](int rank) {
    ncclComm_t comm = nullptr;
    ASSERT_NCCL_OK(ncclCommInitRank(&comm, size, id, rank));
    body(comm, rank);
    EXPECT_NCCL_OK(ncclCommDestroy(comm));
  });
}

/// An enumeration's value as C code may pass it, valid or not. Use it as an argument, unnamed: to
/// read an invalid one is undefined.
template <typename Enum>
__attribute__((no_sanitize("undefined"))) Enum from_int(int value) {
  Enum result;
  std::memcpy(&result, &value, sizeof value);
  return result;
}

/// Expects that the last error of this thread has `part` in it.
inline void expect_last_error(const std::string& part) {
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find(part), std::string::npos)
      << "last error: " << ncclGetLastError(nullptr) << "\nlacks: " << part;
}

/// Sets an environment variable while it lives.
class ScopedEnvironment {
 public:
  ScopedEnvironment(const char* name, const char* value) : name_(name) {
    const char* before = std::getenv(name);
    had_value_ = before != nullptr;
    if (had_value_) before_ = before;
    setenv(name, value, 1);
  }
  ~ScopedEnvironment() {
    if (had_value_) {
      setenv(name_, before_.c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  const char* name_;
  bool had_value_ = false;
  std::string before_;
};

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_NCCL_RANKS_H_
