// The user's own rules for which codec and algorithm a call gets (RINGPRESS_RULES).
#ifndef RINGPRESS_INTERNAL_RULES_H_
#define RINGPRESS_INTERNAL_RULES_H_

#include <cstddef>
#include <limits>
#include <optional>
#include <string>

#include "ringpress/internal/decision.h"
#include "ringpress/internal/types.h"

namespace ringpress {

/// A line of the file: which calls it is for, and what they get. Of the rules that match a call the
/// first one holds.
struct Rule {
  std::size_t line = 0;  // From 1 on.
  std::optional<CollectiveKind> kind;
  std::size_t min_bytes = 0;  // Of the whole tensor; both are included.
  std::size_t max_bytes = std::numeric_limits<std::size_t>::max();
  int nodes = -1;  // -1: any, and so for
  int ranks = -1;
  std::string comm_match;  // The communicator's name: * stands for any text, ? for a character.
                           // Empty: any, and none.
  std::optional<DType> dtype;
  std::string codec;  // "none": exact. Empty: as without the rule.
  std::optional<Algorithm> algorithm;

  /// Where a rule's condition is about what is not known, it is taken to hold for these alone: a
  /// call that is exact is never wrong.
  bool denies() const { return is_no_codec(codec); }
};

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_RULES_H_
