#include "perf/accuracy/projected_simulation.h"

#include "perf/accuracy/local_agreement.h"

namespace ringpress::perf {
namespace {

/// What the ranks hold in one call, by round and rank.
struct Rounds {
  std::vector<RankTensors> own;
  std::vector<RankTensors> summed;
  std::vector<RankTensors> dropped;
};

std::vector<float*> pointers_of(std::vector<RankTensors>& rounds, std::size_t rank) {
  std::vector<float*> pointers;
  for (RankTensors& round : rounds) pointers.push_back(round[rank].data());
  return pointers;
}

}  // namespace

ProjectedSimulation::ProjectedSimulation(const Codec& codec, const RankTensors& inputs,
                                         bool error_feedback)
    : codec_(codec),
      projection_(*codec.projection()),
      inputs_(inputs),
      shape_{inputs[0].size(), {}},
      residuals_(error_feedback ? inputs.size() : 0, std::vector<float>(inputs[0].size())),
      states_(inputs.size(), std::vector<float>(projection_.state_count(shape_))) {}

ProjectArgs ProjectedSimulation::arguments(std::size_t rank, std::uint64_t number) {
  ProjectArgs args;
  args.shape = shape_;
  args.values = inputs_[rank].data();
  args.residual = residuals_.empty() ? nullptr : residuals_[rank].data();
  args.step = args.turn = number;
  args.state = states_[rank].data();
  args.state_is_warm = is_warm_;
  return args;
}

std::vector<float> ProjectedSimulation::sum(const RankTensors& projected, RankTensors* dropped) {
  const Codec& inner = projection_.inner();
  const std::size_t count = projected[0].size();
  const std::size_t ranks = projected.size();
  const bool feeds_back = !residuals_.empty() && !inner.traits().lossless;
  std::vector<RankValues> values;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    values.push_back({projected[rank].data(), feeds_back ? (*dropped)[rank].data() : nullptr});
  }
  // All ranks agree on the same: those that would not take no part in projections.
  const auto tensor = LocalAgreement::of_tensor(inner, values, 0, count);
  const auto chunk = LocalAgreement::of_chunk(inner, values, count, tensor);
  std::vector<std::vector<std::byte>> wires;
  std::vector<const std::byte*> pointers;
  std::vector<std::size_t> sizes;
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    std::vector<std::byte> wire(inner.wire_bytes(count, {1, ranks}));
    EncodeArgs args;
    args.values = projected[rank].data();
    args.count = count;
    args.residual = feeds_back ? (*dropped)[rank].data() : nullptr;
    args.wire = wire.data();
    args.form = {1, ranks};
    args.agreed = LocalAgreement::agreed(tensor, chunk);
    args.random = {0, step_, static_cast<std::uint32_t>(rank), 0};
    wire.resize(inner.encode(args));
    sent_bytes_ += wire.size();
    sizes.push_back(wire.size());
    wires.push_back(std::move(wire));
  }
  for (const auto& wire : wires) pointers.push_back(wire.data());
  std::vector<std::byte> wire(inner.wire_bytes(count, {ranks, ranks}));
  std::vector<float> result(count);
  DecodeAddEncodeArgs args;
  args.wires = pointers;
  args.wire_sizes = sizes;
  args.values = projected[0].data();
  args.count = count;
  args.residual = feeds_back ? (*dropped)[0].data() : nullptr;
  args.wire = wire.data();
  args.decoded = result.data();
  args.form = {ranks, ranks};
  args.agreed = LocalAgreement::agreed(tensor, chunk);
  args.random = {0, step_, 0, 0};
  sent_bytes_ += (ranks - 1) * inner.decode_add_encode(args);
  return result;
}

std::vector<float> ProjectedSimulation::step(std::uint64_t number) {
  step_ = number;
  Rounds rounds;
  for (int round = 0; round < projection_.rounds(); ++round) {
    const RankTensors zeros(inputs_.size(),
                            std::vector<float>(projection_.projected_count(round, shape_)));
    for (auto* tensors : {&rounds.own, &rounds.summed, &rounds.dropped}) tensors->push_back(zeros);
    for (std::size_t rank = 0; rank < inputs_.size(); ++rank) {
      ProjectArgs args = arguments(rank, number);
      const auto own = pointers_of(rounds.own, rank);
      const auto summed = pointers_of(rounds.summed, rank);
      args.own = own;
      args.summed = summed;
      projection_.project(round, args);
    }
    const auto index = static_cast<std::size_t>(round);
    const std::vector<float> total = sum(rounds.own[index], &rounds.dropped[index]);
    for (auto& tensor : rounds.summed[index]) tensor = total;
  }
  std::vector<float> result(shape_.count);
  for (std::size_t rank = 0; rank < inputs_.size(); ++rank) {
    ProjectArgs args = arguments(rank, number);
    const auto own = pointers_of(rounds.own, rank);
    const auto summed = pointers_of(rounds.summed, rank);
    const auto dropped = pointers_of(rounds.dropped, rank);
    args.own = own;
    args.summed = summed;
    if (!projection_.inner().traits().lossless) args.dropped = dropped;
    args.result = result.data();
    projection_.finish(args);
  }
  is_warm_ = true;
  return result;
}

}  // namespace ringpress::perf
