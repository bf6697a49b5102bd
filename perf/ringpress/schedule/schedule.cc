#include "perf/ringpress/schedule/schedule.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "perf/ringpress/schedule/cluster_file.h"
#include "perf/ringpress/schedule/jobs_file.h"
#include "ringpress/gadget.h"

namespace ringpress::perf {
namespace {

using gadget::Policy;

constexpr int kBadFile = 2;

/// What was read, and what came of it.
struct Scheduled {
  gadget::Cluster cluster;
  std::vector<gadget::Job> jobs;
  gadget::Schedule schedule;

  double utility_of(std::size_t job) const {
    const auto worker_slots = static_cast<double>(schedule.worker_slots[job]);
    return value(jobs[job].utility, jobs[job].iterations_per_worker_slot * worker_slots);
  }
};

Policy policy_of(const std::string& name) {
  if (name == "fifo") return Policy::kFifo;
  if (name == "drf") return Policy::kDrf;
  if (name == "las") return Policy::kLas;
  return Policy::kGadget;
}

/// An error begins with the path.
Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream contents;
  if (file.is_open()) contents << file.rdbuf();
  if (file.is_open() && !contents.bad()) return contents.str();
  return Status(Code::kSystem, fmt::format("{}: {}", path, std::strerror(errno)));
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
  scheduled.jobs = std::move(jobs).value();
  return scheduled;
}

/// "s0 x2, s1 x1": servers in the order of the ring, and workers.
std::string places_of(const gadget::Cluster& cluster, const gadget::Ring& ring) {
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
  fmt::print("{} servers in {} racks, {} {}; {} jobs\n\n", cluster.servers.size(),
             cluster.racks.size(), amount, cluster.resources[0], scheduled.jobs.size());
  fmt::print("| policy | slots | utility | embedded of active |\n|---|---|---|---|\n");
  fmt::print("| {} | {} | {:.2f} | {:.1f} % |\n\n", policy, scheduled.schedule.slots.size(),
             scheduled.schedule.utility, 100 * scheduled.schedule.embedded_share);
}

void print_jobs(const Scheduled& scheduled) {
  std::vector<std::size_t> slots(scheduled.jobs.size());
  for (const gadget::Slot& slot : scheduled.schedule.slots) {
    for (const gadget::Ring& ring : slot.rings) ++slots[ring.job];
  }
  fmt::print("| job | arrival | slots it ran | worker-slots | iterations | utility |\n");
  fmt::print("|---|---|---|---|---|---|\n");
  for (std::size_t i = 0; i < scheduled.jobs.size(); ++i) {
    const gadget::Job& job = scheduled.jobs[i];
    const std::size_t worker_slots = scheduled.schedule.worker_slots[i];
    fmt::print("| {} | {} | {} | {} | {:.0f} | {:.2f} |\n", job.name, job.arrival, slots[i],
               worker_slots, job.iterations_per_worker_slot * static_cast<double>(worker_slots),
               scheduled.utility_of(i));
  }
}

void print_slots(const Scheduled& scheduled) {
  const std::vector<gadget::Slot>& slots = scheduled.schedule.slots;
  for (std::size_t t = 0; t < slots.size(); ++t) {
    fmt::print("\nslot {}: {} of {} jobs\n", t, slots[t].rings.size(), slots[t].active);
    for (const gadget::Ring& ring : slots[t].rings) {
      fmt::print("  {}: {}\n", scheduled.jobs[ring.job].name, places_of(scheduled.cluster, ring));
    }
  }
}

void print_json(const Scheduled& scheduled, const std::string& policy) {
  using Json = nlohmann::ordered_json;
  Json report = {{"policy", policy},
                 {"utility", scheduled.schedule.utility},
                 {"embedded_share", scheduled.schedule.embedded_share}};
  for (std::size_t i = 0; i < scheduled.jobs.size(); ++i) {
    report["jobs"].push_back({{"name", scheduled.jobs[i].name},
                              {"worker_slots", scheduled.schedule.worker_slots[i]},
                              {"utility", scheduled.utility_of(i)}});
  }
  for (const gadget::Slot& slot : scheduled.schedule.slots) {
    Json rings = Json::array();
    for (const gadget::Ring& ring : slot.rings) {
      Json shares = Json::array();
      for (const gadget::Share& share : ring.shares) {
        shares.push_back(
            {{"server", scheduled.cluster.servers[share.server].name}, {"workers", share.workers}});
      }
      rings.push_back({{"job", scheduled.jobs[ring.job].name}, {"ring", shares}});
    }
    report["slots"].push_back({{"active", slot.active}, {"rings", rings}});
  }
  fmt::print("{}\n", report.dump(1));
}

int refuse(const Status& status) {
  fmt::print(stderr, "ringpress schedule: {}\n", status.message());
  return kBadFile;
}

}  // namespace

int print_schedule(const ScheduleOptions& options) {
  Result<Scheduled> read = read_files(options);
  if (!read.is_ok()) return refuse(read.status());
  Scheduled& scheduled = read.value();
  scheduled.schedule =
      gadget::schedule(scheduled.cluster, scheduled.jobs, policy_of(options.policy), options.slots);
  if (options.json) {
    print_json(scheduled, options.policy);
    return EXIT_SUCCESS;
  }
  print_totals(scheduled, options.policy);
  print_jobs(scheduled);
  if (!options.summary) print_slots(scheduled);
  return EXIT_SUCCESS;
}

}  // namespace ringpress::perf
