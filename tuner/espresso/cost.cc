#include "tuner/espresso/cost.h"

#include <algorithm>
#include <cmath>

namespace ringpress::espresso {
namespace {

/// What a rank holds between two steps.
struct Holding {
  double bytes;       // Of uncompressed values.
  double senders;     // GPUs of a machine that hold some.
  double copies = 1;  // Compressed ones that are not added yet.
};

class Pricer {
 public:
  Pricer(const Job& job, Device device, const Tensor& tensor)
      : job_(job),
        tensor_(tensor),
        holding_{static_cast<double>(tensor.bytes),
                 static_cast<double>(job.cluster.gpus_per_machine)} {
    const bool on_cpu = device == Device::kCpu;
    RINGPRESS_EXPECTS(!on_cpu || job.compressor.cpu, "the job has no codec on the CPU");
    resource_ = on_cpu ? Resource::kCpu : Resource::kGpu;
    costs_ = on_cpu ? &*job.compressor.cpu : &job.compressor.gpu;
  }

  Resource resource(Operation operation) const {
    return is_codec(operation) ? resource_ : Resource::kWire;
  }

  /// The time of a step, after which the rank holds what the step leaves.
  double seconds(const Step& step) {
    switch (step.operation) {
      case Operation::kCompress:
        return codec_seconds(costs_->compress, holding_.bytes);
      case Operation::kDecompress:
        return decompress();
      case Operation::kRecode:
        return recode(network_of(job_.cluster, step.phase).ranks);
      case Operation::kCall:
        return step.compressed ? call().compressed : call().exact;
      default:
        return collective(step);
    }
  }

 private:
  CallPrice call() const {
    if (tensor_.call) return *tensor_.call;
    for (const CallSeconds& seconds : job_.calls) {
      if (seconds.bytes == tensor_.bytes) return {seconds.exact, seconds.compressed};
    }
    RINGPRESS_EXPECTS(false, "the job has no price for a call of this size");
    return {};
  }

  double decompress() {
    const double bytes = holding_.bytes * holding_.copies;
    holding_.copies = 1;
    return codec_seconds(costs_->decompress, bytes);
  }

  /// p parts are encoded, and p - 1 decoded and added, in 2 p - 1 launches.
  double recode(double ranks) const {
    const double part = holding_.bytes / ranks;
    return ranks * codec_seconds(costs_->compress, part) +
           (ranks - 1) * codec_seconds(costs_->decompress, part);
  }

  /// Between machines all GPUs of a machine share its card, or a root has it alone.
  Network shared_network(const Step& step) const {
    Network network = network_of(job_.cluster, step.phase);
    const bool straight =
        step.operation == Operation::kAllToAll || step.operation == Operation::kSendToAll;
    if (step.phase == Phase::kBetween) {
      network.bytes_per_second /= holding_.senders;
    } else if (step.phase == Phase::kFlat && straight) {
      network.bytes_per_second /= card_load(job_.cluster);
    }
    return network;
  }

  void leave_to_root(const Step& step) {
    if (step.phase == Phase::kInside) holding_.senders = 1;
  }

  double collective(const Step& step) {
    const Network network = shared_network(step);
    const double wire =
        step.compressed ? job_.compressor.ratio * holding_.copies * holding_.bytes : holding_.bytes;
    switch (step.operation) {
      case Operation::kAllReduce:
        return ring_all_reduce_seconds(network, wire);
      case Operation::kTree:
        if (step.phase != Phase::kFlat) return 2 * tree_seconds(network, wire);
        return 2 * (tree_seconds(network_of(job_.cluster, Phase::kInside), wire) +
                    tree_seconds(network_of(job_.cluster, Phase::kBetween), wire));
      case Operation::kReduceScatter:
        holding_.bytes /= network.ranks;
        return scatter_seconds(network, wire);
      case Operation::kAllToAll:
        holding_.bytes /= network.ranks;
        holding_.copies *= network.ranks;
        return scatter_seconds(network, wire);
      case Operation::kAllGather:
        if (!step.second) {
          // Values are added as they come, codes are kept until they are decompressed.
          if (step.compressed) holding_.copies *= network.ranks;
          return gather_whole_seconds(network, wire);
        }
        [[fallthrough]];
      case Operation::kSendToAll:
        holding_.bytes *= network.ranks;
        return scatter_seconds(network, wire * network.ranks);
      case Operation::kReduce:
        leave_to_root(step);
        return tree_seconds(network, wire);
      case Operation::kBroadcast:
        return tree_seconds(network, wire);
      case Operation::kGather:
        leave_to_root(step);
        holding_.copies *= network.ranks;
        return gather_whole_seconds(network, wire);
      case Operation::kCompress:
      case Operation::kDecompress:
      case Operation::kRecode:
      case Operation::kCall:
        break;
    }
    RINGPRESS_EXPECTS(false, "not a collective");
    return 0;
  }

  const Job& job_;
  const Tensor& tensor_;
  const DeviceCosts* costs_ = nullptr;
  Resource resource_ = Resource::kGpu;
  Holding holding_;
};

}  // namespace

double ring_all_reduce_seconds(const Network& network, double bytes) {
  return 2 * scatter_seconds(network, bytes);
}

double scatter_seconds(const Network& network, double bytes) {
  const double others = network.ranks - 1;
  return others * network.latency_seconds +
         others / network.ranks * bytes / network.bytes_per_second;
}

double gather_whole_seconds(const Network& network, double bytes) {
  return (network.ranks - 1) * (network.latency_seconds + bytes / network.bytes_per_second);
}

double tree_seconds(const Network& network, double bytes) {
  if (network.ranks <= 1) return 0;
  return std::log2(network.ranks) * network.latency_seconds + bytes / network.bytes_per_second;
}

double codec_seconds(const CodecCost& cost, double bytes) {
  return cost.start_seconds + cost.seconds_per_byte * bytes;
}

Network network_of(const Cluster& cluster, Phase phase) {
  const auto machines = static_cast<double>(cluster.machines);
  const auto gpus = static_cast<double>(cluster.gpus_per_machine);
  const Link& inside = cluster.inside;
  const Link& between = cluster.between;
  switch (phase) {
    case Phase::kInside:
      return {gpus, inside.latency_seconds, inside.bytes_per_second};
    case Phase::kBetween:
      return {machines, between.latency_seconds, between.bytes_per_second};
    case Phase::kFlat:
      break;
  }
  if (cluster.machines == 1) return network_of(cluster, Phase::kInside);
  if (cluster.gpus_per_machine == 1) return network_of(cluster, Phase::kBetween);
  return {machines * gpus, std::max(inside.latency_seconds, between.latency_seconds),
          std::min(inside.bytes_per_second, between.bytes_per_second)};
}

double card_load(const Cluster& cluster) {
  if (cluster.machines == 1) return 1;
  const auto gpus = static_cast<double>(cluster.gpus_per_machine);
  const double ranks = static_cast<double>(cluster.machines) * gpus;
  return (ranks - gpus) / (ranks - 1) * gpus;
}

Chain price(const Option& option, Device device, const Tensor& tensor, const Job& job) {
  Pricer pricer(job, option.compresses() ? device : Device::kGpu, tensor);
  Chain chain;
  for (std::size_t i = 0; i < option.steps.size(); ++i) {
    const double seconds = pricer.seconds(option.steps[i]);
    if (seconds <= 0) continue;
    const Resource resource = pricer.resource(option.steps[i].operation);
    chain.tasks.push_back({resource, seconds, i});
    chain.seconds[static_cast<std::size_t>(resource)] += seconds;
  }
  chain.tasks.push_back({Resource::kCompute, 0, option.steps.size()});
  return chain;
}

}  // namespace ringpress::espresso
