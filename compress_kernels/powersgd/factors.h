// The small matrices P and Q: where a cold Q comes from, how columns are made orthonormal. The same
// bits on every machine: one order of operations, none of them left to an instruction set.
#ifndef COMPRESS_KERNELS_POWERSGD_FACTORS_H_
#define COMPRESS_KERNELS_POWERSGD_FACTORS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ringpress/internal/codec.h"

namespace ringpress::compress_kernels::powersgd {

/// `columns` random values, uniform and of expected norm 1, for column k of Q. Equal keys give
/// equal values; random.first_element is ignored.
void draw_column(const RandomKey& random, std::size_t k, std::size_t columns, float* column);

/// Makes `rank` columns of `rows` values, one after the other, orthonormal: each column loses its
/// parts along those before it, twice, and is divided by its norm. A column of which nothing but
/// rounding errors is left becomes zero. Sums are float64 in
/// kDotLanes lanes (arithmetic.h).
void orthonormalise(std::size_t rows, std::size_t rank, float* p);

/// Scales `count` values to norm 1. False, and nothing is changed, if they are all zero or not
/// finite.
bool normalise(std::size_t count, float* column);

bool all_finite(const float* values, std::size_t count);

/// Copies `rank` columns that lie one after the other to columns stride_of(columns) apart, with
/// zeros between.
std::vector<float> spread_columns(const float* q, std::size_t columns, std::size_t rank);
/// The reverse.
void gather_columns(const float* spread, std::size_t columns, std::size_t rank, float* q);

}  // namespace ringpress::compress_kernels::powersgd

#endif  // COMPRESS_KERNELS_POWERSGD_FACTORS_H_
