#include <cmath>

#include "compress_kernels/powersgd/powersgd.h"

namespace ringpress::compress_kernels::powersgd {
namespace {

/// The largest number whose square is at most `count`.
std::size_t floor_of_root(std::size_t count) {
  auto root = static_cast<std::size_t>(std::sqrt(static_cast<double>(count)));
  while (root * root > count) --root;
  while ((root + 1) * (root + 1) <= count) ++root;
  return root;
}

MatrixShape find_squarest(std::size_t count) {
  const std::size_t root = floor_of_root(count);
  for (std::size_t rows = root; 2 * rows >= root && rows > 0; --rows) {
    if (count % rows == 0) return {rows, count / rows};
  }
  const std::size_t columns = root * root == count ? root : root + 1;
  return {(count + columns - 1) / columns, columns};
}

}  // namespace

MatrixShape squarest(std::size_t count) {
  if (count == 0) return {};
  // An all-reduce asks for the shape of its tensor many times, and looking for it takes as many
  // divisions as there are rows.
  thread_local std::size_t last_count = 0;
  thread_local MatrixShape last_shape;
  if (count != last_count) {
    last_shape = find_squarest(count);
    last_count = count;
  }
  return last_shape;
}

std::size_t encoded_bytes(const Parameters& parameters, std::size_t count) {
  const MatrixShape shape = squarest(count);
  if (!is_worth_projecting(parameters.rank, shape, count)) return count * sizeof(float);
  return parameters.rank * (shape.rows + shape.columns) * sizeof(float);
}

}  // namespace ringpress::compress_kernels::powersgd
