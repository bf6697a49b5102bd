// Suggestions for names that a person mistyped.
#ifndef RINGPRESS_INTERNAL_NAMES_H_
#define RINGPRESS_INTERNAL_NAMES_H_

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

namespace ringpress {

/// Edits (insert, delete, replace one character) that turn `a` into `b`.
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
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

/// The candidate with the fewest edits to `word`, of equals the one with the nearest characters;
/// empty if there is none. Words longer than 256 characters are compared by their beginning.
inline std::string_view nearest_name(std::string_view word,
                                     const std::vector<std::string_view>& candidates) {
  const std::string_view beginning = word.substr(0, 256);
  std::string_view nearest;
  std::pair<std::size_t, int> smallest(static_cast<std::size_t>(-1), 0);
  for (const std::string_view candidate : candidates) {
    const std::pair distance(edit_distance(beginning, candidate),
                             character_distance(beginning, candidate));
    if (distance < smallest) {
      smallest = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_NAMES_H_
