// Elements of every type as doubles: the oracle of the exactness tests. Slow and obvious.
#ifndef TESTS_SUPPORT_NUMBERS_H_
#define TESTS_SUPPORT_NUMBERS_H_

#include "ringpress/internal/types.h"

namespace ringpress::testing {

double read_number(const void* from, DType dtype);

/// `value` must be exact in `dtype`; throws std::logic_error where a narrow one cannot hold it.
void write_number(void* to, DType dtype, double value);

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_NUMBERS_H_
