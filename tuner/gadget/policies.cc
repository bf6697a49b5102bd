#include "tuner/gadget/policies.h"

#include <algorithm>
#include <utility>

#include "tuner/gadget/packing.h"

namespace ringpress::gadget {
namespace {

/// Gives the jobs all their workers, one after the other; a job that does not fit reserves less if
/// it may, and gets none if it does not fit then.
void place_all(const SlotState& slot, const std::vector<std::size_t>& order, Packer* packer,
               std::vector<Ring>* rings) {
  for (const std::size_t job : order) {
    for (const bool saves : {false, true}) {
      if (saves && !slot.jobs[job].saving.has_value()) continue;
      const Demand demand = slot.jobs[job].demand_if(saves);
      std::vector<Share> shares = packer->place(demand, slot.most_workers(job));
      if (shares.empty()) continue;
      rings->push_back({job, std::move(shares), saves});
      break;
    }
  }
}

template <typename Key>
std::vector<std::size_t> sorted_by(const std::vector<std::size_t>& jobs, Key key) {
  std::vector<std::size_t> order = jobs;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  return order;
}

}  // namespace

std::size_t SlotState::most_workers(std::size_t job) const {
  return std::min(jobs[job].most_workers, most_worker_slots(jobs[job]) - worker_slots[job]);
}

std::vector<Ring> fifo(const SlotState& slot) {
  Packer packer(slot.cluster);
  std::vector<Ring> rings;
  std::vector<std::size_t> waiting = slot.active;
  for (const Ring& ring : slot.last) {
    const auto at = std::find(waiting.begin(), waiting.end(), ring.job);
    if (at == waiting.end() || ring.workers() != slot.most_workers(ring.job)) continue;
    packer.take(slot.jobs[ring.job].demand_if(ring.saves), ring.shares);
    rings.push_back(ring);
    waiting.erase(at);
  }
  const auto arrival = [&](std::size_t job) { return slot.jobs[job].arrival; };
  place_all(slot, sorted_by(waiting, arrival), &packer, &rings);
  return rings;
}

std::vector<Ring> las(const SlotState& slot) {
  const auto attained = [&](std::size_t job) {
    return slot.worker_slots[job] * slot.jobs[job].demand.worker[0];
  };
  Packer packer(slot.cluster);
  std::vector<Ring> rings;
  place_all(slot, sorted_by(slot.active, attained), &packer, &rings);
  return rings;
}

std::vector<Ring> drf(const SlotState& slot) {
  std::vector<Bid> bids;
  for (const std::size_t job : slot.active) {
    Bid bid = {slot.jobs[job].demand, {}};
    const std::optional<Saving>& saving = slot.jobs[job].saving;
    if (saving.has_value()) bid.saving = {saving->ring_bits_per_second, {}};
    bids.push_back(std::move(bid));
  }
  const std::vector<double> shares = dominant_shares(slot.cluster, bids);
  std::vector<std::size_t> open;  // Indices of bids that may still grow.
  for (std::size_t i = 0; i < bids.size(); ++i) open.push_back(i);
  Packing packing(slot.cluster, bids, /*most_placements=*/0);
  const auto share = [&](std::size_t i) {
    return shares[i] * static_cast<double>(packing.workers(i));
  };
  while (!open.empty()) {
    const auto least =
        std::min_element(open.begin(), open.end(),
                         [&](std::size_t a, std::size_t b) { return share(a) < share(b); });
    const std::size_t first = slot.jobs[slot.active[*least]].least_workers;
    const std::size_t workers = std::max(first, packing.workers(*least) + 1);
    const bool may_grow = workers <= slot.most_workers(slot.active[*least]);
    const bool may_save = bids[*least].saving.has_value();
    const bool grows = may_grow && (packing.grow(*least, {workers, /*saves=*/false}) ||
                                    (may_save && packing.grow(*least, {workers, /*saves=*/true})));
    if (!grows) open.erase(least);
  }
  std::vector<Ring> rings = packing.rings();
  for (Ring& ring : rings) ring.job = slot.active[ring.job];
  return rings;
}

}  // namespace ringpress::gadget
