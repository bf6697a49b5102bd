// Placements for several rings at once, by trying one after the other and going back: finds
// placements that packing in one go (packer.h) does not, and can tell that there are none. For few
// rings and servers.
#ifndef TUNER_GADGET_PLACEMENT_SEARCH_H_
#define TUNER_GADGET_PLACEMENT_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "ringpress/internal/gadget.h"

namespace ringpress::gadget {

/// What is left of a cluster.
struct Free {
  explicit Free(const Cluster& cluster);

  std::vector<Amounts> servers;
  std::vector<std::uint64_t> links;       // Of servers: bits per second.
  std::vector<std::uint64_t> rack_links;  // Of racks.
};

/// Takes the ring's placement, or gives it back.
void take(const Cluster& cluster, const Demand& demand, const std::vector<Share>& shares,
          Free* free);
void give_back(const Cluster& cluster, const Demand& demand, const std::vector<Share>& shares,
               Free* free);

/// A ring that wants a placement.
struct Wanted {
  Demand demand;
  std::size_t workers = 0;  // At least 1.
};

class PlacementSearch {
 public:
  /// `cluster` must outlive the search.
  explicit PlacementSearch(const Cluster& cluster) : cluster_(cluster), free_(cluster) {}

  enum class Answer { kFound, kNone, kUnknown };

  /// Placements for all of them within what is free, the first ones tried first. `steps`: that may
  /// be taken, and are taken off; kUnknown: they were not enough. Placements: as many as are
  /// wanted, in their order.
  Answer find(const Free& free, const std::vector<Wanted>& wanted, std::size_t* steps,
              std::vector<std::vector<Share>>* placements);

 private:
  /// A server that could have workers of a ring that spans several.
  struct Host {
    std::size_t server = 0;
    std::size_t room = 0;  // Workers.
  };

  bool place_from(std::size_t item);
  bool on_one_server(std::size_t item);
  bool on_several(std::size_t item);
  bool spread(std::size_t item, const std::vector<Host>& hosts, std::size_t at, std::size_t left);
  bool take_and_go_on(std::size_t item, const std::vector<Share>& shares);
  std::vector<Host> hosts_for(const Demand& demand) const;
  std::size_t most_at(const std::vector<Host>& hosts, std::size_t at, std::size_t left) const;
  bool may_cross(const Demand& demand, std::size_t server) const;
  bool has_room_from(std::size_t item) const;
  std::size_t room_at(std::size_t server, const Demand& demand) const;
  bool are_equal(std::size_t server, std::size_t other) const;
  std::uint64_t state_of(std::size_t item) const;
  bool may_step();

  const Cluster& cluster_;
  Free free_;
  std::vector<Wanted> wanted_;
  std::vector<std::vector<Share>> placements_;
  std::vector<Share> shares_;  // Of the ring that is being spread.
  std::size_t* steps_ = nullptr;
  bool has_given_up_ = false;
  std::unordered_set<std::uint64_t> failed_;  // States from which the rest has no placement.
};

}  // namespace ringpress::gadget

#endif  // TUNER_GADGET_PLACEMENT_SEARCH_H_
