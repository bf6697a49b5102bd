// Suggestions for names that a person mistyped.
#ifndef RINGPRESS_INTERNAL_NAMES_H_
#define RINGPRESS_INTERNAL_NAMES_H_

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringpress {

/// Edits (insert, delete or replace one character, or swap two neighbours) that turn `a` into `b`.
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, above, row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(above, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replace});
      const bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

/// How far the characters of two words are apart, place by place: q9 is nearer to q8 than to q1.
inline int character_distance(std::string_view a, std::string_view b) {
  int distance = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) distance += std::abs(a[i] - b[i]);
  return distance;
}

/// What all of several words begin with.
inline std::string_view common_beginning(const std::vector<std::string_view>& words) {
  if (words.size() < 2) return {};
  std::string_view common = words[0];
  for (const std::string_view word : words) {
    while (!word.starts_with(common)) common.remove_suffix(1);
  }
  return common;
}

/// In small letters.
inline std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

/// The candidate that `word` may be a slip of: the one with the fewest edits, of equals the one
/// with the nearest characters, if there are no more than one edit, or one for every three
/// characters, and something is left as it was. Else the shortest whose first words, up to a `_`,
/// it is; else empty. What all candidates begin with does not count, nor do capitals; of a word
/// longer than 256 characters the beginning does.
inline std::string_view near_name(std::string_view word,
                                  const std::vector<std::string_view>& candidates) {
  const std::string common = lower_case(common_beginning(candidates));
  std::string own = lower_case(word.substr(0, 256));
  const std::size_t same = own.starts_with(common) ? common.size() : 0;
  own.erase(0, same);
  std::string_view nearest;
  std::pair<std::size_t, int> smallest(static_cast<std::size_t>(-1), 0);
  for (const std::string_view candidate : candidates) {
    const std::string other = lower_case(candidate).substr(same);
    const std::pair distance(edit_distance(own, other), character_distance(own, other));
    const std::size_t longer = std::max(own.size(), other.size());
    const bool is_near = distance.first <= longer / 3 || (distance.first == 1 && longer > 1);
    if (is_near && distance < smallest) {
      smallest = distance;
      nearest = candidate;
    }
  }
  if (!nearest.empty() || own.empty()) return nearest;
  for (const std::string_view candidate : candidates) {
    if (!lower_case(candidate).substr(same).starts_with(own + "_")) continue;
    if (nearest.empty() || candidate.size() < nearest.size()) nearest = candidate;
  }
  return nearest;
}

/// " (maybe NAME?)", to follow what is said of a word that is no candidate; nothing if none is
/// near.
inline std::string maybe_name(std::string_view word,
                              const std::vector<std::string_view>& candidates) {
  const std::string_view meant = near_name(word, candidates);
  return meant.empty() ? std::string() : " (maybe " + std::string(meant) + "?)";
}

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_NAMES_H_
