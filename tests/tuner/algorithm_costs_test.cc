// What is predicted and chosen for random calls is what tests/golden/algorithm_costs.txt says: how
// the table of algorithms is built changes nothing of it. Where costs are meant to change, the file
// that the failing test names takes its place.
#include <gtest/gtest.h>

#include <cstdarg>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "ringpress/internal/hash.h"
#include "tuner/factory.h"

namespace ringpress {
namespace {

/// Random numbers that are the same with every standard library.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed) {}
  std::size_t below(std::size_t end) {
    state_ = combine_hash(state_, 1);
    return static_cast<std::size_t>(state_ >> 11) % end;
  }
  /// 1 to 1.99, times ten to a power between the two.
  double number(int least_power, int powers) {
    double value = 1 + static_cast<double>(below(100)) / 100;
    const auto power = least_power + static_cast<int>(below(static_cast<std::size_t>(powers)));
    for (int i = 0; i < power; ++i) value *= 10;
    for (int i = 0; i > power; --i) value /= 10;
    return value;
  }
  bool chance(std::size_t one_in) { return below(one_in) == 0; }
  template <typename Value>
  Value any_of(const std::vector<Value>& values) {
    return values[below(values.size())];
  }

 private:
  std::uint64_t state_;
};

[[gnu::format(printf, 1, 2)]] std::string format(const char* text, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, text);
  std::vsnprintf(line, sizeof line, text, arguments);
  va_end(arguments);
  return line;
}

CallShape draw_shape(Draws& draws) {
  CallShape shape;
  shape.ranks_per_host = draws.any_of<int>({1, 1, 2, 3, 4, 8});
  shape.world = shape.ranks_per_host * draws.any_of<int>({1, 2, 2, 3, 4, 5, 8, 17, 64});
  shape.bytes = static_cast<std::size_t>(draws.number(0, 9));
  shape.kind =
      draws.any_of<CollectiveKind>({CollectiveKind::kAllReduce, CollectiveKind::kAllReduce,
                                    CollectiveKind::kReduceScatter, CollectiveKind::kAllGather});
  return shape;
}

Links draw_links(Draws& draws) {
  return {{draws.number(-6, 3), draws.number(7, 4)}, {draws.number(-7, 3), draws.number(8, 3)}};
}

OperationCost draw_operation(Draws& draws) {
  return {draws.number(-7, 2), draws.number(-11, 3)};
}

CodecSpeed no_codec(Draws& draws) {
  return {"none", 1, 0, {}, {}, {0, draws.number(-11, 2)}};
}

CodecSpeed draw_codec(Draws& draws, const std::string& name) {
  CodecSpeed codec{name,
                   draws.number(-2, 2) / 2,
                   draws.number(-2, 2),
                   draw_operation(draws),
                   draw_operation(draws),
                   draw_operation(draws)};
  codec.sums_exactly = draws.chance(4);
  if (draws.chance(3)) codec.look = draw_operation(draws);
  if (draws.chance(3)) codec.agreement = {draws.below(100), 1, 0.01, draw_operation(draws)};
  if (draws.chance(4)) codec.projection = {static_cast<int>(1 + draws.below(2)), 0.1, 20, 0.5};
  if (draws.chance(2)) {
    codec.partial_sum_ratio = codec.ratio * 1.25;
    codec.sum_ratio = codec.ratio * 1.5;
    codec.hosts_sum_ratio = codec.ratio * 1.125;
    codec.alone_ratio = codec.ratio * 0.75;
  }
  return codec;
}

std::string text_of(const CallCost& cost) {
  return format("%s %s %zu: %.12g s = %.12g %.12g %.12g %.12g; %.12g, %.6g", cost.codec.c_str(),
                algorithm_name(cost.algorithm), cost.chunks, cost.seconds, cost.latency_seconds,
                cost.wire_seconds, cost.inside_seconds, cost.codec_seconds, cost.error,
                static_cast<double>(cost.wire_bytes));
}

std::string text_of(const CallShape& shape) {
  return format("%s of %zu by %d, %d a host", collective_name(shape.kind), shape.bytes, shape.world,
                shape.ranks_per_host);
}

/// Each algorithm's cost, or why it has none.
void add_costs(Draws& draws, std::vector<std::string>* lines) {
  const CallShape shape = draw_shape(draws);
  const Links links = draw_links(draws);
  const CodecSpeed codec = draws.chance(3) ? no_codec(draws) : draw_codec(draws, "codec");
  const std::size_t chunks = 1 + draws.below(70);
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kSra, Algorithm::kHier}) {
    const Result<CallCost> cost = tuner::predict_call(shape, links, codec, algorithm, chunks);
    lines->push_back(text_of(shape) + ": " +
                     (cost.is_ok() ? text_of(cost.value()) : cost.status().message()));
  }
  lines->push_back(
      format("%d + %d steps, %.12g leave",
             tuner::exact_call_steps(shape.bytes, shape.world, shape.ranks_per_host).between,
             tuner::exact_call_steps(shape.bytes, shape.world, shape.ranks_per_host).inside,
             tuner::leaving_bytes(shape.bytes, shape.world, shape.ranks_per_host)));
}

std::string text_of(const std::vector<Candidate>& candidates) {
  std::string text;
  for (const Candidate& one : candidates) {
    text += format(" %zu %s %.12g,", one.choice.codec, algorithm_name(one.choice.algorithm),
                   one.seconds);
  }
  return text;
}

/// What is chosen among, in order.
void add_choices(Draws& draws, std::vector<std::string>* lines) {
  const CallShape shape = draw_shape(draws);
  const Links links = draw_links(draws);
  Calibration calibration{links.between, {no_codec(draws)}, links.inside};
  for (const char* name : {"a", "b", "c"}) calibration.codecs.push_back(draw_codec(draws, name));
  if (shape.kind != CollectiveKind::kAllReduce) {
    for (CodecSpeed& codec : calibration.codecs) codec.projection = {};
  }
  std::string ranked = text_of(shape) + ":";
  const auto costs = tuner::rank_calls(shape, links, calibration.codecs).value();
  for (const CallCost& cost : costs) {
    ranked +=
        format(" %s %s %zu,", cost.codec.c_str(), algorithm_name(cost.algorithm), cost.chunks);
  }
  lines->push_back(ranked);
  lines->push_back("tried:" + text_of(tuner::find_candidates(shape, calibration).value()));
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kHier}) {
    lines->push_back("by one:" +
                     text_of(tuner::find_candidates_by(algorithm, shape, calibration).value()));
  }
}

PlanRequest draw_request(Draws& draws) {
  PlanRequest request;
  request.kind = draw_shape(draws).kind;
  request.world = draws.any_of<int>({2, 4, 16, 17, 64});
  request.crosses_hosts = !draws.chance(4);
  request.ranks_per_host = draws.any_of<int>({0, 1, 2});
  request.count = draws.any_of<std::size_t>({100, 1 << 20});
  request.call_class = CallClass::kGradient;
  request.may_gather = draws.chance(2);
  return request;
}

/// By which algorithm the settings and rules want a call.
void add_plan(Draws& draws, std::vector<std::string>* lines) {
  const auto asked = draws.any_of<std::string>({"auto", "ring", "sra", "hier"});
  const auto codec = draws.any_of<std::string>({"auto", "none", "q4"});
  Settings settings =
      parse_settings({{"RINGPRESS_ALGO", asked}, {"RINGPRESS_CODEC", codec}}, nullptr);
  Rule rule;
  rule.algorithm = draws.any_of<Algorithm>({Algorithm::kRing, Algorithm::kSra, Algorithm::kHier});
  if (draws.chance(3)) settings.rule_list = {rule};
  const PlanRequest request = draw_request(draws);
  const std::unique_ptr<Planner> planner = tuner::make_planner(settings);
  const Decision decision = planner->plan(request);
  lines->push_back(format("%s by %d, %d a host, %s %s%s: %s %s %d", collective_name(request.kind),
                          request.world, request.ranks_per_host, asked.c_str(), codec.c_str(),
                          settings.rule_list.empty() ? "" : ", a rule",
                          std::string(decision.codec).c_str(), algorithm_name(decision.algorithm),
                          static_cast<int>(decision.algorithm_origin)));
}

std::vector<std::string> lines_of_now() {
  std::vector<std::string> lines;
  Draws draws(29);
  for (int i = 0; i < 80; ++i) add_costs(draws, &lines);
  for (int i = 0; i < 20; ++i) add_choices(draws, &lines);
  for (int i = 0; i < 120; ++i) add_plan(draws, &lines);
  return lines;
}

TEST(AlgorithmCosts, PredictionsAndChoicesAreThoseOfTheGoldenFile) {
  std::ifstream golden(RINGPRESS_ALGORITHM_COSTS);
  std::vector<std::string> expected;
  for (std::string line; std::getline(golden, line);) expected.push_back(line);
  const std::vector<std::string> lines = lines_of_now();
  const std::string path = ::testing::TempDir() + "algorithm_costs.txt";
  if (lines != expected) {
    std::ofstream now(path);
    for (const std::string& line : lines) now << line << '\n';
  }
  ASSERT_EQ(lines.size(), expected.size()) << "what it is now: " << path;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    ASSERT_EQ(lines[i], expected[i]) << "line " << i + 1 << "; what it is now: " << path;
  }
}

}  // namespace
}  // namespace ringpress
