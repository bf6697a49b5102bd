#include "perf/gadget/experiment.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <stdexcept>

#include "perf/gadget/random_jobs.h"

namespace ringpress::perf {
namespace {

using gadget::Policy;
using gadget::UtilityKind;

constexpr std::size_t kClusters = 5;  // Each with jobs of its own; figures are their means.
constexpr std::size_t kLoads[] = {40, 60, 80, 100};

struct Named {
  const char* name;
  Policy policy;
};
constexpr Named kPolicies[] = {{"GADGET", Policy::kGadget},
                               {"FIFO", Policy::kFifo},
                               {"DRF", Policy::kDrf},
                               {"LAS", Policy::kLas}};
using PerPolicy = std::array<double, std::size(kPolicies)>;

/// Means of a number of jobs.
struct Outcome {
  PerPolicy utility = {};
  PerPolicy embedded_share = {};

  double ratio() const {
    return utility[0] / *std::max_element(utility.begin() + 1, utility.end());
  }
};

Outcome run_all(const Experiment& experiment, std::size_t jobs) {
  Outcome outcome;
  for (std::uint64_t seed = 0; seed < kClusters; ++seed) {
    const gadget::Cluster cluster = paper_cluster(experiment, seed);
    const std::vector<gadget::Job> drawn = paper_jobs(experiment, jobs, 100 + seed);
    for (std::size_t i = 0; i < std::size(kPolicies); ++i) {
      const gadget::Schedule found =
          schedule(cluster, drawn, kPolicies[i].policy, experiment.slots);
      outcome.utility[i] += found.utility / kClusters;
      outcome.embedded_share[i] += found.embedded_share / kClusters;
    }
  }
  return outcome;
}

/// A row a load; a chart's lines if `chart` is not null.
void print_utilities(const char* name, const Experiment& experiment, LineChart* chart) {
  std::printf("\n%s\n\n| jobs |", name);
  for (const Named& policy : kPolicies) std::printf(" %s |", policy.name);
  std::printf(" GADGET over the best other | embedded: GADGET, FIFO, DRF, LAS |\n");
  std::printf("|---|---|---|---|---|---|---|\n");
  for (const std::size_t jobs : kLoads) {
    const Outcome outcome = run_all(experiment, jobs);
    std::printf("| %zu |", jobs);
    for (const double utility : outcome.utility) std::printf(" %.0f |", utility);
    std::printf(" %.3f |", outcome.ratio());
    for (std::size_t i = 0; i < std::size(kPolicies); ++i) {
      std::printf("%s%.0f %%", i == 0 ? " " : ", ", 100 * outcome.embedded_share[i]);
      if (chart == nullptr) continue;
      chart->series.resize(std::size(kPolicies));
      chart->series[i].name = kPolicies[i].name;
      chart->series[i].points.emplace_back(jobs, outcome.utility[i]);
    }
    std::printf(" |\n");
    std::fflush(stdout);
  }
}

double embedded_share(const Experiment& experiment, std::size_t jobs) {
  double share = 0;
  for (std::uint64_t seed = 0; seed < kClusters; ++seed) {
    share += schedule(paper_cluster(experiment, seed), paper_jobs(experiment, jobs, 100 + seed),
                      Policy::kGadget, experiment.slots)
                 .embedded_share /
             kClusters;
  }
  return 100 * share;
}

/// A row for each experiment, its first cell from `names`.
void print_shares(const char* title, const std::vector<std::string>& names,
                  const std::vector<Experiment>& experiments) {
  std::printf("\n%s\n\n| |", title);
  for (const std::size_t jobs : kLoads) std::printf(" %zu jobs |", jobs);
  std::printf("\n|---|---|---|---|---|\n");
  for (std::size_t i = 0; i < experiments.size(); ++i) {
    std::printf("| %s |", names[i].c_str());
    for (const std::size_t jobs : kLoads) {
      std::printf(" %.1f %% |", embedded_share(experiments[i], jobs));
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}

/// The paper's ranges, but with so much to do that the cluster is full.
Experiment contended(UtilityKind utility) {
  Experiment experiment;
  experiment.most_workers = 16;
  experiment.iterations_scale = 0.02;
  experiment.utility = utility;
  return experiment;
}

void print_capacities() {
  std::vector<std::string> names;
  std::vector<Experiment> experiments;
  for (const std::size_t factor : {1, 2, 3, 4}) {
    names.push_back(std::to_string(100 * factor) + " GPUs");
    experiments.push_back(contended(UtilityKind::kSqrt));
    experiments.back().gpus = 100 * factor;
  }
  print_shares("Embedded of active jobs, GADGET, against GPUs; contended, sqrt", names,
               experiments);
}

/// Links so narrow that they are what is scarce, and GPUs enough.
Experiment narrow(double factor) {
  Experiment experiment = contended(UtilityKind::kSqrt);
  experiment.gpus = 400;
  experiment.rack_gigabits = 200;
  experiment.may_resize = false;  // Or each would run on one GPU, and need no link.
  experiment.link_scale = 0.01 * factor;
  return experiment;
}

void print_bandwidths() {
  std::vector<std::string> names;
  std::vector<Experiment> experiments;
  for (const double factor : {0.5, 1.0, 2.0, 4.0}) {
    char name[64];
    std::snprintf(name, sizeof name, "links times %g", factor);
    names.push_back(name);
    experiments.push_back(narrow(factor));
  }
  print_shares(
      "The same against bandwidth: 400 GPUs, jobs that cannot be resized; links of servers "
      "a hundredth\nof the paper's 10 to 100 Gb/s, of racks a hundredth of 200",
      names, experiments);
}

void print_compressed() {
  std::vector<std::string> names;
  std::vector<Experiment> experiments;
  for (const double ratio : {1.0, 0.25, 0.125}) {
    char name[64];
    std::snprintf(name, sizeof name, "rho = %g", ratio);
    names.push_back(name);
    experiments.push_back(narrow(1));
    experiments.back().ratio = ratio;
  }
  print_shares("The same with compressed jobs, links times 1", names, experiments);
}

}  // namespace

void write_chart(const std::string& svg_file, const LineChart& chart) {
  std::ofstream file(svg_file);
  file << nccl_plugin::command::draw_lines(chart);
  file.close();
  if (!file) throw std::runtime_error(svg_file + ": cannot be written");
}

void print_experiment(const std::string& svg_file) {
  std::printf(
      "50 servers, 200 slots, means of %zu random clusters and sets of jobs (random_jobs.h).\n"
      "Contended: up to 16 workers a job, and a fiftieth of the paper's iterations a slot.\n",
      kClusters);
  LineChart chart = {"50 servers, 200 slots, sigmoid, contended", "jobs", "utility", {}, false};
  print_utilities("Utility, contended, sigmoid", contended(UtilityKind::kSigmoid), &chart);
  write_chart(svg_file, chart);
  print_utilities("Utility, contended, sqrt", contended(UtilityKind::kSqrt), nullptr);
  print_utilities("Utility, the paper's ranges as they are, sigmoid", Experiment(), nullptr);
  print_capacities();
  print_bandwidths();
  print_compressed();
}

}  // namespace ringpress::perf
