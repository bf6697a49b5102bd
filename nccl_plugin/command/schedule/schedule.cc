#include "nccl_plugin/command/schedule/schedule.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "nccl_plugin/command/plan/text_file.h"
#include "nccl_plugin/command/schedule/cluster_file.h"
#include "nccl_plugin/command/schedule/jobs_file.h"
#include "nccl_plugin/command/schedule/launch_files.h"
#include "nccl_plugin/command/schedule/placements_svg.h"
#include "nccl_plugin/command/schedule/svg.h"
#ifdef RINGPRESS_HAVE_CLP
#include "ringpress/internal/slot_lp.h"
#endif
#include "ringpress/internal/gadget.h"

namespace ringpress::nccl_plugin::command {
namespace {

using gadget::Policy;

constexpr int kBadFile = 2;
/// PyTorch's own default; jobs of a slot may begin on the same server.
constexpr int kFirstPort = 29500;
constexpr std::size_t kLoads = 5;  // Points of the picture of loads.

/// Gains summed over slots, each with the jobs as the linear programme left them.
struct LpCheck {
  double bound = 0;            // No rings gain more.
  double rounded = 0;          // The programme's rings.
  double fast = 0;             // Those of gadget::solve_slot().
  std::size_t late_slots = 0;  // Not among these: the programme took too long.
};

/// What was read, and what came of it.
struct Scheduled {
  gadget::Cluster cluster;
  JobsFile file;
  gadget::Schedule schedule;
  LpCheck lp;  // Of the policy gadget-lp.

  const std::vector<gadget::Job>& jobs() const { return file.jobs; }
  double utility_of(std::size_t job) const {
    return value(jobs()[job].utility, schedule.iterations[job]);
  }
  /// Slots in which the job ran, in either way.
  std::size_t slots_of(std::size_t job, bool saves) const {
    std::size_t count = 0;
    for (const gadget::Slot& slot : schedule.slots) {
      for (const gadget::Ring& ring : slot.rings) {
        count += ring.job == job && ring.saves == saves ? 1 : 0;
      }
    }
    return count;
  }
};

/// What came of the choice of a compressed job.
const char* name_of_way(bool saves) {
  return saves ? "less reserved" : "less time";
}

double gigabits(const gadget::Demand& demand) {
  return 1e-9 * static_cast<double>(demand.ring_bits_per_second);
}

#ifdef RINGPRESS_HAVE_CLP
constexpr bool kHasLp = true;

/// Solves a slot both ways, and takes the linear programme's rings, if there are any in time.
std::vector<gadget::Ring> solve_and_compare(const gadget::Cluster& cluster,
                                            const std::vector<gadget::Bid>& bids, double seconds,
                                            LpCheck* check) {
  gadget::LpSlot slot = gadget::solve_slot_lp(cluster, bids, seconds);
  std::vector<gadget::Ring> fast = gadget::solve_slot(cluster, bids);
  if (!slot.is_in_time) {
    ++check->late_slots;
    return fast;
  }
  check->bound += slot.bound;
  check->rounded += gain_of(bids, slot.rings);
  check->fast += gain_of(bids, fast);
  return std::move(slot.rings);
}
#else
constexpr bool kHasLp = false;

std::vector<gadget::Ring> solve_and_compare(const gadget::Cluster&, const std::vector<gadget::Bid>&,
                                            double, LpCheck*) {
  return {};
}
#endif

Policy policy_of(const std::string& name) {
  if (name == "fifo") return Policy::kFifo;
  if (name == "drf") return Policy::kDrf;
  if (name == "las") return Policy::kLas;
  return Policy::kGadget;
}

/// An error begins with the path.
Result<std::string> read_file(const std::string& path) {
  Result<std::string> text = read_text_file(path);
  if (text.is_ok()) return text;
  return Status(text.status().code(), fmt::format("{}: {}", path, text.status().message()));
}

Status in_file(const std::string& path, const Status& status) {
  return Status(status.code(), fmt::format("{}:{}", path, status.message()));
}

Result<Scheduled> read_files(const ScheduleOptions& options) {
  Scheduled scheduled;
  RINGPRESS_ASSIGN_OR_RETURN(const std::string cluster_text, read_file(options.cluster_file));
  auto cluster = parse_cluster(cluster_text);
  if (!cluster.is_ok()) return in_file(options.cluster_file, cluster.status());
  scheduled.cluster = std::move(cluster).value();
  RINGPRESS_ASSIGN_OR_RETURN(const std::string jobs_text, read_file(options.jobs_file));
  auto jobs = parse_jobs(jobs_text, scheduled.cluster);
  if (!jobs.is_ok()) return in_file(options.jobs_file, jobs.status());
  scheduled.file = std::move(jobs).value();
  return scheduled;
}

/// "s0 x2, s1 x1": servers in the order of the ring, and workers.
std::string locations_of(const gadget::Cluster& cluster, const gadget::Ring& ring) {
  std::string places;
  for (const gadget::Share& share : ring.shares) {
    const std::string& server = cluster.servers[share.server].name;
    places += fmt::format("{}{} x{}", places.empty() ? "" : ", ", server, share.workers);
  }
  return places;
}

void print_totals(const Scheduled& scheduled, const std::string& policy) {
  const gadget::Cluster& cluster = scheduled.cluster;
  std::uint64_t amount = 0;
  for (const gadget::Server& server : cluster.servers) amount += server.capacity[0];
  if (!cluster.name.empty()) fmt::print("cluster: {}\n", cluster.name);
  if (!scheduled.file.name.empty()) fmt::print("jobs: {}\n", scheduled.file.name);
  fmt::print("{} servers in {} racks, {} {}; {} jobs\n\n", cluster.servers.size(),
             cluster.racks.size(), amount, cluster.resources[0], scheduled.jobs().size());
  fmt::print("| policy | slots | utility | embedded of active | moves |\n|---|---|---|---|---|\n");
  fmt::print("| {} | {} | {:.2f} | {:.1f} % | {} |\n\n", policy, scheduled.schedule.slots.size(),
             scheduled.schedule.utility, 100 * scheduled.schedule.embedded_share,
             scheduled.schedule.moves);
}

void print_lp(const LpCheck& lp, double seconds) {
  if (lp.late_slots > 0) {
    fmt::print(
        "slots whose linear programme took more than {:g} s, which have the fast solver's rings: "
        "{}\n\n",
        seconds, lp.late_slots);
  }
  if (lp.bound <= 0) return;
  fmt::print(
      "of the linear programme's bounds, summed over slots: its rings {:.2f} %, those of the "
      "fast solver {:.2f} %\n\n",
      100 * lp.rounded / lp.bound, 100 * lp.fast / lp.bound);
}

void print_jobs(const Scheduled& scheduled) {
  fmt::print("| job | arrival | slots it ran | worker-slots | iterations | utility |\n");
  fmt::print("|---|---|---|---|---|---|\n");
  for (std::size_t i = 0; i < scheduled.jobs().size(); ++i) {
    const gadget::Job& job = scheduled.jobs()[i];
    const std::size_t slots = scheduled.slots_of(i, false) + scheduled.slots_of(i, true);
    fmt::print("| {} | {} | {} | {} | {:.0f} | {:.2f} |\n", job.name, job.arrival, slots,
               scheduled.schedule.worker_slots[i], scheduled.schedule.iterations[i],
               scheduled.utility_of(i));
  }
}

/// "12 at 4 Gb/s, 180.2 iterations".
std::string way_text(const Scheduled& scheduled, std::size_t job, bool saves) {
  const gadget::Job& its = scheduled.jobs()[job];
  if (saves && !its.saving.has_value()) return "no choice";
  return fmt::format("{} at {:.4g} Gb/s, {:.1f} iterations", scheduled.slots_of(job, saves),
                     gigabits(its.demand_if(saves)), its.iterations_if(saves));
}

/// A row for each job with a model: how it could run, and in how many slots it did.
void print_models(const Scheduled& scheduled) {
  bool is_first = true;
  for (std::size_t i = 0; i < scheduled.jobs().size(); ++i) {
    const MeasuredWith& with = scheduled.file.measured_with[i];
    if (!with.is_there) continue;
    if (is_first) {
      fmt::print(
          "\n| job with a model | codec | measured with workers | slots with less time | slots "
          "with less reserved |\n|---|---|---|---|---|\n");
    }
    is_first = false;
    fmt::print("| {} | {} | {} | {} | {} |\n", scheduled.jobs()[i].name, with.codec,
               with.workers == 0 ? "" : fmt::format("{}", with.workers),
               way_text(scheduled, i, false), way_text(scheduled, i, true));
  }
}

void print_slots(const Scheduled& scheduled) {
  const std::vector<gadget::Slot>& slots = scheduled.schedule.slots;
  for (std::size_t t = 0; t < slots.size(); ++t) {
    fmt::print("\nslot {}: {} of {} jobs\n", t, slots[t].rings.size(), slots[t].active);
    for (const gadget::Ring& ring : slots[t].rings) {
      const gadget::Job& job = scheduled.jobs()[ring.job];
      const bool has_choice = job.saving.has_value();
      fmt::print("  {}: {}{}\n", job.name, locations_of(scheduled.cluster, ring),
                 has_choice ? fmt::format(" ({})", name_of_way(ring.saves)) : "");
    }
  }
}

using Json = nlohmann::ordered_json;

Json json_of_job(const Scheduled& scheduled, std::size_t i) {
  const gadget::Job& job = scheduled.jobs()[i];
  Json report = {{"name", job.name},
                 {"worker_slots", scheduled.schedule.worker_slots[i]},
                 {"iterations", scheduled.schedule.iterations[i]},
                 {"utility", scheduled.utility_of(i)}};
  const MeasuredWith& with = scheduled.file.measured_with[i];
  if (with.is_there) {
    report["model"] = {{"codec", with.codec}, {"workers", with.workers}};
  }
  if (!job.saving.has_value()) return report;
  for (const bool saves : {false, true}) {
    report["ways"].push_back({{"way", name_of_way(saves)},
                              {"slots", scheduled.slots_of(i, saves)},
                              {"gigabits_per_second", gigabits(job.demand_if(saves))},
                              {"iterations_per_worker_slot", job.iterations_if(saves)}});
  }
  return report;
}

/// What is reserved is so of each link that the ring crosses: of none if it is on one server.
Json json_of_ring(const Scheduled& scheduled, const gadget::Ring& ring) {
  const gadget::Job& job = scheduled.jobs()[ring.job];
  Json shares = Json::array();
  for (const gadget::Share& share : ring.shares) {
    shares.push_back(
        {{"server", scheduled.cluster.servers[share.server].name}, {"workers", share.workers}});
  }
  const double reserved = ring.shares.size() > 1 ? gigabits(job.demand_if(ring.saves)) : 0;
  Json report = {{"job", job.name}, {"ring", shares}, {"reserved_gigabits_per_second", reserved}};
  if (job.saving.has_value()) report["way"] = name_of_way(ring.saves);
  return report;
}

void print_json(const Scheduled& scheduled, const std::string& policy) {
  Json report = {{"cluster_name", scheduled.cluster.name},
                 {"jobs_name", scheduled.file.name},
                 {"policy", policy},
                 {"utility", scheduled.schedule.utility},
                 {"embedded_share", scheduled.schedule.embedded_share},
                 {"moves", scheduled.schedule.moves}};
  for (std::size_t i = 0; i < scheduled.jobs().size(); ++i) {
    report["jobs"].push_back(json_of_job(scheduled, i));
  }
  for (const gadget::Slot& slot : scheduled.schedule.slots) {
    Json rings = Json::array();
    for (const gadget::Ring& ring : slot.rings) rings.push_back(json_of_ring(scheduled, ring));
    report["slots"].push_back({{"active", slot.active}, {"rings", rings}});
  }
  fmt::print("{}\n", report.dump(1, ' ', false, Json::error_handler_t::replace));
}

Status write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return Status::ok();
  return Status(Code::kSystem, fmt::format("{}: {}", path, std::strerror(errno)));
}

/// Utility against the number of jobs: the first ones of the file, by every policy.
std::string draw_loads(const Scheduled& scheduled, const ScheduleOptions& options) {
  LineChart chart = {"utility against load", "jobs", "utility", {}, false};
  for (const char* policy : {"gadget", "fifo", "drf", "las"}) {
    Series series = {policy, {}};
    for (std::size_t part = 1; part <= kLoads; ++part) {
      const std::size_t count = scheduled.jobs().size() * part / kLoads;
      const std::vector<gadget::Job> jobs(scheduled.jobs().begin(),
                                          scheduled.jobs().begin() + static_cast<long>(count));
      const gadget::Schedule found =
          gadget::schedule(scheduled.cluster, jobs, policy_of(policy), options.slots);
      series.points.emplace_back(static_cast<double>(count), found.utility);
    }
    chart.series.push_back(std::move(series));
  }
  return draw_lines(chart);
}

/// Of what its parent has.
Status make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directory(path, error);
  if (!error) return Status::ok();
  return Status(Code::kSystem, fmt::format("{}: {}", path, error.message()));
}

/// Of the resource whose amounts are devices that CUDA numbers; past the last one: there is none.
std::size_t find_devices(const gadget::Cluster& cluster) {
  const auto found = std::find(cluster.resources.begin(), cluster.resources.end(), "gpus");
  return static_cast<std::size_t>(found - cluster.resources.begin());
}

/// Whether there is the slot whose launch files are asked for.
Status check_launch_slot(const Scheduled& scheduled, const ScheduleOptions& options) {
  const std::size_t slots = scheduled.schedule.slots.size();
  if (options.launch_folder.empty() || options.launch_slot < slots) return Status::ok();
  return Status(Code::kInvalidArgument,
                fmt::format("--slot {}: there are {} slots", options.launch_slot, slots));
}

/// Three files for each job that runs in the slot.
Status write_launch_files(const Scheduled& scheduled, const ScheduleOptions& options) {
  const std::vector<gadget::Slot>& slots = scheduled.schedule.slots;
  RINGPRESS_RETURN_IF_ERROR(make_folder(options.launch_folder));
  const gadget::Cluster& cluster = scheduled.cluster;
  const std::size_t resource = find_devices(cluster);
  const bool has_devices = resource < cluster.resources.size();
  std::vector<std::size_t> taken(cluster.servers.size());  // Workers.
  RingDevices devices = {0, taken};
  int port = kFirstPort;
  for (const gadget::Ring& ring : slots[options.launch_slot].rings) {
    const gadget::Job& job = scheduled.jobs()[ring.job];
    const std::string path = options.launch_folder + "/" + job.name;
    if (has_devices) devices.each = job.demand.worker[resource];
    RINGPRESS_RETURN_IF_ERROR(write_file(path + ".rankfile", mpi_rank_file(cluster, ring, taken)));
    RINGPRESS_RETURN_IF_ERROR(write_file(path + ".hosts", slurm_host_list(cluster, ring)));
    RINGPRESS_RETURN_IF_ERROR(
        write_file(path + ".torchrun",
                   torchrun_lines(cluster, ring, port++, has_devices ? &devices : nullptr)));
    for (const gadget::Share& share : ring.shares) {
      taken[share.server] += share.workers;
      devices.taken[share.server] += share.workers * devices.each;
    }
  }
  return Status::ok();
}

Status write_files(const Scheduled& scheduled, const ScheduleOptions& options) {
  if (!options.svg_file.empty()) {
    RINGPRESS_RETURN_IF_ERROR(
        write_file(options.svg_file,
                   draw_placements(scheduled.cluster, scheduled.jobs(), scheduled.schedule)));
  }
  if (!options.load_file.empty()) {
    RINGPRESS_RETURN_IF_ERROR(write_file(options.load_file, draw_loads(scheduled, options)));
  }
  if (options.launch_folder.empty()) return Status::ok();
  return write_launch_files(scheduled, options);
}

void print_text(const Scheduled& scheduled, const ScheduleOptions& options) {
  print_totals(scheduled, options.policy);
  print_lp(scheduled.lp, options.lp_seconds);
  print_jobs(scheduled);
  print_models(scheduled);
  if (!options.summary) print_slots(scheduled);
}

int refuse(const Status& status) {
  fmt::print(stderr, "ringpress schedule: {}\n", status.message());
  return kBadFile;
}

}  // namespace

int print_schedule(const ScheduleOptions& options) {
  if (options.policy == "gadget-lp" && !kHasLp) {
    return refuse({Code::kUnsupported,
                   "gadget-lp: this program was built without Clp "
                   "(Debian: coinor-libclp-dev)"});
  }
  Result<Scheduled> read = read_files(options);
  if (!read.is_ok()) return refuse(read.status());
  Scheduled& scheduled = read.value();
  gadget::SlotSolver solver = gadget::solve_slot;
  if (options.policy == "gadget-lp") {
    solver = [&](const gadget::Cluster& cluster, const std::vector<gadget::Bid>& bids) {
      return solve_and_compare(cluster, bids, options.lp_seconds, &scheduled.lp);
    };
  }
  scheduled.schedule = gadget::schedule(scheduled.cluster, scheduled.jobs(),
                                        policy_of(options.policy), options.slots, solver);
  const Status possible = check_launch_slot(scheduled, options);
  if (!possible.is_ok()) return refuse(possible);
  if (options.json) {
    print_json(scheduled, options.policy);
  } else {
    print_text(scheduled, options);
  }
  const Status written = write_files(scheduled, options);
  if (written.is_ok()) return EXIT_SUCCESS;
  refuse(written);
  return EXIT_FAILURE;
}

}  // namespace ringpress::nccl_plugin::command
