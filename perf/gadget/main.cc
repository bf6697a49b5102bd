// How near solve_slot() comes to the largest gain of a slot, how long it takes, and what comes of a
// schedule.
//
//   gadget_perf slots GROWTH.svg
//   gadget_perf optimum SLOTS [FIRST]
//   gadget_perf experiment UTILITY.svg
//
// slots: a row for each utility: the gain over that of trying everything, on random slots of 4
// servers and 5 jobs (random_slot.h), of the first 200 seeds; then the time of a slot on this core,
// of growing clusters, which is drawn too, and, where Clp was found, the linear programme of slots.
// optimum: a row for each family of small slots drawn widely (wide_slot.h): the gain over the
// largest one possible (exact_slot.h), of so many slots of each, from the seed FIRST on (0). Fails
// below what was asked for.
// experiment: experiment.h.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <string>
#include <vector>

#include "nccl_plugin/command/schedule/svg.h"
#include "perf/gadget/exact_slot.h"
#include "perf/gadget/experiment.h"
#include "perf/gadget/random_slot.h"
#include "perf/gadget/wide_slot.h"
#ifdef RINGPRESS_HAVE_CLP
#include "ringpress/internal/slot_lp.h"
#endif

namespace ringpress::perf {
namespace {

using gadget::UtilityKind;

constexpr std::size_t kSlots = 200;

struct Named {
  const char* name;
  UtilityKind kind;
  bool may_resize = true;
};
constexpr Named kUtilities[] = {{"sqrt", UtilityKind::kSqrt},
                                {"log", UtilityKind::kLog},
                                {"energy", UtilityKind::kEnergy},
                                {"sigmoid", UtilityKind::kSigmoid},
                                {"sqrt, all workers or none", UtilityKind::kSqrt, false}};

void measure_gains(const Named& utility) {
  std::vector<double> parts;
  for (std::size_t seed = 0; seed < kSlots; ++seed) {
    SlotShape shape;
    shape.utility = utility.kind;
    shape.may_resize = utility.may_resize;
    const RandomSlot slot = random_slot(shape, seed);
    const double found = gain_of(slot.bids, gadget::solve_slot(slot.cluster, slot.bids));
    const double most = ExactSlot(slot.cluster, slot.bids).most_gain(found);
    parts.push_back(most > 0 ? found / most : 1);
  }
  std::sort(parts.begin(), parts.end());
  double sum = 0;
  for (const double part : parts) sum += part;
  const auto best =
      std::count_if(parts.begin(), parts.end(), [](double x) { return x > 1 - 1e-9; });
  std::printf("| %s | %zu | %.4f | %.4f | %.4f | %td |\n", utility.name, parts.size(),
              sum / static_cast<double>(parts.size()), parts[parts.size() / 100], parts[0], best);
}

/// Of this process: others on the machine make no difference.
double processor_milliseconds() {
  return 1000.0 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

/// Milliseconds of the median slot.
double measure_time(std::size_t servers, std::size_t jobs, std::size_t slots) {
  std::vector<double> milliseconds;
  for (std::size_t seed = 0; seed < slots; ++seed) {
    SlotShape shape;
    shape.servers = servers;
    shape.racks = std::max<std::size_t>(2, servers / 40);
    shape.jobs = jobs;
    const RandomSlot slot = random_slot(shape, 1000 + seed);
    const double begin = processor_milliseconds();
    gadget::solve_slot(slot.cluster, slot.bids);
    milliseconds.push_back(processor_milliseconds() - begin);
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  std::printf("| %zu | %zu | %zu | %.2f | %.2f |\n", servers, jobs, slots, milliseconds[slots / 2],
              milliseconds.back());
  return milliseconds[slots / 2];
}

#ifdef RINGPRESS_HAVE_CLP
/// The linear programme beside the fast solver, both over its bound.
void measure_programme(std::size_t servers, std::size_t jobs, std::size_t slots) {
  double fast = 0, rounded = 0, least = 1, milliseconds = 0;
  for (std::size_t seed = 0; seed < slots; ++seed) {
    SlotShape shape;
    shape.servers = servers;
    shape.jobs = jobs;
    const RandomSlot slot = random_slot(shape, 2000 + seed);
    const double begin = processor_milliseconds();
    const gadget::LpSlot found = solve_slot_lp(slot.cluster, slot.bids);
    milliseconds += processor_milliseconds() - begin;
    const double part =
        gain_of(slot.bids, gadget::solve_slot(slot.cluster, slot.bids)) / found.bound;
    fast += part;
    least = std::min(least, part);
    rounded += gain_of(slot.bids, found.rings) / found.bound;
  }
  const auto count = static_cast<double>(slots);
  std::printf("| %zu | %zu | %zu | %.4f | %.4f | %.4f | %.1f |\n", servers, jobs, slots,
              fast / count, least, rounded / count, milliseconds / count);
}

void print_programmes() {
  std::printf(
      "\nsqrt; of the linear programme's bound, which no rings exceed:\n\n"
      "| servers | jobs | slots | fast solver, mean | least | programme's rings, mean | programme, "
      "ms |\n|---|---|---|---|---|---|---|\n");
  measure_programme(4, 5, 200);
  measure_programme(50, 100, 20);
  measure_programme(200, 200, 5);
}
#else
void print_programmes() {}
#endif

void print_slots(const std::string& svg_file) {
  std::printf("| utility | slots | mean | p1 | least | best of all |\n|---|---|---|---|---|---|\n");
  for (const Named& utility : kUtilities) measure_gains(utility);
  std::printf("\n| servers | jobs | slots | median ms | max ms |\n|---|---|---|---|---|\n");
  measure_time(50, 100, 40);
  LineChart chart = {"time of a slot, servers and jobs in equal numbers",
                     "servers",
                     "milliseconds",
                     {{"median", {}}},
                     true};
  for (const std::size_t size : {20, 50, 100, 200, 500, 1000, 2000}) {
    chart.series[0].points.emplace_back(size, measure_time(size, size, 20));
  }
  write_chart(svg_file, chart);
  print_programmes();
}

struct Family {
  const char* name;
  WideShape shape;
};
constexpr Family kFamilies[] = {
    {"one resource, resizable", {1, true}},
    {"one resource, all workers or none", {1, false}},
    {"two resources, resizable", {2, true}},
    {"two resources, all workers or none", {2, false}},
    {"two resources, resizable, a choice of rates", {2, true, true}},
    {"two resources, all workers or none, a choice of rates", {2, false, true}},
    {"three resources, resizable", {3, true}},
    {"three resources, all workers or none", {3, false}}};

/// Of the optimum; 1 where nothing can be gained.
double part_of_optimum(const RandomSlot& slot, double* milliseconds) {
  const double begin = processor_milliseconds();
  const std::vector<gadget::Ring> rings = gadget::solve_slot(slot.cluster, slot.bids);
  *milliseconds = processor_milliseconds() - begin;
  const Status status = check(slot.cluster, slot.bids, rings);
  RINGPRESS_EXPECTS(status.is_ok(), status.message());
  const double found = gain_of(slot.bids, rings);
  const double most = ExactSlot(slot.cluster, slot.bids).most_gain(found);
  return most > 0 ? found / most : 1;
}

/// False: less than was asked for.
bool measure_family(const Family& family, WideShape shape, std::size_t slots, std::uint64_t first) {
  double sum = 0, least = 1, longest = 0, all = 0;
  std::size_t best = 0;
  for (std::uint64_t seed = first; seed < first + slots; ++seed) {
    double milliseconds = 0;
    const double part = part_of_optimum(wide_slot(shape, seed), &milliseconds);
    sum += part;
    least = std::min(least, part);
    best += part > 1 - 1e-9 ? 1 : 0;
    all += milliseconds;
    longest = std::max(longest, milliseconds);
  }
  const auto count = static_cast<double>(slots);
  std::printf("| %s | %zu | %.5f | %.4f | %zu | %.2f | %.2f |\n", family.name, slots, sum / count,
              least, best, all / count, longest);
  std::fflush(stdout);
  return sum / count >= 0.99 && least >= 0.9;
}

constexpr char kOptimumHead[] =
    "| slots | number | mean | least | at the optimum | mean ms | max ms |\n"
    "|---|---|---|---|---|---|---|\n";

bool print_optimum(std::size_t slots, std::uint64_t first) {
  bool is_good = true;
  std::printf("2 to 5 servers, 2 to 6 jobs of up to 6 workers:\n\n%s", kOptimumHead);
  for (const Family& family : kFamilies) {
    is_good &= measure_family(family, family.shape, slots, first);
  }
  std::printf("\n5 or 6 servers, 6 to 8 jobs of up to 6 workers:\n\n%s", kOptimumHead);
  for (std::size_t i = 0; i < 4; ++i) {
    is_good &= measure_family(kFamilies[i], larger(kFamilies[i].shape), slots / 10, first);
  }
  return is_good;
}

}  // namespace
}  // namespace ringpress::perf

int main(int argc, char** argv) {
  const std::string command = argc == 3 || argc == 4 ? argv[1] : "";
  const std::uint64_t first = argc == 4 ? std::strtoull(argv[3], nullptr, 10) : 0;
  try {
    if (command == "slots" && argc == 3) {
      ringpress::perf::print_slots(argv[2]);
    } else if (command == "optimum") {
      const bool is_good =
          ringpress::perf::print_optimum(std::strtoul(argv[2], nullptr, 10), first);
      return is_good ? 0 : 1;
    } else if (command == "experiment" && argc == 3) {
      ringpress::perf::print_experiment(argv[2]);
    } else {
      std::fprintf(stderr,
                   "usage: gadget_perf slots GROWTH.svg | optimum SLOTS [FIRST] | experiment "
                   "UTILITY.svg\n");
      return 2;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gadget_perf: %s\n", error.what());
    return 1;
  }
  return 0;
}
