#include "nccl_plugin/command/schedule/jobs_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "nccl_plugin/command/plan/model_file.h"
#include "nccl_plugin/command/schedule/cluster_file.h"
#include "ringpress/internal/names.h"

namespace ringpress::nccl_plugin::command {
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

/// A file being read: what jobs have in common.
struct Context {
  const gadget::Cluster& cluster;
  NameIndex names;
  JobsFile file;
};

std::uint64_t reserved(double bits_per_second) {
  return static_cast<std::uint64_t>(std::ceil(bits_per_second));
}

/// Iterations of a slot by the model, over links of this rate.
double iterations_of(JobModel model, double bits_per_second, std::size_t workers,
                     double slot_seconds) {
  model.bytes_per_second = bits_per_second / 8;
  return slot_seconds / step_seconds(model, workers);
}

void read_measured_speed(double rate, JsonReader* reader, Context* context, gadget::Job* job) {
  const MeasuredModel measured = read_model(reader->object("model"));
  context->file.measured_with.back() = {true, measured.workers, measured.codec};
  const JobModel& model = measured.model;
  const double slot_seconds = context->file.slot_seconds;
  if (slot_seconds == 0) reader->refuse_value("model", "needs \"slot_seconds\" of the file");
  const double link = 8 * model.bytes_per_second;
  const double used = rate == 0 ? link : std::min(rate, link);
  job->iterations_per_worker_slot = iterations_of(model, used, job->most_workers, slot_seconds);
  if (!std::isfinite(job->iterations_per_worker_slot)) {
    reader->refuse_value("model", "a step of it takes no time");
  }
  if (rate == 0) return;
  job->demand.ring_bits_per_second = reserved(used);
  const double ratio = (model.ratio_reduce_scatter + model.ratio_all_gather) / 2;
  if (ratio >= 1 || job->most_workers == 1) return;
  job->saving = {reserved(ratio * used),
                 iterations_of(model, ratio * used, job->most_workers, slot_seconds)};
}

/// What a job's iterations come from: numbers of its own, or its model.
void read_speed(JsonReader* reader, Context* context, gadget::Job* job) {
  const double rate = 1e9 * reader->number("ring_gigabits_per_second", kRate);
  if (reader->has("model")) return read_measured_speed(rate, reader, context, job);
  job->iterations_per_worker_slot = reader->number("iterations_per_worker_slot", kPositive);
  const double ratio = reader->number("ratio", kRatio);
  job->demand.ring_bits_per_second = reserved(rate * ratio);
  if (rate > 0 || ratio == 1) return;  // Of a job without a codec, whatever its rate.
  reader->refuse_value("ratio", "makes no difference to a rate of 0");
}

/// The job runs for a slot at least, with as few workers as it can.
void read_lifetime(JsonReader reader, const gadget::Cluster& cluster, gadget::Job* job) {
  job->lifetime = read_amounts(reader, cluster, kLifetime);
  for (std::size_t r = 0; r < cluster.resources.size(); ++r) {
    const std::uint64_t least = job->least_workers * job->demand.worker[r];
    if (job->lifetime[r] == 0) continue;
    if (least == 0) {
      reader.refuse_value(cluster.resources[r], "has no end, as a worker needs none of it");
    }
    if (job->lifetime[r] >= least) continue;
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
  const std::size_t ring = largest_ring(cluster, job.least_demand());
  if (job.least_workers <= ring) return;
  const double gigabits = 1e-9 * static_cast<double>(job.least_demand().ring_bits_per_second);
  reader->refuse_value("least_workers",
                       fmt::format("{} are more than the {} of the largest ring of {:g} Gb/s that "
                                   "the cluster's links can carry",
                                   job.least_workers, ring, gigabits));
}

gadget::Job read_job(JsonReader reader, Context* context) {
  const gadget::Cluster& cluster = context->cluster;
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
  job.name = read_new_name(&reader, &context->names);
  job.arrival = static_cast<std::size_t>(reader.number("arrival", kSlot));
  job.most_workers = static_cast<std::size_t>(reader.number("workers", kWorkers));
  job.least_workers = static_cast<std::size_t>(reader.number("least_workers", kWorkers, 1));
  if (job.least_workers > job.most_workers) {
    reader.refuse_value("least_workers", fmt::format("{} are more than the {} of \"workers\"",
                                                     job.least_workers, job.most_workers));
  }
  job.demand.worker = read_amounts(reader.object("needs"), cluster, kAmount);
  read_speed(&reader, context, &job);
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

Result<JobsFile> parse_jobs(std::string_view text, const gadget::Cluster& cluster) {
  RINGPRESS_ASSIGN_OR_RETURN(const JsonNode root, parse_json(text));
  Status status;
  JsonReader reader(root, "", &status, "the file of jobs");
  reader.check_names({"jobs"}, {"name", "note", "slot_seconds"});
  Context context = {cluster, {}, {}};
  JobsFile& file = context.file;
  file.name = reader.text("name");
  reader.text("note");
  file.slot_seconds = reader.number("slot_seconds", kPositive, 0);
  bool has_model = false;
  for (std::size_t i = 0; i < reader.list("jobs", "jobs").size(); ++i) {
    JsonReader item = reader.item("jobs", i);
    has_model |= item.has("model");
    file.measured_with.emplace_back();
    file.jobs.push_back(read_job(item, &context));
  }
  if (reader.has("slot_seconds") && !has_model) {
    reader.refuse_value("slot_seconds", "makes no difference, as no job has a \"model\"");
  }
  if (!status.is_ok()) return status;
  RINGPRESS_RETURN_IF_ERROR(check(cluster, file.jobs));
  return std::move(file);
}

}  // namespace ringpress::nccl_plugin::command
