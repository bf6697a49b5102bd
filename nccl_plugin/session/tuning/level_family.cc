#include "nccl_plugin/session/tuning/level_family.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "compress_kernels/factory.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/planner.h"

namespace ringpress::nccl_plugin::tuning {
namespace {

constexpr std::array kBits{2, 3, 4, 5, 6, 7, 8};
// What the ranks' sum is like is not tried but guessed from one rank's values. Beside what is tried
// of the codec for all, that of other bits is so much too small at most, and that of other ranks,
// which follows from one encoding (levels_perf --budget).
constexpr double kUncertainty = 1.05;
constexpr double kInfiniteError = std::numeric_limits<double>::infinity();

std::vector<double> infinite_errors(std::size_t levels) {
  return std::vector<double>(levels, kInfiniteError);
}

/// Of levels whose bytes depend on nothing but the count.
std::vector<LevelLoss> costs_of(const LevelFamily& family, std::size_t count,
                                const std::vector<double>& errors) {
  std::vector<LevelLoss> costs;
  for (std::size_t level = 0; level < errors.size(); ++level) {
    costs.push_back({family.bytes(level, count), {errors[level]}});
  }
  return costs;
}

std::vector<LevelLoss> costs_of_trials(const LevelFamily& family, const SampledPart& part,
                                       const std::vector<LossKinds>& losses) {
  std::vector<LevelLoss> costs;
  for (std::size_t level = 0; level < losses.size(); ++level) {
    costs.push_back({family.bytes(level, part.count()), losses[level]});
    for (double& error : costs.back().errors) error = std::sqrt(error);
  }
  return costs;
}

/// "q4:block=128,grid=uniform,round=nearest": what stands between `before` and the next comma.
std::optional<std::string_view> parameter(std::string_view specification, std::string_view before) {
  const std::size_t found = specification.find(before);
  if (found == std::string_view::npos) return std::nullopt;
  const std::string_view text = specification.substr(found + before.size());
  return text.substr(0, text.find(','));
}

/// 0: it is no number.
std::size_t number(std::string_view text) {
  std::size_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() ? value : 0;
}

/// Bits of one grid.
struct BitGrid {
  int bits = 0;            // Of the codec that it was found by.
  std::string rest;        // What follows the bits: ":block=..."
  std::size_t block = 0;   // Elements.
  bool is_uniform = true;  // Else `lloyd`, which loses the same share of all values.
  std::array<double, kBits.size()> shares{};  // That share, by level.

  std::string specification(std::size_t level) const {
    return "q" + std::to_string(kBits[level]) + rest;
  }
};

std::optional<BitGrid> make_grid(const std::string& codec) {
  const Result<std::string> whole = compress_kernels::normalize_specification(codec);
  if (!whole.is_ok()) return std::nullopt;
  const std::string& text = whole.value();
  if (text.size() < 2 || text[0] != 'q' || text[1] < '2' || text[1] > '8') return std::nullopt;
  const auto grid = parameter(text, "grid=");
  if (parameter(text, "round=") != "nearest" || (grid != "uniform" && grid != "lloyd")) {
    return std::nullopt;
  }
  BitGrid found;
  found.bits = text[1] - '0';
  found.rest = text.substr(2);
  found.block = number(parameter(text, ":block=").value_or(""));
  found.is_uniform = grid == "uniform";
  if (found.is_uniform) return found;
  for (std::size_t level = 0; level < kBits.size(); ++level) {
    const Result<double> share =
        compress_kernels::measure_codec_error(found.specification(level), DType::kFloat32);
    if (!share.is_ok()) return std::nullopt;
    found.shares[level] = share.value();
  }
  return found;
}

std::unique_ptr<Codec> codec_of(const std::string& specification) {
  return compress_kernels::make_codec(specification, DType::kFloat32, ReduceOp::kSum).value();
}

/// The grids' levels one after the other; the budget's grid is the first.
class BitLevels final : public LevelFamily {
 public:
  explicit BitLevels(std::vector<BitGrid> grids) : grids_(std::move(grids)) {
    for (const BitGrid& grid : grids_) {
      for (std::size_t level = 0; level < kBits.size(); ++level) {
        specifications_.push_back(grid.specification(level));
        codecs_.push_back(codec_of(specifications_.back()));
      }
    }
  }

  std::size_t levels() const override { return specifications_.size(); }
  const std::string& specification(std::size_t level) const override {
    return specifications_[level];
  }
  std::size_t default_level() const override {
    return static_cast<std::size_t>(grids_[0].bits - kBits.front());
  }
  /// Two bits more, as Accordion's authors do with ranks.
  std::size_t careful_level() const override {
    return std::min(default_level() + 2, kBits.size() - 1);
  }
  bool has_parts() const override { return true; }
  double bytes(std::size_t level, std::size_t count) const override {
    return static_cast<double>(codecs_[level]->wire_bytes(count));
  }

  std::size_t sampled_values() const override { return std::size_t{128} * 1024; }
  std::vector<LevelLoss> try_levels(const SampledPart& part, const RanksSum& sum,
                                    const TrialCalls& calls) const override {
    std::vector<TriedCodec> tried;
    for (std::size_t level = 0; level < levels(); ++level) {
      tried.push_back({codecs_[level].get(), grids_[level / kBits.size()].block});
    }
    std::vector<LevelLoss> costs =
        costs_of_trials(*this, part, try_codecs(part, tried, sum, calls));
    for (std::size_t level = 0; level < costs.size(); ++level) {
      if (level == default_level()) continue;
      costs[level].errors[kLossOfMean] *= kUncertainty;
      costs[level].errors[kLossOfLaterMean] *= kUncertainty;
    }
    return costs;
  }
  std::vector<LevelLoss> measure(const MeasuredTensor& tensor,
                                 std::span<const Layer>) const override {
    std::vector<double> errors;
    for (const BitGrid& grid : grids_) append_errors(grid, tensor, &errors);
    return costs_of(*this, tensor.count, errors);
  }

 private:
  static void append_errors(const BitGrid& grid, const MeasuredTensor& tensor,
                            std::vector<double>* errors) {
    if (grid.is_uniform) {
      const auto measured = compress_kernels::measure_bit_errors(tensor, grid.block, kBits);
      const auto& found = measured.is_ok() ? measured.value() : infinite_errors(kBits.size());
      errors->insert(errors->end(), found.begin(), found.end());
      return;
    }
    const double norm = compress_kernels::measure_norm(tensor);
    for (const double share : grid.shares) errors->push_back(share * norm);
  }

  const std::vector<BitGrid> grids_;
  std::vector<std::string> specifications_;     // By level.
  std::vector<std::unique_ptr<Codec>> codecs_;  // By level, of float32.
};

std::unique_ptr<LevelFamily> make_bit_levels(const CallSettings& settings) {
  const std::optional<BitGrid> own = make_grid(usual_codec(settings));
  if (!own) return nullptr;
  std::vector<BitGrid> grids{*own};
  if (settings.adjust_grids == LevelGrids::kBoth) {
    const auto other = make_grid(own->is_uniform ? "q4:grid=lloyd" : "q4:grid=uniform");
    if (other) grids.push_back(*other);
  }
  return std::make_unique<BitLevels>(std::move(grids));
}

/// From an eighth of the budget's density to eight times as much, each time twice as many.
class DensityLevels final : public LevelFamily {
 public:
  static constexpr double kLeast = 1e-5;
  static constexpr double kMost = 0.5;

  /// "topk:density=", the density, and `rest`.
  DensityLevels(double density, const std::string& rest)
      : value_bits_(static_cast<double>(number(parameter(rest, "value=").value_or("")))) {
    for (int doubled = -3; doubled <= 3; ++doubled) {
      const double level = std::ldexp(density, doubled);
      if (level < kLeast || level > kMost) continue;
      if (doubled == 0) default_level_ = densities_.size();
      char text[32];
      const auto end = std::to_chars(text, text + sizeof text, level).ptr;
      densities_.push_back(level);
      specifications_.push_back("topk:density=" + std::string(text, end) + rest);
    }
  }

  std::size_t levels() const override { return densities_.size(); }
  const std::string& specification(std::size_t level) const override {
    return specifications_[level];
  }
  std::size_t default_level() const override { return default_level_; }
  std::size_t careful_level() const override {
    return std::min(default_level_ + 2, densities_.size() - 1);
  }
  bool has_parts() const override { return false; }  // It looks at tensors as a whole.
  /// Values, and as many bits for their positions as chance needs.
  double bytes(std::size_t level, std::size_t count) const override {
    const double chosen = densities_[level];
    const double positions = -chosen * std::log2(chosen) - (1 - chosen) * std::log2(1 - chosen);
    return static_cast<double>(count) * (chosen * value_bits_ + positions) / 8;
  }
  /// Fewer: the threshold of many small densities is looked for among them, some hundred times.
  std::size_t sampled_values() const override { return std::size_t{64} * 1024; }
  std::vector<LevelLoss> try_levels(const SampledPart& part, const RanksSum& sum,
                                    const TrialCalls&) const override {
    return costs_of_trials(*this, part, try_densities(part, densities_, sum));
  }
  std::vector<LevelLoss> measure(const MeasuredTensor& tensor,
                                 std::span<const Layer>) const override {
    const auto measured = compress_kernels::measure_density_errors(tensor, densities_);
    return costs_of(*this, tensor.count,
                    measured.is_ok() ? measured.value() : infinite_errors(densities_.size()));
  }

 private:
  const double value_bits_;
  std::vector<double> densities_;
  std::vector<std::string> specifications_;
  std::size_t default_level_ = 0;
};

std::unique_ptr<LevelFamily> make_density_levels(const CallSettings& settings) {
  const Result<std::string> whole =
      compress_kernels::normalize_specification(usual_codec(settings));
  if (!whole.is_ok() || !whole.value().starts_with("topk:density=")) return nullptr;
  const std::string_view text = *parameter(whole.value(), "density=");
  double density = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), density);
  if (parsed.ec != std::errc()) return nullptr;
  return std::make_unique<DensityLevels>(density, std::string(text.data() + text.size()));
}

/// From half of the rank to twice as much, in steps of an eighth of it, or of 1.
class RankLevels final : public LevelFamily {
 public:
  static constexpr std::size_t kMost = 64;
  static constexpr double kLeastSent = 1e-6;  // Of the squares; less is not told from nothing.

  /// "powersgd:rank=", the rank, and `rest`.
  RankLevels(std::size_t rank, const std::string& rest) {
    const std::size_t step = std::max<std::size_t>(1, rank / 8);
    for (std::size_t level = std::max(step, rank / 2); level <= std::min(2 * rank, kMost);) {
      if (level == rank) default_level_ = ranks_.size();
      ranks_.push_back(level);
      specifications_.push_back("powersgd:rank=" + std::to_string(level) + rest);
      codecs_.push_back(codec_of(specifications_.back()));
      level = level < rank ? std::min(level + step, rank) : level + step;
    }
  }

  std::size_t levels() const override { return ranks_.size(); }
  const std::string& specification(std::size_t level) const override {
    return specifications_[level];
  }
  std::size_t default_level() const override { return default_level_; }
  /// The highest, as Accordion's authors have it.
  std::size_t careful_level() const override { return ranks_.size() - 1; }
  bool has_parts() const override { return false; }  // Each of its layers is projected by itself.
  double bytes(std::size_t level, std::size_t count) const override {
    return bytes_of(level, {count, {}});
  }
  /// A matrix cannot be told from a sample of its values.
  std::size_t sampled_values() const override { return 0; }
  std::vector<LevelLoss> try_levels(const SampledPart&, const RanksSum&,
                                    const TrialCalls&) const override {
    return {};
  }

  std::vector<LevelLoss> measure(const MeasuredTensor& tensor,
                                 std::span<const Layer> layers) const override {
    std::vector<double> squares(ranks_.size()), kept(ranks_.size());
    const Layer whole = squarest(tensor.count);
    for (const Layer& layer : layers.empty() ? std::span(&whole, 1) : layers) {
      if (layer.rows != 0 && !layer.exact) add_squares(tensor, layer, &squares, &kept);
    }
    std::vector<LevelLoss> costs;
    for (std::size_t level = 0; level < ranks_.size(); ++level) {
      const double of_mean = std::sqrt(kept[level]) * (level == default_level_ ? 1 : kUncertainty);
      costs.push_back(
          {bytes_of(level, {tensor.count, layers}), {std::sqrt(squares[level]), of_mean, of_mean}});
    }
    return costs;
  }

 private:
  const Projection& projection(std::size_t level) const { return *codecs_[level]->projection(); }
  double bytes_of(std::size_t level, const TensorShape& shape) const {
    const Projection& used = projection(level);
    return static_cast<double>((used.projected_count(0, shape) + used.projected_count(1, shape)) *
                               sizeof(float));
  }
  /// How powersgd sees a tensor of which nothing is known, without what does not fill a row. No
  /// rows: not as a matrix.
  Layer squarest(std::size_t count) const {
    const std::size_t columns = projection(0).projected_count(1, {count, {}}) / ranks_[0];
    if (columns == 0) return {0, count, 0, 0};
    const std::size_t rows = count / columns;
    return {0, rows * columns, rows, columns};
  }
  /// What a matrix loses at each level; nothing where it is smaller as it is. With error feedback
  /// also what comes to be kept: a level that leaves out the share 1 - d of the squares each time
  /// keeps 1 / d as much in the end.
  void add_squares(const MeasuredTensor& tensor, const Layer& layer, std::vector<double>* squares,
                   std::vector<double>* kept) const {
    const auto* const values = static_cast<const std::byte*>(tensor.values);
    const MeasuredTensor part{values + layer.offset * dtype_size(tensor.dtype),
                              tensor.residual == nullptr ? nullptr : tensor.residual + layer.offset,
                              layer.count, tensor.dtype};
    const auto measured =
        compress_kernels::measure_rank_errors(part, {layer.rows, layer.columns}, ranks_);
    const double norm = compress_kernels::measure_norm(part);
    const Layer alone{0, layer.count, layer.rows, layer.columns};
    for (std::size_t level = 0; level < ranks_.size(); ++level) {
      const TensorShape shape{layer.count, {&alone, 1}};
      if (projection(level).projected_count(1, shape) == 0) continue;
      const double error = measured.is_ok() ? measured.value()[level] : kInfiniteError;
      (*squares)[level] += error * error;
      if (tensor.residual == nullptr || norm == 0) continue;
      const double sent = std::max(1 - error * error / (norm * norm), kLeastSent);
      (*kept)[level] += error * error / (sent * sent);
    }
  }

  std::vector<std::size_t> ranks_;
  std::vector<std::string> specifications_;
  std::vector<std::unique_ptr<Codec>> codecs_;
  std::size_t default_level_ = 0;
};

std::unique_ptr<LevelFamily> make_rank_levels(const CallSettings& settings) {
  const Result<std::string> whole =
      compress_kernels::normalize_specification(usual_codec(settings));
  if (!whole.is_ok() || !whole.value().starts_with("powersgd:rank=")) return nullptr;
  const std::string_view text = *parameter(whole.value(), "rank=");
  return std::make_unique<RankLevels>(number(text), std::string(text.data() + text.size()));
}

}  // namespace

std::unique_ptr<LevelFamily> make_level_family(const CallSettings& settings) {
  if (auto bits = make_bit_levels(settings)) return bits;
  if (auto densities = make_density_levels(settings)) return densities;
  return make_rank_levels(settings);
}

}  // namespace ringpress::nccl_plugin::tuning
