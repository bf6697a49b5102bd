// Places for rings, best fit. In a tree of servers and racks a ring that visits its servers rack by
// rack crosses each uplink that it needs once in each direction: so a place is enough room on
// servers, and the ring's rate free on the uplink of each server if there are several, and of each
// rack if there are several of those.
#ifndef TUNER_GADGET_PACKER_H_
#define TUNER_GADGET_PACKER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ringpress/internal/gadget.h"

namespace ringpress::gadget {

class Packer {
 public:
  /// All of the cluster is free, which must outlive the packer.
  explicit Packer(const Cluster& cluster);

  /// Takes a place and returns it; empty if none was found. The fullest server on which all workers
  /// fit; else the rack on which they take the fewest servers, the largest first; else several
  /// racks, the emptiest first. Of these, what holds the last workers is the fullest that can.
  std::vector<Share> place(const Demand& demand, std::size_t workers);

  /// Takes the place, or gives it back.
  void take(const Demand& demand, const std::vector<Share>& shares);
  void give_back(const Demand& demand, const std::vector<Share>& shares);

  /// False if there is not even enough in all, wherever it is.
  bool may_fit(const Demand& demand, std::size_t workers) const;

 private:
  /// Servers in order of what is free of the first resource: that, shifted by 32 bits, and the
  /// server. Few bytes to move when one changes.
  using Order = std::vector<std::uint64_t>;

  /// Where workers could go within one rack.
  struct Find {
    std::vector<Share> shares;
    std::size_t workers = 0;
  };

  std::size_t workers_at(std::size_t server, const Demand& demand) const;
  bool has_uplink(std::size_t server, const Demand& demand) const {
    return links_[server] >= demand.ring_bits_per_second;
  }
  std::vector<Share> one_server(const Demand& demand, std::size_t workers) const;
  Find in_rack(std::size_t rack, const Demand& demand, std::size_t workers) const;
  /// The server with the least room that has enough, and an uplink. There must be one.
  Share fullest_for(std::size_t rack, const Demand& demand, std::size_t workers) const;
  std::vector<Share> one_rack(const Demand& demand, std::size_t workers) const;
  std::vector<Share> several_racks(const Demand& demand, std::size_t workers) const;
  bool spans_racks(const std::vector<Share>& shares) const;
  void change(const Demand& demand, const std::vector<Share>& shares, bool takes);
  void set_free(std::size_t server, const Amounts& amounts);

  const Cluster* cluster_;
  std::vector<Amounts> free_;              // Of each server.
  std::vector<std::uint64_t> links_;       // Bits per second that are free, of each server.
  std::vector<std::uint64_t> rack_links_;  // And of each rack.
  Amounts total_ = {};
  Order order_;
  std::vector<Order> rack_orders_;
};

}  // namespace ringpress::gadget

#endif  // TUNER_GADGET_PACKER_H_
