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
  /// Compresses and still takes no less of any resource than the same tensor uncompressed: at best
  /// it makes way for others.
  bool only_makes_way = false;
  Chain chain;
  double before_sending = 0;  // Seconds of codecs before the first byte is sent ...
  double after_sending = 0;   // ... and after the last one.
};

/// What such a tensor could do: first what is worth a try in a large job, those of the GPU before
/// those of the CPU. An option is not if another one takes no more of any resource, nor before the
/// first byte is sent or after the last, but for `quickest`. In a small job all the rest follows:
/// where resources are queues, more work in another order may still make the step shorter.
struct Menu {
  std::vector<Candidate> candidates;
  std::size_t on_gpu = 0;             // How many are worth a try with codecs on the GPU, if any.
  std::size_t worth = 0;              // ... and with those on the CPU.
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
