// The decision tree as a grammar. A rule is a list of paths; the rules below are those of the paper
// as a table of productions, where U and C say whether what a rule is given is compressed:
//
//   T1 = second step inside, U in    : Comm2 | Comp Comm2c Dec
//   T2 = second step inside, C in    : Comm2c Dec | Dec T1
//   T5 = second step between, U in   : Comm2 T1 | Comp Comm2c T2
//   T3 = between and the rest, U in  : Comm T1 | Comm1[pair] T5
//   T4 = between and the rest, C in  : Commc T2 | Comm1c[pair] ( Comm2c T2 | Dec T5 )
//   flat : Comm | Comm1[pair] T1 | Comp ( Commc Dec | Comm1c[pair] T2 )
//   hier : Comm1[pair] ( T3 | Comp T4 ) | Comp Comm1c[pair] ( T4 | Dec ( T3 | Comp T4 ) )
//
// Comm is a collective in one, Comm1 and Comm2 are the halves of one that has two, c: of compressed
// values. A pair is of scattering or of rooted collectives; both halves are of one pair.
#include <utility>

#include "ringpress/internal/espresso.h"

namespace ringpress::espresso {
namespace {

using Path = std::vector<Step>;
using Paths = std::vector<Path>;

enum class Pair { kScatter, kRooted };
constexpr Pair kPairs[] = {Pair::kScatter, Pair::kRooted};

/// Every path of `first`, then every one of `rest`.
Paths then(const Paths& first, const Paths& rest) {
  Paths all;
  all.reserve(first.size() * rest.size());
  for (const Path& begin : first) {
    for (const Path& end : rest) {
      Path& path = all.emplace_back(begin);
      path.insert(path.end(), end.begin(), end.end());
    }
  }
  return all;
}

Paths either(Paths all, const Paths& others) {
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

Paths collective(Operation operation, Phase phase, bool compressed, bool second = false) {
  return {{Step{operation, phase, compressed, second, Device::kGpu}}};
}

/// Comm and Commc.
Paths in_one(Phase phase, bool compressed) {
  return collective(compressed ? Operation::kAllGather : Operation::kAllReduce, phase, compressed);
}

/// Comm1 and Comm1c.
Paths first_half(Pair pair, Phase phase, bool compressed) {
  if (pair == Pair::kScatter) {
    return collective(compressed ? Operation::kAllToAll : Operation::kReduceScatter, phase,
                      compressed);
  }
  return collective(compressed ? Operation::kGather : Operation::kReduce, phase, compressed);
}

/// Comm2 and Comm2c.
Paths second_half(Pair pair, Phase phase, bool compressed) {
  return collective(pair == Pair::kScatter ? Operation::kAllGather : Operation::kBroadcast, phase,
                    compressed, true);
}

class Tree {
 public:
  explicit Tree(bool with_cpu) : with_cpu_(with_cpu) {}

  Paths flat() const {
    const Phase phase = Phase::kFlat;
    Paths compressed = then(in_one(phase, true), decompress(phase));
    Paths all = in_one(phase, false);
    for (const Pair pair : kPairs) {
      all = either(all, then(first_half(pair, phase, false), t1(pair, phase)));
      compressed = either(compressed, then(first_half(pair, phase, true), t2(pair, phase)));
    }
    return either(all, then(compress(phase), compressed));
  }

  Paths hier() const {
    const Phase phase = Phase::kInside;
    Paths all;
    for (const Pair inside : kPairs) {
      const Paths raw = either(t3(inside), then(compress(Phase::kBetween), t4(inside)));
      all = either(all, then(first_half(inside, phase, false), raw));
      const Paths rest = either(t4(inside), then(decompress(phase), raw));
      all = either(all, then(compress(phase), then(first_half(inside, phase, true), rest)));
    }
    return all;
  }

 private:
  Paths on_each_device(Operation operation, Phase phase) const {
    Paths all = {{Step{operation, phase, false, false, Device::kGpu}}};
    if (with_cpu_) all.push_back({Step{operation, phase, false, false, Device::kCpu}});
    return all;
  }
  Paths compress(Phase phase) const { return on_each_device(Operation::kCompress, phase); }
  Paths decompress(Phase phase) const { return on_each_device(Operation::kDecompress, phase); }

  Paths t1(Pair pair, Phase phase) const {
    return either(second_half(pair, phase, false),
                  then(compress(phase), then(second_half(pair, phase, true), decompress(phase))));
  }
  Paths t2(Pair pair, Phase phase) const {
    return either(then(second_half(pair, phase, true), decompress(phase)),
                  then(decompress(phase), t1(pair, phase)));
  }
  Paths t5(Pair inside, Pair between) const {
    const Phase phase = Phase::kBetween;
    return either(
        then(second_half(between, phase, false), t1(inside, Phase::kInside)),
        then(compress(phase), then(second_half(between, phase, true), t2(inside, Phase::kInside))));
  }
  Paths t3(Pair inside) const {
    Paths all = then(in_one(Phase::kBetween, false), t1(inside, Phase::kInside));
    for (const Pair between : kPairs) {
      all = either(all, then(first_half(between, Phase::kBetween, false), t5(inside, between)));
    }
    return all;
  }
  Paths t4(Pair inside) const {
    const Phase phase = Phase::kBetween;
    const Paths after = t2(inside, Phase::kInside);
    Paths all = then(in_one(phase, true), after);
    for (const Pair between : kPairs) {
      const Paths rest = either(then(second_half(between, phase, true), after),
                                then(decompress(phase), t5(inside, between)));
      all = either(all, then(first_half(between, phase, true), rest));
    }
    return all;
  }

  bool with_cpu_;
};

const char* operation_name(Operation operation) {
  switch (operation) {
    case Operation::kCompress:
      return "compress";
    case Operation::kDecompress:
      return "decompress";
    case Operation::kRecode:
      return "recode";
    case Operation::kAllReduce:
      return "allreduce";
    case Operation::kTree:
      return "tree";
    case Operation::kReduceScatter:
      return "reducescatter";
    case Operation::kAllToAll:
      return "alltoall";
    case Operation::kAllGather:
      return "allgather";
    case Operation::kSendToAll:
      return "sendtoall";
    case Operation::kReduce:
      return "reduce";
    case Operation::kGather:
      return "gather";
    case Operation::kBroadcast:
      return "broadcast";
    case Operation::kCall:
      return "call";
  }
  return "unknown";
}

const char* phase_name(Phase phase) {
  switch (phase) {
    case Phase::kFlat:
      return "all";
    case Phase::kInside:
      return "inside";
    case Phase::kBetween:
      return "between";
  }
  return "unknown";
}

/// As "compress, alltoall(all), decompress".
std::string name_of(const Path& path) {
  std::string name;
  for (const Step& step : path) {
    if (!name.empty()) name += ", ";
    name += operation_name(step.operation);
    if (!is_codec(step.operation)) name.append("(").append(phase_name(step.phase)).append(")");
    if (step.device == Device::kCpu) name += "@cpu";
  }
  return name;
}

Step codec(Operation operation, Phase phase) {
  return {operation, phase, false, false, Device::kGpu};
}

/// Scatter-reduce-allgather of compressed values.
Path sra(Phase phase) {
  return {codec(Operation::kCompress, phase),
          {Operation::kAllToAll, phase, true, false, Device::kGpu},
          codec(Operation::kDecompress, phase),
          codec(Operation::kCompress, phase),
          {Operation::kSendToAll, phase, true, true, Device::kGpu},
          codec(Operation::kDecompress, phase)};
}

/// Sums inside machines, then between them, and back.
Path exact_hier(Pair inside, Operation between) {
  Path path = first_half(inside, Phase::kInside, false)[0];
  path.push_back({between, Phase::kBetween, false, false, Device::kGpu});
  path.push_back(second_half(inside, Phase::kInside, false)[0][0]);
  return path;
}

}  // namespace

bool is_codec(Operation operation) {
  switch (operation) {
    case Operation::kCompress:
    case Operation::kDecompress:
    case Operation::kRecode:
      return true;
    case Operation::kAllReduce:
    case Operation::kTree:
    case Operation::kReduceScatter:
    case Operation::kAllToAll:
    case Operation::kAllGather:
    case Operation::kSendToAll:
    case Operation::kReduce:
    case Operation::kGather:
    case Operation::kBroadcast:
    case Operation::kCall:
      return false;
  }
  return false;
}

bool Option::compresses() const {
  for (const Step& step : steps) {
    if (is_codec(step.operation)) return true;
    if (step.operation == Operation::kCall && step.compressed) return true;
  }
  return false;
}

std::vector<Option> tree_options(bool with_cpu) {
  const Tree tree(with_cpu);
  std::vector<Option> options;
  for (Path& path : either(tree.flat(), tree.hier())) {
    std::string name = name_of(path);
    options.push_back({std::move(name), std::move(path)});
  }
  return options;
}

std::vector<Option> exchange_options() {
  std::vector<Path> paths = {{{Operation::kAllGather, Phase::kFlat, false, false, Device::kGpu}}};
  for (const Pair inside : kPairs) paths.push_back(exact_hier(inside, Operation::kAllGather));
  std::vector<Option> options;
  for (Path& path : paths) {
    std::string name = name_of(path);
    options.push_back({std::move(name), std::move(path)});
  }
  return options;
}

std::vector<Option> engine_options(const Cluster& cluster) {
  const Phase all = Phase::kFlat;
  std::vector<Option> options = {
      {"none", {{Operation::kAllReduce, all, false, false, Device::kGpu}}},
      {"none, in a tree", {{Operation::kTree, all, false, false, Device::kGpu}}},
      {"sra", sra(all)},
      {"ring",
       {codec(Operation::kRecode, all),
        {Operation::kReduceScatter, all, true, false, Device::kGpu},
        {Operation::kAllGather, all, true, true, Device::kGpu},
        codec(Operation::kDecompress, all)}},
  };
  if (cluster.machines < 2 || cluster.gpus_per_machine < 2) return options;
  Path hier = {{Operation::kReduceScatter, Phase::kInside, false, false, Device::kGpu}};
  for (const Step& step : sra(Phase::kBetween)) hier.push_back(step);
  hier.push_back({Operation::kAllGather, Phase::kInside, false, true, Device::kGpu});
  options.push_back({"hier", std::move(hier)});
  for (const Operation between : {Operation::kAllReduce, Operation::kTree}) {
    const char* const tree = between == Operation::kTree ? ", in a tree" : "";
    options.push_back({std::string("none, hier") + tree, exact_hier(Pair::kScatter, between)});
  }
  return options;
}

std::vector<Option> call_options() {
  return {{"none", {{Operation::kCall, Phase::kFlat, false, false, Device::kGpu}}},
          {"compressed", {{Operation::kCall, Phase::kFlat, true, false, Device::kGpu}}}};
}

}  // namespace ringpress::espresso
