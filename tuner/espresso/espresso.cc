// Espresso's functions as they are offered: checks, prices, searches.
#include "ringpress/internal/espresso.h"

#include <cmath>
#include <utility>

#include "tuner/espresso/search.h"
#include "tuner/espresso/waiting.h"

namespace ringpress::espresso {
namespace {

bool is_time(double seconds) {
  return std::isfinite(seconds) && seconds >= 0;
}

bool is_cost(const CodecCost& cost) {
  return is_time(cost.start_seconds) && is_time(cost.seconds_per_byte);
}

bool are_costs(const DeviceCosts& costs) {
  return is_cost(costs.compress) && is_cost(costs.decompress);
}

bool is_link(const Link& link) {
  return is_time(link.latency_seconds) && std::isfinite(link.bytes_per_second) &&
         link.bytes_per_second > 0;
}

bool is_price(const CallPrice& call) {
  return is_time(call.exact) && is_time(call.compressed);
}

Status wrong(const std::string& what) {
  return Status(Code::kInvalidArgument, what);
}

/// Menus of a job and options that can be planned for.
Menus checked_menus(const Job& job, const std::vector<Option>& options) {
  const Status valid = check(job);
  RINGPRESS_EXPECTS(valid.is_ok(), valid.message());
  for (const Option& option : options) {
    for (const Step& step : option.steps) {
      RINGPRESS_EXPECTS(step.device == Device::kGpu, "options name no device: choices do");
    }
  }
  return Menus(job, options);
}

Plan plan_of(const Trial& trial) {
  Plan plan;
  plan.seconds = trial.seconds();
  for (std::size_t i = 0; i < trial.strategy().size(); ++i) {
    plan.choices.push_back(trial.menu(i).candidates[trial.strategy()[i]].choice);
  }
  return plan;
}

/// The plan in which every tensor takes what `choose` finds in its menu.
template <typename Choose>
Plan plan_alike(const Job& job, const std::vector<Option>& options, Choose choose) {
  const Menus menus = checked_menus(job, options);
  Plan plan;
  for (std::size_t i = 0; i < job.tensors.size(); ++i) plan.choices.push_back(choose(menus.of(i)));
  plan.seconds = predict(job, options, plan.choices).seconds;
  return plan;
}

}  // namespace

Status check(const Job& job) {
  const Cluster& cluster = job.cluster;
  const Compressor& compressor = job.compressor;
  if (cluster.machines == 0 || cluster.gpus_per_machine == 0) {
    return wrong("a cluster has at least one machine and one GPU in it");
  }
  if (!is_link(cluster.inside) || !is_link(cluster.between)) {
    return wrong("a link has a latency of at least 0 and a rate above 0");
  }
  if (!(compressor.ratio > 0 && compressor.ratio <= 1)) {
    return wrong("a ratio is above 0 and at most 1");
  }
  if (!are_costs(compressor.gpu) || (compressor.cpu && !are_costs(*compressor.cpu))) {
    return wrong("a codec takes at least 0 seconds");
  }
  if (!is_time(job.forward_seconds)) return wrong("forward takes at least 0 seconds");
  for (const Tensor& tensor : job.tensors) {
    if (tensor.bytes == 0) return wrong(tensor.name + ": a tensor has at least one byte");
    if (!is_time(tensor.backward_seconds) || !is_time(tensor.after_seconds.value_or(0))) {
      return wrong(tensor.name + ": backward takes at least 0 seconds");
    }
    if (tensor.call && !is_price(*tensor.call)) {
      return wrong(tensor.name + ": a call takes at least 0 seconds");
    }
  }
  for (const CallSeconds& call : job.calls) {
    if (!is_price({call.exact, call.compressed})) return wrong("a call takes at least 0 seconds");
  }
  return Status::ok();
}

Plan plan(const Job& job, const std::vector<Option>& options, Search kind) {
  const Menus menus = checked_menus(job, options);
  if (waits(job)) return plan_waiting(job, options);
  Trial trial(job, menus);
  search(job, kind, &trial);
  return plan_of(trial);
}

Plan plan_nothing(const Job& job, const std::vector<Option>& options) {
  return plan_alike(job, options,
                    [](const Menu& menu) { return menu.candidates[menu.plain].choice; });
}

Plan plan_everything(const Job& job, const std::vector<Option>& options) {
  return plan_alike(job, options,
                    [](const Menu& menu) { return menu.candidates[menu.quickest].choice; });
}

double free_compression_seconds(const Job& job, const std::vector<Option>& options) {
  Job free_job = job;
  free_job.compressor.gpu = DeviceCosts{};
  free_job.compressor.cpu.reset();
  // With one resource that is never idle while there is work, only the sum of the work counts.
  const auto least_wire = [](const Menu& menu) { return menu.candidates[menu.least_wire].choice; };
  return plan_alike(free_job, options, least_wire).seconds;
}

Timeline predict(const Job& job, const std::vector<Option>& options,
                 const std::vector<Choice>& choices) {
  RINGPRESS_EXPECTS(choices.size() == job.tensors.size(), "one choice a tensor");
  const Status valid = check(job);
  RINGPRESS_EXPECTS(valid.is_ok(), valid.message());
  if (waits(job)) return predict_waiting(job, options, choices);
  std::vector<Chain> chains;
  std::vector<double> compute;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const Tensor& tensor = job.tensors[i];
    chains.push_back(price(options.at(choices[i].option), choices[i].device, tensor, job));
    compute.push_back(tensor.backward_seconds);
  }
  std::vector<const Chain*> pointers;
  pointers.reserve(chains.size());
  for (const Chain& chain : chains) pointers.push_back(&chain);
  Simulation simulation(std::move(compute), job.forward_seconds);
  Timeline timeline;
  timeline.seconds = simulation.set(std::move(pointers));
  timeline.boxes = simulation.boxes();
  return timeline;
}

}  // namespace ringpress::espresso
