// Ranks for tests of the NCCL API: processes, each with a communicator of its own.
#ifndef TESTS_SUPPORT_NCCL_PROCESSES_H_
#define TESTS_SUPPORT_NCCL_PROCESSES_H_

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/support/nccl_ranks.h"

namespace ringpress::testing {

/// Carries the unique id from rank 0 to the others.
class IdPipes {
 public:
  explicit IdPipes(int size) : pipes_(static_cast<std::size_t>(size)) {
    for (auto& ends : pipes_) EXPECT_EQ(pipe(ends.data()), 0);
  }
  ~IdPipes() {
    for (const auto& ends : pipes_) {
      close(ends[0]);
      close(ends[1]);
    }
  }
  IdPipes(const IdPipes&) = delete;
  IdPipes& operator=(const IdPipes&) = delete;

  ncclUniqueId agree(int rank) const { return agree_on(rank, make_nccl_id); }
  /// The same with an id that `make` gives, on rank 0 alone.
  template <typename Make>
  ncclUniqueId agree_on(int rank, Make&& make) const {
    ncclUniqueId id{};
    if (rank == 0) {
      id = make();
      for (const auto& ends : pipes_) {
        EXPECT_EQ(write(ends[1], &id, sizeof id), static_cast<ssize_t>(sizeof id));
      }
    }
    EXPECT_EQ(read(pipes_[static_cast<std::size_t>(rank)][0], &id, sizeof id),
              static_cast<ssize_t>(sizeof id));
    return id;
  }

 private:
  std::vector<std::array<int, 2>> pipes_;
};

/// Lets a process wait for what another one has done.
class Signal {
 public:
  Signal() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~Signal() {
    close(ends_[0]);
    close(ends_[1]);
  }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  void raise() const { EXPECT_EQ(write(ends_[1], "", 1), 1); }
  /// Returns after one raise(), each of which ends one wait.
  void wait() const {
    char byte;
    EXPECT_EQ(read(ends_[0], &byte, 1), 1);
  }

 private:
  std::array<int, 2> ends_{};
};

/// Runs body(id, rank) in `size` processes forked from this one, and expects that none fails.
template <typename Body>
void run_processes(int size, Body body) {
  const IdPipes pipes(size);
  std::fflush(nullptr);  // Else each child prints what is buffered here, too.
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      body(pipes.agree(rank), rank);
      std::exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  for (int rank = 0; rank < size; ++rank) {
    int status = 0;
    ASSERT_EQ(waitpid(children[static_cast<std::size_t>(rank)], &status, 0),
              children[static_cast<std::size_t>(rank)]);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << "rank " << rank << " ended with status " << status;
  }
}

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_NCCL_PROCESSES_H_
