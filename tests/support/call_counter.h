// Counts what a process does in its steady state that it should not: memory that it allocates, and
// calls of the system on sockets while the thread holds a mutex. Stands in for the functions of the
// C library in the whole program, so not for sanitizers, which do the same.
#ifndef TESTS_SUPPORT_CALL_COUNTER_H_
#define TESTS_SUPPORT_CALL_COUNTER_H_

namespace ringpress::testing {

struct CallCounts {
  long allocations = 0;          // In any thread.
  long socket_calls_locked = 0;  // By a thread that held a mutex.
  long socket_calls = 0;         // By any thread: proof that they are seen.
};

/// Counts from now on, in all threads of this process.
void start_counting();
/// What was counted since.
CallCounts stop_counting();

/// Allocations of the calling thread alone, from now on, for code that runs beside a stand-in which
/// allocates: not counted between pause and resume.
void start_counting_thread();
/// True if it was counting: only then is it to be resumed.
bool pause_counting_thread();
void resume_counting_thread();
long stop_counting_thread();

/// Of those that are counted, the one after `first` others fails, and with `and_all_after` each one
/// after that, until counting stops.
void fail_thread_allocations(long first, bool and_all_after);

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_CALL_COUNTER_H_
