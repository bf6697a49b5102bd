#include "perf/ringpress/schedule/jobs_file.h"

#include <fmt/core.h>

#include <cmath>
#include <string>

#include "perf/ringpress/plan/model_file.h"
#include "perf/ringpress/schedule/cluster_file.h"
#include "ringpress/names.h"

namespace ringpress::perf {
namespace {

using gadget::UtilityKind;

constexpr Range kSlot = {0, 1e6, true, "a whole number from 0 to 1e6"};
constexpr Range kWorkers = {1, 1e4, true, "a whole number from 1 to 1e4"};
constexpr Range kRate = {0, 1e6, false, "a number from 0 to 1e6"};
constexpr Range kRatio = {1e-9, 1, false, "a number from 1e-9 to 1"};
constexpr Range kPositive = {1e-9, 1e12, false, "a number from 1e-9 to 1e12"};
constexpr Range kLifetime = {1, 2147483648.0, true, "a whole number from 1 to 2^31"};
constexpr Range kCost = {0, 1e12, false, "a number from 0 to 1e12"};

gadget::Utility read_utility(JsonReader reader) {
  gadget::Utility utility;
  const std::string kind = reader.text("kind");
  if (kind == "sqrt" || kind == "log") {
    utility.kind = kind == "sqrt" ? UtilityKind::kSqrt : UtilityKind::kLog;
    reader.check_names({"kind", "scale"}, {});
  } else if (kind == "sigmoid") {
    utility.kind = UtilityKind::kSigmoid;
    reader.check_names({"kind", "scale", "steepness", "midpoint"}, {});
    utility.steepness = reader.number("steepness", kPositive);
    utility.midpoint = reader.number("midpoint", kCost);
  } else if (kind == "energy") {
    utility.kind = UtilityKind::kEnergy;
    reader.check_names({"kind", "scale", "cost"}, {});
    utility.cost = reader.number("cost", kCost);
  } else if (!reader.has("kind")) {
    reader.check_names({"kind", "scale"}, {"steepness", "midpoint", "cost"});
  } else {
    reader.refuse_value("kind",
                        fmt::format("must be sqrt, log, sigmoid or energy, not \"{}\"", kind));
  }
  utility.scale = reader.number("scale", kPositive);
  return utility;
}

/// What a job's iterations come from: numbers of its own, or its model.
void read_speed(double slot_seconds, JsonReader* reader, gadget::Job* job) {
  const double raw_rate = 1e9 * reader->number("ring_gigabits_per_second", kRate);
  double ratio = 1;
  if (!reader->has("model")) {
    job->iterations_per_worker_slot = reader->number("iterations_per_worker_slot", kPositive);
    ratio = reader->number("ratio", kRatio);
  } else {
    JobModel model = read_model(reader->object("model"));
    ratio = (model.ratio_reduce_scatter + model.ratio_all_gather) / 2;
    const double bytes_per_second = raw_rate * ratio / 8;
    if (bytes_per_second > 0) model.bytes_per_second = bytes_per_second;
    if (slot_seconds == 0) reader->refuse_value("model", "needs \"slot_seconds\" of the file");
    const double seconds = step_seconds(model, job->most_workers);
    if (!(seconds > 0)) reader->refuse_value("model", "a step of it takes no time");
    job->iterations_per_worker_slot = slot_seconds / seconds;
  }
  job->demand.ring_bits_per_second = static_cast<std::uint64_t>(std::ceil(raw_rate * ratio));
}

/// The job runs for a slot at least, with as few workers as it can.
void read_lifetime(JsonReader reader, const gadget::Cluster& cluster, gadget::Job* job) {
  job->lifetime = read_amounts(reader, cluster, kLifetime);
  for (std::size_t r = 0; r < cluster.resources.size(); ++r) {
    const std::uint64_t least = job->least_workers * job->demand.worker[r];
    if (job->lifetime[r] == 0 || job->lifetime[r] >= least) continue;
    reader.refuse_value(cluster.resources[r],
                        fmt::format("{} are less than the {} that a slot of {} workers takes",
                                    job->lifetime[r], least, job->least_workers));
  }
}

/// A job that has no place in the cluster when it is alone would wait for ever.
void check_room(const gadget::Cluster& cluster, const gadget::Job& job, JsonReader* reader) {
  const std::size_t room = workers_that_fit(cluster, job.demand.worker);
  if (job.most_workers > room) {
    reader->refuse_value("workers", fmt::format("{} are more than the {} that fit into the cluster",
                                                job.most_workers, room));
  }
  const std::size_t ring = largest_ring(cluster, job.demand);
  if (job.least_workers <= ring) return;
  const double gigabits = 1e-9 * static_cast<double>(job.demand.ring_bits_per_second);
  reader->refuse_value("least_workers",
                       fmt::format("{} are more than the {} of the largest ring of {:g} Gb/s that "
                                   "the cluster's links can carry",
                                   job.least_workers, ring, gigabits));
}

gadget::Job read_job(JsonReader reader, double slot_seconds, const gadget::Cluster& cluster,
                     NameIndex* names) {
  const JsonReader::Names required = {"name",
                                      "arrival",
                                      "workers",
                                      "needs",
                                      "ring_gigabits_per_second",
                                      "utility",
                                      reader.has("model") ? "model" : "iterations_per_worker_slot"};
  JsonReader::Names optional = {"least_workers", "lifetime"};
  if (!reader.has("model")) optional.push_back("ratio");
  reader.check_names(required, optional);
  gadget::Job job;
  job.name = read_new_name(&reader, names);
  job.arrival = static_cast<std::size_t>(reader.number("arrival", kSlot));
  job.most_workers = static_cast<std::size_t>(reader.number("workers", kWorkers));
  job.least_workers = static_cast<std::size_t>(reader.number("least_workers", kWorkers, 1));
  if (job.least_workers > job.most_workers) {
    reader.refuse_value("least_workers", fmt::format("{} are more than the {} of \"workers\"",
                                                     job.least_workers, job.most_workers));
  }
  job.demand.worker = read_amounts(reader.object("needs"), cluster, kAmount);
  read_speed(slot_seconds, &reader, &job);
  read_lifetime(reader.object("lifetime"), cluster, &job);
  job.utility = read_utility(reader.object("utility"));
  if (job.demand.worker[0] == 0) {
    reader.refuse_value("needs",
                        fmt::format("must have at least 1 of \"{}\"", cluster.resources[0]));
  }
  check_room(cluster, job, &reader);
  return job;
}

}  // namespace

Result<std::vector<gadget::Job>> parse_jobs(std::string_view text, const gadget::Cluster& cluster) {
  RINGPRESS_ASSIGN_OR_RETURN(const JsonNode root, parse_json(text));
  Status status;
  JsonReader reader(root, "", &status, "the file of jobs");
  reader.check_names({"jobs"}, {"name", "note", "slot_seconds"});
  const double slot_seconds = reader.number("slot_seconds", kPositive, 0);
  std::vector<gadget::Job> jobs;
  NameIndex names;
  for (std::size_t i = 0; i < reader.list("jobs", "jobs").size(); ++i) {
    jobs.push_back(read_job(reader.item("jobs", i), slot_seconds, cluster, &names));
  }
  if (!status.is_ok()) return status;
  RINGPRESS_RETURN_IF_ERROR(check(cluster, jobs));
  return jobs;
}

}  // namespace ringpress::perf
