#include "perf/accuracy/laws.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <stdexcept>

#include "perf/all_reduce/npy.h"

namespace ringpress::perf {
namespace {

constexpr std::size_t kRow = 256;

std::vector<float> draw(const std::string& law, std::size_t count, std::mt19937_64& engine) {
  std::normal_distribution<double> normal;
  std::exponential_distribution<double> exponential;
  std::student_t_distribution<double> student(3);
  std::bernoulli_distribution coin;
  std::vector<float> values(count);
  double row_scale = 1;
  for (std::size_t i = 0; i < count; ++i) {
    double value = 0;
    if (law == "gaussian") {
      value = normal(engine);
    } else if (law == "laplace") {
      value = exponential(engine) * (coin(engine) ? 1 : -1);
    } else if (law == "student_t3") {
      value = student(engine);
    } else if (law == "lognormal_rows") {
      if (i % kRow == 0) row_scale = std::exp(normal(engine));
      value = row_scale * normal(engine);
    } else {
      throw std::invalid_argument("unknown law " + law);
    }
    values[i] = static_cast<float>(value);
  }
  return values;
}

}  // namespace

std::vector<std::string> law_names() {
  return {"gaussian", "laplace", "student_t3", "lognormal_rows"};
}

RankTensors draw_law(const std::string& law, std::size_t count, std::size_t ranks,
                     std::uint32_t seed) {
  RankTensors tensors;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::mt19937_64 engine(seed * 1000003ull + rank);
    tensors.push_back(draw(law, count, engine));
  }
  return tensors;
}

RankTensors read_ranks(const std::string& prefix, std::size_t ranks) {
  RankTensors files;
  while (files.size() < ranks) {
    const std::string path = prefix + "_rank" + std::to_string(files.size()) + ".npy";
    if (!std::filesystem::exists(path)) break;
    files.push_back(read_npy(path));
  }
  if (files.empty()) throw std::runtime_error("no file " + prefix + "_rank0.npy");
  RankTensors tensors;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::vector<float> tensor = files[rank % files.size()];
    const std::size_t turn = rank / files.size() * (tensor.size() / 5);
    std::rotate(tensor.begin(), tensor.begin() + static_cast<std::ptrdiff_t>(turn % tensor.size()),
                tensor.end());
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace ringpress::perf
