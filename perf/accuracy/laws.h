// Test tensors: four laws that gradients resemble, and gradients from files.
#ifndef PERF_ACCURACY_LAWS_H_
#define PERF_ACCURACY_LAWS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ringpress::perf {

/// The tensors of all ranks, of equal length.
using RankTensors = std::vector<std::vector<float>>;

/// "gaussian", "laplace", "student_t3", "lognormal_rows".
std::vector<std::string> law_names();

/// `ranks` independent draws of `count` values. lognormal_rows: rows of 256 Gaussian values, each
/// row times exp(Gaussian).
RankTensors draw_law(const std::string& law, std::size_t count, std::size_t ranks,
                     std::uint32_t seed);

/// The files FOLDER/NAME_rank0.npy, NAME_rank1.npy ...; if there are fewer than `ranks`, they are
/// taken again in turn, from other elements on.
RankTensors read_ranks(const std::string& prefix, std::size_t ranks);

}  // namespace ringpress::perf

#endif  // PERF_ACCURACY_LAWS_H_
