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

}  // namespace

MatrixShape squarest(std::size_t count) {
  if (count == 0) return {};
  const std::size_t root = floor_of_root(count);
  for (std::size_t rows = root; 2 * rows >= root && rows > 0; --rows) {
    if (count % rows == 0) return {rows, count / rows};
  }
  const std::size_t columns = root * root == count ? root : root + 1;
  return {(count + columns - 1) / columns, columns};
}

std::size_t encoded_bytes(const Parameters& parameters, std::size_t count) {
  const MatrixShape shape = squarest(count);
  if (!is_worth_projecting(parameters.rank, shape, count)) return count * sizeof(float);
  return parameters.rank * (shape.rows + shape.columns) * sizeof(float);
}

}  // namespace ringpress::compress_kernels::powersgd
