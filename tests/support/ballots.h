// Ballots of ranks on what a step's sums are.
#ifndef TESTS_SUPPORT_BALLOTS_H_
#define TESTS_SUPPORT_BALLOTS_H_

#include <cstddef>

#include "nccl_plugin/session/calls/class_ballot.h"

namespace ringpress::nccl_plugin {

/// Of a rank that can say nothing of any shape.
inline ClassBallot ballot_of_no() {
  ClassBallot ballot;
  for (std::size_t shape = 0; shape < ClassBallot::kShapes; ++shape) {
    ballot.add(shape, Verdict::kUnsaid);
  }
  return ballot;
}

}  // namespace ringpress::nccl_plugin

#endif  // TESTS_SUPPORT_BALLOTS_H_
