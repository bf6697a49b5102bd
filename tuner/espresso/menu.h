// What the tensors of a job could do, priced once for all of one size and one price of a call.
#ifndef TUNER_ESPRESSO_MENU_H_
#define TUNER_ESPRESSO_MENU_H_

#include <cstddef>
#include <vector>

#include "tuner/espresso/cost.h"

namespace ringpress::espresso {

/// One thing that a tensor could do.
struct Candidate {
  Choice choice;
  bool compresses = false;
  /// Compresses and still takes no less of any lane than the same tensor uncompressed: at best it
  /// makes way for others.
  bool only_makes_way = false;
  Chain chain;
};

/// What such a tensor could do. An option is left out if another one takes no more of any
/// lane, but for `quickest`.
struct Menu {
  std::vector<Candidate> candidates;  // Those of the GPU first.
  std::size_t on_gpu = 0;             // How many of them have no codec on the CPU.
  std::size_t plain = 0;              // Does not compress, with the least time on the wire.
  std::size_t quickest = 0;           // Compresses, on the GPU, with the least time alone.
  std::size_t least_wire = 0;         // Compresses or not, has the least time on the wire.
  std::vector<std::size_t> cpu_twin;  // Of each candidate: the same on the CPU, or itself.
};

/// The menus of all distinct sizes and prices, and which one each tensor has.
struct Menus {
  Menus(const Job& job, const std::vector<Option>& options);

  const Menu& of(std::size_t tensor) const { return menus[menu_of[tensor]]; }

  std::vector<Menu> menus;
  std::vector<std::size_t> menu_of;
};

}  // namespace ringpress::espresso

#endif  // TUNER_ESPRESSO_MENU_H_
