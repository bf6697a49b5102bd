#include "compress_kernels/powersgd/powersgd_codec.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "compress_kernels/core/element.h"
#include "compress_kernels/powersgd/factors.h"

namespace ringpress::compress_kernels::powersgd {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
// Every chunk starts with the same Q: its bytes depend on its values alone.
constexpr RandomKey kKeyOfChunks{0x706F776572, 0, 0, 0};

std::vector<float> draw_q(std::size_t rank, std::size_t columns) {
  std::vector<float> q(rank * stride_of(columns));
  for (std::size_t k = 0; k < rank; ++k) {
    draw_column(kKeyOfChunks, k, columns, q.data() + k * stride_of(columns));
  }
  return q;
}

/// P and Q as they stand in the wire bytes, in memory of the kernels.
struct Factors {
  Factors(const std::byte* wire, const MatrixShape& shape, std::size_t rank)
      : p(rank * shape.rows) {
    std::vector<float> packed(rank * shape.columns);
    std::memcpy(p.data(), wire, p.size() * sizeof(float));
    std::memcpy(packed.data(), wire + p.size() * sizeof(float), packed.size() * sizeof(float));
    q = spread_columns(packed.data(), shape.columns, rank);
  }
  std::vector<float> p;
  std::vector<float> q;
};

RebuildArgs rebuild_args(const Factors& factors, const MatrixShape& shape, std::size_t count,
                         std::size_t rank) {
  RebuildArgs args;
  args.shape = shape;
  args.count = count;
  args.rank = rank;
  args.p = factors.p.data();
  args.q = args.own_q = factors.q.data();
  return args;
}

}  // namespace

void PowerCodec::encode_matrix(const MatrixView& values, std::byte* wire) const {
  const std::size_t rank = parameters_.rank;
  const std::size_t columns = values.shape.columns;
  std::vector<float> q = draw_q(rank, columns);
  std::vector<float> p(rank * values.shape.rows);
  std::vector<float> packed(rank * columns);
  kernels_.left(values, rank, q.data(), p.data());
  bool finite = all_finite(p.data(), p.size());
  if (finite) {
    orthonormalise(values.shape.rows, rank, p.data());
    kernels_.right(values, rank, p.data(), q.data());
    gather_columns(q.data(), columns, rank, packed.data());
    finite = all_finite(packed.data(), packed.size());
  }
  if (!finite) {
    std::fill(p.begin(), p.end(), kNan);
    std::fill(packed.begin(), packed.end(), 0.0f);
  }
  std::memcpy(wire, p.data(), p.size() * sizeof(float));
  std::memcpy(wire + p.size() * sizeof(float), packed.data(), packed.size() * sizeof(float));
}

void PowerCodec::encode_as_it_is(const core::ChunkValues& values, std::byte* wire, float* residual,
                                 void* decoded) const {
  std::vector<float> x(values.count);
  core::load_chunk(values, x.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!(x[i] == x[i])) x[i] = kNan;  // Of all NaNs, the same on every machine.
    if (residual != nullptr && core::is_finite(x[i])) {
      core::store_element<float>(residual, i, 0.0f);
    }
  }
  std::memcpy(wire, x.data(), x.size() * sizeof(float));
  if (decoded != nullptr) core::store_chunk(x.data(), x.size(), dtype(), decoded);
}

void PowerCodec::encode_chunk(const core::ChunkValues& values, const RandomKey&, std::byte* wire,
                              float* residual, void* decoded) const {
  const MatrixShape shape = squarest(values.count);
  if (!is_worth_projecting(parameters_.rank, shape, values.count)) {
    encode_as_it_is(values, wire, residual, decoded);
    return;
  }
  const MatrixView matrix{shape, values.count, values.dtype, values.values, values.residual};
  encode_matrix(matrix, wire);
  if (residual == nullptr && decoded == nullptr) return;
  const Factors factors(wire, shape, parameters_.rank);
  RebuildArgs args = rebuild_args(factors, shape, values.count, parameters_.rank);
  args.result = decoded;
  args.result_dtype = dtype();
  if (residual != nullptr) args.own = matrix;
  args.residual = residual;
  kernels_.rebuild(args);
}

void PowerCodec::decode_chunk(const std::byte* wire, std::size_t count, DType dtype,
                              void* values) const {
  const MatrixShape shape = squarest(count);
  if (!is_worth_projecting(parameters_.rank, shape, count)) {
    std::vector<float> x(count);
    std::memcpy(x.data(), wire, count * sizeof(float));
    core::store_chunk(x.data(), count, dtype, values);
    return;
  }
  const Factors factors(wire, shape, parameters_.rank);
  RebuildArgs args = rebuild_args(factors, shape, count, parameters_.rank);
  args.result = values;
  args.result_dtype = dtype;
  kernels_.rebuild(args);
}

}  // namespace ringpress::compress_kernels::powersgd
