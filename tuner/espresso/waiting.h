// Steps of programs that wait for a call before they compute on, on host memory.
//
// A tensor is ready when the compute of the tensor before has ended and backward_seconds have
// passed, then, where it waits, the call of the tensor before has ended, and after_seconds have
// passed. Calls are made one after the other, in order, as soon as their tensors are ready.
#ifndef TUNER_ESPRESSO_WAITING_H_
#define TUNER_ESPRESSO_WAITING_H_

#include <vector>

#include "ringpress/internal/espresso.h"

namespace ringpress::espresso {

/// Whether any tensor waits: then the functions below are for it, with call_options() alone.
bool waits(const Job& job);

Timeline predict_waiting(const Job& job, const std::vector<Option>& options,
                         const std::vector<Choice>& choices);

/// The best plan there is. A step is never longer for a call that takes less, so each tensor takes
/// the option with the least time; then what makes no difference is not compressed, the smallest
/// first.
Plan plan_waiting(const Job& job, const std::vector<Option>& options);

}  // namespace ringpress::espresso

#endif  // TUNER_ESPRESSO_WAITING_H_
