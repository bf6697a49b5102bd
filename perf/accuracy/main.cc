// codec_accuracy: the error of each codec on gradients and on laws that resemble them, as JSON
// lines. perf/accuracy.py runs it and draws the result.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compress_kernels/factory.h"
#include "compress_kernels/specification.h"
#include "nccl_plugin/command/terminal/standard_output.h"
#include "perf/accuracy/measure.h"

namespace ringpress::perf {
namespace {

struct Options {
  std::vector<std::string> codecs;
  std::vector<std::string> gradients;  // Prefixes of _rankN.npy files.
  std::size_t count = std::size_t{1} << 20;
  std::size_t all_reduce_count = std::size_t{1} << 16;
  std::size_t steps = 50;
  std::vector<std::size_t> ranks = {2, 4, 8, 16};
  std::vector<std::string> algorithms = {"sra", "ring"};
  bool single_shot_only = false;
  bool list = false;
  bool describe = false;
};

struct Source {
  std::string name;
  RankTensors tensors;
};

void print(const nlohmann::json& record) {
  fmt::print("{}\n", record.dump());
  std::fflush(stdout);
}

void measure_codec(const Options& options, const std::string& codec, const Source& source) {
  const SingleShot shot = measure_single_shot(codec, source.tensors[0]);
  print({{"mode", "single"},
         {"codec", codec},
         {"data", source.name},
         {"error", shot.error},
         {"bias", shot.bias},
         {"bits", shot.bits}});
  if (options.single_shot_only) return;
  for (const std::size_t ranks : options.ranks) {
    RankTensors inputs(source.tensors.begin(),
                       source.tensors.begin() + static_cast<std::ptrdiff_t>(ranks));
    for (auto& input : inputs) input.resize(std::min(input.size(), options.all_reduce_count));
    for (const std::string& algorithm : options.algorithms) {
      for (const bool error_feedback : {false, true}) {
        const std::size_t steps = error_feedback ? options.steps : 1;
        const AllReduceOutcome outcome =
            measure_all_reduce({codec, algorithm, error_feedback, steps}, inputs);
        print({{"mode", "all_reduce"},
               {"codec", codec},
               {"data", source.name},
               {"algorithm", algorithm},
               {"ranks", ranks},
               {"error_feedback", error_feedback},
               {"steps", steps},
               {"bits", outcome.bits},
               {"error", outcome.error}});
      }
    }
  }
}

/// In answer to: is it needed?
const char* feedback_word(std::string_view specification) {
  switch (compress_kernels::feedback_need(std::string(specification)).value()) {
    case compress_kernels::FeedbackNeed::kNone:
      return "no";
    case compress_kernels::FeedbackNeed::kAdvised:
      return "advised";
    case compress_kernels::FeedbackNeed::kNeeded:
      return "yes";
  }
  return "";
}

/// What the table in compress_kernels/codecs.md says of each, as a JSON line.
void describe_codecs() {
  for (const auto& entry : compress_kernels::codec_list()) {
    for (const auto& example : entry.family->examples) {
      // A family lists the examples of all its names.
      if (example.specification.substr(0, example.specification.find(':')) != entry.name) continue;
      const auto codec = compress_kernels::make_codec(std::string(example.specification),
                                                      DType::kFloat32, ReduceOp::kSum);
      if (!codec.is_ok()) throw std::invalid_argument(codec.status().message());
      const CodecTraits& traits = codec.value()->traits();
      print({{"codec", example.specification},
             {"summable", traits.summable},
             {"lossless", traits.lossless},
             {"error_feedback", feedback_word(example.specification)},
             {"memory", example.memory},
             {"when_to_use", example.when_to_use}});
    }
  }
}

std::vector<Source> sources(const Options& options) {
  std::vector<Source> found;
  const std::size_t ranks =
      options.single_shot_only ? 1 : *std::max_element(options.ranks.begin(), options.ranks.end());
  for (const std::string& law : law_names()) {
    found.push_back({law, draw_law(law, options.count, ranks, 1)});
  }
  for (const std::string& prefix : options.gradients) {
    found.push_back({prefix.substr(prefix.find_last_of('/') + 1), read_ranks(prefix, ranks)});
  }
  return found;
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("The error of each codec.");
  app.add_option("--codecs", options.codecs, "specifications; default: all names");
  app.add_option("--gradients", options.gradients, "prefixes of PREFIX_rank0.npy ...");
  app.add_option("--count", options.count, "values of a law")->check(CLI::Range(1024, 1 << 28));
  app.add_option("--all-reduce-count", options.all_reduce_count, "values of an all-reduce")
      ->check(CLI::Range(1, 1 << 28));
  app.add_option("--steps", options.steps, "steps with error feedback")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--ranks", options.ranks, "numbers of ranks")->check(CLI::Range(2, 64));
  app.add_option("--algorithms", options.algorithms, "sra, ring");
  app.add_flag("--list", options.list, "print the names of all codecs");
  app.add_flag("--describe", options.describe, "what each codec is for, as JSON lines");
  app.add_flag("--single", options.single_shot_only, "no all-reduces");
  CLI11_PARSE(app, argc, argv);
  if (options.list) {
    for (const auto name : compress_kernels::codec_names()) fmt::print("{}\n", name);
    return 0;
  }
  if (options.describe) {
    describe_codecs();
    return 0;
  }
  if (options.codecs.empty()) {
    for (const auto name : compress_kernels::codec_names()) options.codecs.emplace_back(name);
  }
  for (const Source& source : sources(options)) {
    for (const std::string& codec : options.codecs) measure_codec(options, codec, source);
  }
  return 0;
}

}  // namespace
}  // namespace ringpress::perf

int main(int argc, char** argv) {
  return ringpress::terminal::run_to_end("codec_accuracy",
                                         [&] { return ringpress::perf::run(argc, argv); });
}
