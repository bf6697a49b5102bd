// What a tensor consists of, as powersgd sees it: matrices that are projected, and everything else,
// which is sent as it is. In the order of the elements; every element is in one part.
#ifndef COMPRESS_KERNELS_POWERSGD_PARTS_H_
#define COMPRESS_KERNELS_POWERSGD_PARTS_H_

#include <cstddef>

#include "compress_kernels/powersgd/powersgd.h"
#include "ringpress/internal/projection.h"

namespace ringpress::compress_kernels::powersgd {

struct Part {
  std::size_t offset = 0;  // Elements of the tensor.
  std::size_t count = 0;
  MatrixShape shape;  // Empty: is sent as it is.
  std::size_t index = 0;
  // Where its values begin in what is projected: first P or the values themselves, then Q (which
  // also is the state).
  std::size_t first_round = 0;
  std::size_t second_round = 0;

  bool is_matrix() const { return shape.rows != 0; }
};

/// Calls use(part) for each part, then returns an empty part behind the last one: what the rounds
/// project in all.
template <typename Use>
Part for_each_part(const TensorShape& shape, std::size_t rank, Use&& use) {
  Part next;
  const auto add = [&](std::size_t count, const MatrixShape& matrix) {
    if (count == 0) return;
    next.count = count;
    next.shape = is_worth_projecting(rank, matrix, count) ? matrix : MatrixShape{};
    use(static_cast<const Part&>(next));
    next.offset += count;
    next.first_round += next.is_matrix() ? rank * matrix.rows : count;
    next.second_round += next.is_matrix() ? rank * matrix.columns : 0;
    ++next.index;
  };
  if (shape.layers.empty()) add(shape.count, squarest(shape.count));
  for (const Layer& layer : shape.layers) {
    add(layer.offset - next.offset, {});
    add(layer.count, layer.exact ? MatrixShape{} : MatrixShape{layer.rows, layer.columns});
  }
  add(shape.count - next.offset, {});
  return next;
}

}  // namespace ringpress::compress_kernels::powersgd

#endif  // COMPRESS_KERNELS_POWERSGD_PARTS_H_
