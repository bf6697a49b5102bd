// The decision tree and the prices of its steps, against tables worked out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tuner/espresso/cost.h"

namespace ringpress::espresso {
namespace {

std::size_t count_flat(const std::vector<Option>& options) {
  std::size_t count = 0;
  for (const Option& option : options) {
    count += option.steps.front().phase == Phase::kFlat ? 1 : 0;
  }
  return count;
}

/// What can follow when the first `steps` of an option have been done: a rule of the grammar.
std::size_t count_after(const std::vector<Option>& options, const std::string& beginning) {
  std::size_t count = 0;
  for (const Option& option : options) count += option.name.starts_with(beginning) ? 1 : 0;
  return count;
}

// Wang et al. report 4341 options; the parts of the sum are those of the rules.
TEST(EspressoTree, HasThePapersCounts) {
  const std::vector<Option> both = tree_options(true), gpu = tree_options(false);
  EXPECT_EQ(both.size(), 4341U);
  EXPECT_EQ(count_flat(both), 63U);
  EXPECT_EQ(gpu.size(), 174U);
  EXPECT_EQ(count_flat(gpu), 12U);
  std::size_t uncompressed = 0;
  for (const Option& option : gpu) uncompressed += option.compresses() ? 0 : 1;
  EXPECT_EQ(uncompressed, 9U);
}

TEST(EspressoTree, EveryRuleHasItsCount) {
  const std::string in = "reducescatter(inside), ", to = "compress, ";
  struct Rule {
    const char* name;
    std::string beginning;  // After which exactly this rule is left.
    std::size_t with_cpu, gpu_alone;
  };
  const Rule rules[] = {
      {"T1", in + "allreduce(between), ", 5, 2},
      {"T2", in + to + "allgather(between), ", 12, 3},
      {"T5", in + "reduce(between), ", 29, 5},
      // Without what begins with a compression: T4, on two devices.
      {"T3 and 2 T4", in, 63 + 2 * 152, 12 + 19},
      {"T4", in + to, 152, 19},
  };
  const std::vector<Option> both = tree_options(true), gpu = tree_options(false);
  for (const Rule& rule : rules) {
    EXPECT_EQ(count_after(both, rule.beginning), rule.with_cpu) << rule.name;
    EXPECT_EQ(count_after(gpu, rule.beginning), rule.gpu_alone) << rule.name;
  }
}

TEST(EspressoTree, NoTwoOptionsAreAlikeAndHalvesMatch) {
  std::map<std::string, int> names;
  for (const Option& option : tree_options(true)) {
    EXPECT_EQ(++names[option.name], 1) << option.name;
    std::vector<Step> open;
    for (const Step& step : option.steps) {
      const bool rooted =
          step.operation == Operation::kReduce || step.operation == Operation::kGather;
      if (rooted || step.operation == Operation::kReduceScatter ||
          step.operation == Operation::kAllToAll) {
        open.push_back(step);
      } else if (step.second) {
        ASSERT_FALSE(open.empty()) << option.name;
        const Operation first = open.back().operation;
        EXPECT_EQ(open.back().phase, step.phase) << option.name;
        EXPECT_EQ(first == Operation::kReduce || first == Operation::kGather,
                  step.operation == Operation::kBroadcast)
            << option.name;
        open.pop_back();
      }
    }
    EXPECT_TRUE(open.empty()) << option.name;
  }
}

TEST(EspressoTree, TheEngineRunsHierOnlyWhereThereAreHosts) {
  const auto names = [](std::size_t machines, std::size_t gpus) {
    std::string all;
    for (const Option& option : engine_options({machines, gpus, {}, {}})) all += option.name + "; ";
    return all;
  };
  EXPECT_EQ(names(2, 1), "none; none, in a tree; sra; ring; ");
  EXPECT_EQ(names(1, 8), "none; none, in a tree; sra; ring; ");
  EXPECT_EQ(names(2, 2),
            "none; none, in a tree; sra; ring; hier; none, hier; none, hier, in a tree; ");
}

// 4 ranks, 1 ms a message, 1000 bytes a second.
TEST(EspressoCost, Formulas) {
  const Network network{4, 0.001, 1000};
  EXPECT_DOUBLE_EQ(ring_all_reduce_seconds(network, 400), 0.006 + 0.6);
  EXPECT_DOUBLE_EQ(scatter_seconds(network, 400), 0.003 + 0.3);
  EXPECT_DOUBLE_EQ(gather_whole_seconds(network, 400), 0.003 + 1.2);
  EXPECT_DOUBLE_EQ(tree_seconds(network, 400), 0.002 + 0.4);
  EXPECT_DOUBLE_EQ(codec_seconds({0.5, 0.001}, 400), 0.9);
  for (const auto formula :
       {ring_all_reduce_seconds, scatter_seconds, gather_whole_seconds, tree_seconds}) {
    EXPECT_EQ(formula({1, 0.001, 1000}, 400), 0.0);  // One rank sends nothing.
  }
}

/// 2 machines of 4 GPUs. Rates are such that a kilobyte takes 1 s inside and 2 s between.
Job small_job() {
  Job job;
  job.cluster = {2, 4, {0, 1000}, {0, 500}};
  job.compressor.ratio = 0.25;
  job.compressor.gpu = {{0.5, 0.001}, {0.25, 0.002}};
  job.compressor.cpu = {{{5, 0.01}, {2.5, 0.02}}};
  return job;
}

TEST(EspressoCost, Networks) {
  const Cluster cluster = small_job().cluster;
  EXPECT_EQ(network_of(cluster, Phase::kFlat).ranks, 8);
  EXPECT_EQ(network_of(cluster, Phase::kFlat).bytes_per_second, 500);
  EXPECT_EQ(network_of(cluster, Phase::kInside).ranks, 4);
  EXPECT_EQ(network_of(cluster, Phase::kInside).bytes_per_second, 1000);
  EXPECT_EQ(network_of(cluster, Phase::kBetween).ranks, 2);
  EXPECT_DOUBLE_EQ(card_load(cluster), 16.0 / 7);  // Each GPU sends 4 of 7 parts through a quarter.
  EXPECT_EQ(card_load({1, 8, {0, 1}, {0, 1}}), 1);
  EXPECT_EQ(card_load({8, 1, {0, 1}, {0, 1}}), 1);
  // On one machine only its own links count.
  EXPECT_EQ(network_of({1, 4, {0, 1000}, {0, 1}}, Phase::kFlat).bytes_per_second, 1000);
}

std::vector<double> seconds_of(const Option& option, Device device, std::size_t bytes) {
  std::vector<double> all;
  for (const Task& task : price(option, device, {"", bytes, 0}, small_job()).tasks) {
    if (task.resource != Resource::kCompute) all.push_back(task.seconds);
  }
  return all;
}

Option option_named(const std::vector<Option>& options, const std::string& name) {
  for (const Option& option : options) {
    if (option.name == name) return option;
  }
  ADD_FAILURE() << "no option " << name;
  return options.front();
}

void expect_prices(const Option& option, Device device, const std::vector<double>& expected) {
  const std::vector<double> actual = seconds_of(option, device, 800);
  ASSERT_EQ(actual.size(), expected.size()) << option.name;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], 1e-12) << option.name << ", step " << i;
  }
}

// 800 bytes; what a rank holds shrinks and grows, copies pile up until they are added.
TEST(EspressoCost, StepsOfOptions) {
  const std::vector<Option> engine = engine_options(small_job().cluster);
  expect_prices(option_named(engine, "none"), Device::kGpu, {2 * 7.0 / 8 * 800 / 500});
  // Up and down, inside machines and between them.
  expect_prices(option_named(engine, "none, in a tree"), Device::kGpu, {2 * (0.8 + 1.6)});
  // 200 compressed bytes; parts of 100 bytes; the card is 16/7 times slower.
  expect_prices(option_named(engine, "sra"), Device::kGpu,
                {1.3, 7.0 / 8 * 200 / 500 * 16 / 7, 1.85, 0.6, 7.0 / 8 * 200 / 500 * 16 / 7, 1.85});
  expect_prices(option_named(engine, "sra"), Device::kCpu,
                {13, 7.0 / 8 * 200 / 500 * 16 / 7, 18.5, 6, 7.0 / 8 * 200 / 500 * 16 / 7, 18.5});
  // 8 encodings and 7 decodings of 100 bytes, then a ring of 200 bytes, twice.
  expect_prices(option_named(engine, "ring"), Device::kGpu,
                {8 * 0.6 + 7 * 0.45, 7.0 / 8 * 200 / 500, 7.0 / 8 * 200 / 500, 1.85});
  // 200 of 800 bytes a GPU, 50 when compressed, a quarter of a card.
  expect_prices(option_named(engine, "hier"), Device::kGpu,
                {0.6, 0.7, 0.5 * 50 / 125, 0.65, 0.6, 0.5 * 50 / 125, 0.65, 0.6});
}

// 600 bytes to 3 others inside; four shares of 200 bytes pass the card at a time, to and fro; up
// and down a tree all of them pass twice.
TEST(EspressoCost, StepsBetweenMachinesWithoutACodec) {
  const std::vector<Option> engine = engine_options(small_job().cluster);
  expect_prices(option_named(engine, "none, hier"), Device::kGpu, {0.6, 2 * 0.5 * 200 / 125, 0.6});
  expect_prices(option_named(engine, "none, hier, in a tree"), Device::kGpu,
                {0.6, 2 * 200 / 125.0, 0.6});
  const std::vector<Option> whole = exchange_options();
  ASSERT_EQ(whole.size(), 3U);
  expect_prices(option_named(whole, "allgather(all)"), Device::kGpu, {7 * 800 / 500.0});
  expect_prices(whole[1], Device::kGpu, {0.6, 200 / 125.0, 0.6});
  expect_prices(whole[2], Device::kGpu, {0.8, 800 / 500.0, 0.8});
}

TEST(EspressoCost, StepsOfTheTree) {
  const std::vector<Option> tree = tree_options(false);
  // Every rank gets 8 compressed tensors.
  expect_prices(option_named(tree, "compress, allgather(all), decompress"), Device::kGpu,
                {1.3, 7 * 200 / 500.0, 0.25 + 0.002 * 6400});
  // The pieces that an all-to-all brought are forwarded as they are: 8 copies of 100 bytes, 200
  // compressed, to 7 others.
  expect_prices(option_named(tree, "compress, alltoall(all), allgather(all), decompress"),
                Device::kGpu,
                {1.3, 7.0 / 8 * 200 / 500 * 16 / 7, 7.0 / 8 * 1600 / 500, 0.25 + 0.002 * 6400});
  // A root has the card for itself, and all 800 bytes.
  expect_prices(option_named(tree,
                             "reduce(inside), compress, gather(between), decompress, "
                             "compress, broadcast(between), broadcast(inside), decompress"),
                Device::kGpu,
                {0.8, 1.3, 200 / 500.0, 0.25 + 0.002 * 1600, 1.3, 200 / 500.0, 0.2, 1.85});
}

/// A call of 1000 bytes takes 3 s exact and 1 s compressed, one of 8 bytes 0.5 s and 2 s.
TEST(EspressoCost, CallsOnHostMemoryTakeTheWireWhole) {
  Job job = small_job();
  job.calls = {{8, 0.5, 2}, {1000, 3, 1}};
  job.compressor.cpu.reset();
  job.forward_seconds = 10;
  job.tensors = {{"small", 8, 0.25}, {"large", 1000, 0.125}, {"large again", 1000, 20}};
  const std::vector<Option> options = call_options();
  EXPECT_NEAR(plan_nothing(job, options).seconds, 10 + 20.375 + 3, 1e-9);
  EXPECT_NEAR(plan_everything(job, options).seconds, 10 + 20.375 + 1, 1e-9);
  const Plan best = plan(job, options);
  EXPECT_NEAR(best.seconds, 10 + 20.375 + 1, 1e-9);
  // The other two have time enough.
  EXPECT_EQ(best.choices[0].option, 0U);
  EXPECT_EQ(best.choices[1].option, 0U);
  EXPECT_EQ(best.choices[2].option, 1U);
  job.calls.pop_back();
  EXPECT_THROW(static_cast<void>(plan(job, options)), std::logic_error);
}

TEST(EspressoCost, CallsArePricedByTheCostModel) {
  Job job = small_job();
  job.cluster = {2, 1, {}, {0.5, 1000}};
  job.tensors = {{"a", 4000, 0}, {"b", 8, 0}, {"a again", 4000, 0}};
  CodecSpeed exact, codec;
  exact.codec = "none";
  codec.codec = "half";
  codec.ratio = 0.5;
  codec.encode.start_seconds = 0.25;
  ASSERT_TRUE(price_calls(exact, codec, 0, &job).is_ok());
  ASSERT_EQ(job.calls.size(), 2U);
  EXPECT_EQ(job.calls[0].bytes, 8U);
  EXPECT_NEAR(job.calls[1].exact, 0.5 + 4, 1e-9) << "exchanged whole";
  EXPECT_NEAR(job.calls[1].compressed, 1 + 2 + 0.25, 1e-9);
  EXPECT_EQ(job.compressor.name, "half");
  ASSERT_TRUE(price_calls(exact, codec, 4001, &job).is_ok());
  EXPECT_EQ(job.calls[1].compressed, job.calls[1].exact);
  job.cluster.between.bytes_per_second = 0;
  EXPECT_FALSE(price_calls(exact, codec, 0, &job).is_ok());
}

TEST(EspressoCost, ChecksNameWhatIsWrong) {
  const auto message = [](auto change) {
    Job job = small_job();
    job.tensors = {{"first", 4, 0}};
    EXPECT_TRUE(check(job).is_ok());
    change(&job);
    return check(job).message();
  };
  EXPECT_NE(message([](Job* job) { job->cluster.machines = 0; }), "");
  EXPECT_NE(message([](Job* job) { job->cluster.inside.bytes_per_second = 0; }), "");
  EXPECT_NE(message([](Job* job) { job->cluster.between.latency_seconds = -1; }), "");
  EXPECT_NE(message([](Job* job) { job->compressor.ratio = 1.5; }), "");
  EXPECT_NE(message([](Job* job) { job->compressor.gpu.compress.start_seconds = NAN; }), "");
  EXPECT_NE(message([](Job* job) { job->compressor.cpu->decompress.seconds_per_byte = -1; }), "");
  EXPECT_NE(message([](Job* job) { job->forward_seconds = INFINITY; }), "");
  EXPECT_NE(message([](Job* job) { job->tensors[0].bytes = 0; }).find("first"), std::string::npos);
  EXPECT_NE(message([](Job* job) { job->tensors[0].backward_seconds = -1; }), "");
}

}  // namespace
}  // namespace ringpress::espresso
