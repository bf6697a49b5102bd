// Files that say which host hangs from what: parse_host_map() has the forms.
#include <cctype>
#include <cstdint>
#include <set>

#include "ringpress/internal/hash.h"
#include "ringpress/internal/names.h"
#include "ringpress/internal/ring_order.h"

namespace ringpress {
namespace {

constexpr std::size_t kMostHosts = 65536;

Status mistake(std::size_t line, const std::string& what) {
  return Status(Code::kInvalidArgument, std::to_string(line) + ": " + what);
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words(1);
  for (const char c : line.substr(0, line.find('#'))) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

/// A whole number below 2^31, or -1.
long number_of(const std::string& text) {
  const bool is_number = !text.empty() && text.size() < 10 &&
                         text.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? std::atol(text.c_str()) : -1;
}

/// Parts between commas that are not in brackets.
std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : list) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

/// "08-10": 08, 09, 10. False: no range.
bool expand_range(const std::string& range, std::vector<std::string>* numbers) {
  const std::size_t dash = std::min(range.find('-'), range.size());
  const std::string first = range.substr(0, dash);
  const long least = number_of(first);
  const long most = dash == range.size() ? least : number_of(range.substr(dash + 1));
  if (least < 0 || most < least || most - least >= static_cast<long>(kMostHosts)) return false;
  for (long number = least; number <= most; ++number) {
    std::string text = std::to_string(number);
    if (text.size() < first.size()) text.insert(0, first.size() - text.size(), '0');
    numbers->push_back(text);
  }
  return true;
}

/// "r[0-1]n[00-03]": the names. False: not such a list, or too long a one.
bool expand_name(const std::string& name, std::vector<std::string>* names) {
  const std::size_t open = name.find('[');
  const std::size_t close = name.find(']');
  if (open == std::string::npos && close == std::string::npos) {
    names->push_back(name);
    return !name.empty() && names->size() <= kMostHosts;
  }
  if (close == std::string::npos || open > close) return false;
  std::vector<std::string> numbers;
  for (const std::string& range : parts_of(name.substr(open + 1, close - open - 1))) {
    if (!expand_range(range, &numbers)) return false;
  }
  for (const std::string& number : numbers) {
    if (!expand_name(name.substr(0, open) + number + name.substr(close + 1), names)) return false;
  }
  return true;
}

class Reader {
 public:
  Result<HostMap> read(std::string_view text) {
    while (!text.empty() && status_.is_ok()) {
      ++line_;
      const std::size_t end = std::min(text.find('\n'), text.size());
      const std::vector<std::string> words = words_of(text.substr(0, end));
      if (!words.empty()) read_line(words);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    place_ranks();
    if (!status_.is_ok()) return status_;
    if (map_.above.empty()) return mistake(std::max<std::size_t>(1, line_), "names no host");
    return map_;
  }

 private:
  void read_line(const std::vector<std::string>& words) {
    if (words[0].starts_with("SwitchName=")) return read_switch(words);
    if (words[0] == "rank" && words.size() > 1) return read_rank(words[1]);
    const bool has_slots =
        words.size() > 1 && (words[1].starts_with("slots=") || words[1].starts_with("max_slots=") ||
                             words[1].starts_with("max-slots="));
    if (words.size() == 1 || has_slots) return read_hosts(words[0]);
    if (words.size() == 2) return hang_list(words[0], words[1]);
    fail("must be a name and what it hangs from, not " + std::to_string(words.size()) + " words");
  }

  /// "node[0-3],gpu1", "node0:4".
  void read_hosts(const std::string& list) {
    for (const std::string& part : parts_of(list)) {
      hang_all(part.substr(0, part.find(':')), "");
    }
  }

  /// "rank 0=node0 slot=0".
  void read_rank(const std::string& word) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const long rank = number_of(word.substr(0, equals));
    if (rank < 0 || equals + 1 >= word.size()) return fail("must be rank NUMBER=HOST");
    if (!map_.hosts.emplace(static_cast<int>(rank), word.substr(equals + 1)).second) {
      fail("rank " + std::to_string(rank) + " is there twice");
    }
    lines_of_ranks_[static_cast<int>(rank)] = line_;
  }

  /// When all lines are known. Ranks are on hosts that the file names; if it names ranks only, on
  /// any.
  void place_ranks() {
    if (!status_.is_ok()) return;
    std::set<std::string_view> hosts(named_.begin(), named_.end());
    for (const auto& [name, above] : map_.above) hosts.erase(above);
    for (auto& [rank, host] : map_.hosts) {
      if (named_.empty()) {
        map_.above.emplace(host, "");
        continue;
      }
      const std::string short_name = host.substr(0, host.find('.'));
      if (hosts.count(host) == 0 && hosts.count(short_name) > 0) host = short_name;
      if (hosts.count(host) > 0) continue;
      line_ = lines_of_ranks_[rank];
      return fail("rank " + std::to_string(rank) + " is on host \"" + host +
                  "\", which is not named" + maybe_name(host, {hosts.begin(), hosts.end()}));
    }
  }

  void read_switch(const std::vector<std::string>& words) {
    const std::string name = words[0].substr(words[0].find('=') + 1);
    if (name.empty()) return fail("SwitchName: must have a name");
    map_.above.emplace(name, "");
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::size_t equals = std::min(words[i].find('='), words[i].size());
      const std::string key = words[i].substr(0, equals);
      if (key == "LinkSpeed") continue;
      if ((key != "Nodes" && key != "Switches") || equals == words[i].size()) {
        return fail(key + ": must be Nodes=LIST, Switches=LIST or LinkSpeed=NUMBER");
      }
      hang_list(words[i].substr(equals + 1), name);
    }
  }

  /// "node[0-3],gpu1".
  void hang_list(const std::string& list, const std::string& above) {
    for (const std::string& part : parts_of(list)) hang_all(part, above);
  }

  void hang_all(const std::string& list, const std::string& above) {
    std::vector<std::string> names;
    if (!expand_name(list, &names)) return fail("\"" + list + "\" is no list of up to 65536 names");
    for (const std::string& name : names) hang(name, above);
  }

  /// Every name once, and never below itself.
  void hang(const std::string& name, const std::string& above) {
    if (!status_.is_ok()) return;
    for (std::string at = above; !at.empty();) {
      if (at == name) return fail("\"" + name + "\" would hang from itself");
      const auto next = map_.above.find(at);
      at = next == map_.above.end() ? "" : next->second;
    }
    if (!named_.insert(name).second) return fail("\"" + name + "\" is there twice");
    map_.above[name] = above;
    if (!above.empty()) map_.above.emplace(above, "");
  }

  void fail(const std::string& what) {
    if (status_.is_ok()) status_ = mistake(line_, what);
  }

  HostMap map_;
  std::set<std::string> named_;  // Of which was said what they hang from.
  std::map<int, std::size_t> lines_of_ranks_;
  std::size_t line_ = 0;
  Status status_;
};

/// The value of name="value" in a tag, or nothing.
std::string attribute(std::string_view tag, const std::string& name) {
  const std::string begin = " " + name + "=\"";
  const std::size_t at = tag.find(begin);
  if (at == std::string_view::npos) return "";
  tag.remove_prefix(at + begin.size());
  return std::string(tag.substr(0, tag.find('"')));
}

/// Looks at <cpu> and <gpu> tags only: GPUs are nested in the CPU that they hang from.
Result<HostMap> read_nccl(std::string_view text) {
  HostMap map;
  std::string host;
  std::size_t line = 1;
  while (true) {
    const std::size_t open = text.find('<');
    if (open == std::string_view::npos) break;
    for (const char c : text.substr(0, open)) line += c == '\n' ? 1 : 0;
    text.remove_prefix(open);
    const std::string_view tag = text.substr(0, text.find('>'));
    const std::string hash = attribute(tag, "host_hash"), rank = attribute(tag, "rank");
    if (tag.starts_with("<cpu ")) {
      if (hash.empty()) return mistake(line, "<cpu>: host_hash is missing");
      host = "host " + hash;
      map.above.emplace(host, "");
    } else if (tag.starts_with("<gpu ")) {
      if (host.empty()) return mistake(line, "<gpu>: is in no <cpu>");
      if (number_of(rank) < 0) return mistake(line, "<gpu>: rank is missing");
      if (!map.hosts.emplace(static_cast<int>(number_of(rank)), host).second) {
        return mistake(line, "<gpu>: rank " + rank + " is there twice");
      }
    }
    for (const char c : tag) line += c == '\n' ? 1 : 0;
    text.remove_prefix(tag.size());
  }
  if (map.hosts.empty()) return mistake(line, "names no rank");
  return map;
}

/// Of `host` or, without its domain, of its short name; empty if neither is a host of the map.
std::string name_in(const HostMap& map, const std::string& host) {
  const std::string short_name = host.substr(0, host.find('.'));
  for (const std::string& name : {host, short_name}) {
    if (map.is_host(name)) return name;
  }
  return "";
}

}  // namespace

bool HostMap::is_host(const std::string& name) const {
  if (above.count(name) == 0) return false;
  for (const auto& [other, its_above] : above) {
    if (its_above == name) return false;
  }
  return true;
}

Result<HostMap> parse_host_map(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '<') return read_nccl(text);
  return Reader().read(text);
}

std::string summary(const HostMap& map) {
  std::uint64_t hash = 0;
  const auto add = [&](const std::string& text) {
    for (const char c : text) hash = combine_hash(hash, static_cast<unsigned char>(c));
    hash = combine_hash(hash, text.size());
  };
  std::set<std::string> switches;
  for (const auto& [name, above] : map.above) {
    add(name);
    add(above);
    if (!above.empty()) switches.insert(above);
  }
  for (const auto& [rank, host] : map.hosts) add(std::to_string(rank) + " " + host);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string digits;
  for (int shift = 60; shift >= 0; shift -= 4) digits += kDigits[hash >> shift & 15];
  return std::to_string(map.above.size() - switches.size()) + " hosts, " +
         std::to_string(switches.size()) + " above them, " + digits;
}

Result<std::vector<Location>> locations_of(const HostMap& map,
                                           const std::vector<std::string>& hosts) {
  std::vector<Location> places;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    std::string name = name_in(map, hosts[rank]);
    if (!map.hosts.empty()) {
      const auto found = map.hosts.find(static_cast<int>(rank));
      if (found == map.hosts.end()) {
        return Status(Code::kInvalidArgument, "rank " + std::to_string(rank) + " is not named");
      }
      name = found->second;
    }
    if (name.empty()) {
      return Status(Code::kInvalidArgument, "rank " + std::to_string(rank) + " is on host \"" +
                                                hosts[rank] + "\", which is not named");
    }
    Location place;
    for (; !name.empty(); name = map.above.at(name)) place.insert(place.begin(), name);
    places.push_back(std::move(place));
  }
  return places;
}

}  // namespace ringpress
