// Ring orders: each uplink once each way, on any map; and the files that maps come from.
#include "ringpress/internal/ring_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <set>

namespace ringpress {
namespace {

std::vector<int> by_number(std::size_t ranks) {
  std::vector<int> order(ranks);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

/// Groups of any depth that do not hold all ranks.
std::size_t fewest_crossings(const std::vector<Location>& places) {
  std::map<Location, std::size_t> ranks;
  for (const Location& place : places) {
    for (std::size_t depth = 1; depth <= place.size(); ++depth) {
      ++ranks[Location(place.begin(), place.begin() + static_cast<std::ptrdiff_t>(depth))];
    }
  }
  return static_cast<std::size_t>(std::count_if(
      ranks.begin(), ranks.end(), [&](const auto& group) { return group.second < places.size(); }));
}

/// Some hosts in some racks, and ranks on any of them.
std::vector<Location> random_places(std::size_t ranks, std::size_t hosts, std::mt19937* draw) {
  const std::size_t racks = 1 + (*draw)() % 4;
  std::vector<Location> host_places;
  for (std::size_t host = 0; host < hosts; ++host) {
    host_places.push_back(
        {"rack" + std::to_string((*draw)() % racks), "host" + std::to_string(host)});
  }
  std::vector<Location> places;
  for (std::size_t rank = 0; rank < ranks; ++rank) places.push_back(host_places[(*draw)() % hosts]);
  return places;
}

TEST(RingOrder, KeepsWhatIsInOrder) {
  EXPECT_TRUE(ring_order({}).empty());
  EXPECT_EQ(ring_order({{"a"}, {"a"}, {"b"}}), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(ring_order({{}, {}, {}}), (std::vector<int>{0, 1, 2}));
}

TEST(RingOrder, GroupsHostsAndRacks) {
  EXPECT_EQ(ring_order({{"a"}, {"b"}, {"a"}, {"b"}}), (std::vector<int>{0, 2, 1, 3}));
  EXPECT_EQ(ring_order({{"r0", "a"}, {"r1", "b"}, {"r0", "c"}, {"r1", "d"}, {"r0", "a"}}),
            (std::vector<int>{0, 4, 2, 1, 3}));
  // Some hang deeper than others.
  EXPECT_EQ(ring_order({{"row", "r", "a"}, {"b"}, {"row", "q", "c"}, {"row", "r", "d"}}),
            (std::vector<int>{0, 3, 2, 1}));
}

TEST(RingOrder, CrossingsAreCountedEachWay) {
  const std::vector<Location> places = {{"r0", "a"}, {"r1", "b"}, {"r0", "a"}, {"r1", "b"}};
  EXPECT_EQ(crossings(places, {0, 1, 2, 3}), 8U);
  EXPECT_EQ(crossings(places, {0, 2, 1, 3}), 4U);
  EXPECT_EQ(crossings({{"a"}, {"a"}}, {0, 1}), 0U);
}

TEST(RingOrder, ThousandMapsCrossEachUplinkOnce) {
  std::mt19937 draw(1);
  for (int i = 0; i < 1000; ++i) {
    const std::vector<Location> places = random_places(1 + draw() % 64, 1 + draw() % 20, &draw);
    const std::vector<int> order = ring_order(places);
    std::vector<int> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    ASSERT_EQ(sorted, by_number(places.size()));
    ASSERT_EQ(crossings(places, order), fewest_crossings(places)) << i;
  }
}

TEST(RingOrder, NoOrderOfEightHostsIsBetter) {
  std::mt19937 draw(2);
  for (int i = 0; i < 12; ++i) {
    const std::size_t ranks = 2 + static_cast<std::size_t>(i) % 7;
    const std::vector<Location> places = random_places(ranks, 8, &draw);
    std::vector<int> order = by_number(ranks);
    std::size_t fewest = std::numeric_limits<std::size_t>::max();
    do {  // A ring may begin anywhere.
      fewest = std::min(fewest, crossings(places, order));
    } while (std::next_permutation(order.begin() + 1, order.end()));
    EXPECT_EQ(crossings(places, ring_order(places)), fewest);
  }
}

HostMap read(const char* text) {
  auto map = parse_host_map(text);
  EXPECT_TRUE(map.is_ok()) << map.status().message();
  return map.is_ok() ? map.value() : HostMap();
}

using Places = std::vector<Location>;

Places places_in(const HostMap& map, const std::vector<std::string>& hosts) {
  const auto places = locations_of(map, hosts);
  EXPECT_TRUE(places.is_ok()) << places.status().message();
  return places.is_ok() ? places.value() : Places();
}

TEST(HostMap, NamesAndWhatTheyHangFrom) {
  const HostMap map = read("# the hall\nnode0 rack0\n\nnode1 rack1 # far\nrack1 row0\n");
  EXPECT_EQ(places_in(map, {"node1", "node0"}),
            (Places{{"row0", "rack1", "node1"}, {"rack0", "node0"}}));
  EXPECT_EQ(places_in(map, {"node1.example.org"}), (Places{{"row0", "rack1", "node1"}}));
  EXPECT_EQ(summary(map).substr(0, 23), "2 hosts, 3 above them, ");
}

TEST(HostMap, ListsHangFromOneRack) {
  const HostMap map = read("n[08-10],gpu7 rack0\nrack[0-1] row0\n");
  EXPECT_EQ(places_in(map, {"n09", "gpu7"}),
            (Places{{"row0", "rack0", "n09"}, {"row0", "rack0", "gpu7"}}));
  EXPECT_EQ(parse_host_map("n0 rack0\nn[0-1] rack0\n").status().message(),
            "2: \"n0\" is there twice");
  EXPECT_EQ(parse_host_map("n[0-99999999] rack0\n").status().message(),
            "1: \"n[0-99999999]\" is no list of up to 65536 names");
}

TEST(HostMap, SlurmTopology) {
  const HostMap map = read(
      "SwitchName=s0 Nodes=n[0-1],gpu7\nSwitchName=s1 Nodes=n[08-10] LinkSpeed=100\n"
      "SwitchName=top Switches=s[0-1]\n");
  EXPECT_EQ(places_in(map, {"n1", "n09", "gpu7"}),
            (Places{{"top", "s0", "n1"}, {"top", "s1", "n09"}, {"top", "s0", "gpu7"}}));
}

TEST(HostMap, HostLists) {
  EXPECT_EQ(places_in(read("r[0-1]n[1,3],x\n"), {"r1n3", "x"}), (Places{{"r1n3"}, {"x"}}));
  EXPECT_EQ(places_in(read("a slots=2\nb max_slots=4\nc:8\nd\n"), {"b", "c", "d"}),
            (Places{{"b"}, {"c"}, {"d"}}));
}

TEST(HostMap, RanksThatAreNamedAreBelieved) {
  const HostMap map = read("rank 1=a slot=0\nrank 0=b slot=1:3\n");
  EXPECT_EQ(places_in(map, {"here", "here"}), (Places{{"b"}, {"a"}}));
  EXPECT_EQ(locations_of(map, {"b", "a", "a"}).status().message(), "rank 2 is not named");
}

/// Where a file names hosts too, ranks are on these, wherever the lines are.
TEST(HostMap, RanksAreOnHostsThatAreNamed) {
  const HostMap map = read("rank 1=node1.example.org\nnode0 r\nnode1 r\nrank 0=node0\n");
  EXPECT_EQ(places_in(map, {"here", "here"}), (Places{{"r", "node0"}, {"r", "node1"}}));
  const auto message = [](const char* text) { return parse_host_map(text).status().message(); };
  EXPECT_EQ(message("node0 rack0\nnode1 rack0\nrank 0=node0\nrank 1=nod1\n"),
            "4: rank 1 is on host \"nod1\", which is not named (maybe node1?)");
  EXPECT_EQ(message("rank 7=nod1\nSwitchName=s Nodes=node[0-1]\n"),
            "1: rank 7 is on host \"nod1\", which is not named (maybe node1?)");
  EXPECT_EQ(message("node0 rack0\nrank 0=rack0\n"),
            "2: rank 0 is on host \"rack0\", which is not named");
}

TEST(HostMap, NcclTopology) {
  const HostMap map = read(
      "<system version=\"1\">\n <cpu host_hash=\"0x1a\" numaid=\"0\" arch=\"x86_64\">\n"
      "  <pci busid=\"0000:01:00.0\">\n   <gpu dev=\"0\" sm=\"90\" rank=\"0\" gdr=\"1\"/>\n"
      "  </pci>\n </cpu>\n <cpu host_hash=\"0x2b\" numaid=\"0\">\n  <gpu dev=\"0\" rank=\"1\"/>\n"
      " </cpu>\n <cpu host_hash=\"0x1a\" numaid=\"1\"><gpu dev=\"1\" "
      "rank=\"2\"/></cpu>\n</system>\n");
  EXPECT_EQ(ring_order(places_in(map, {"", "", ""})), (std::vector<int>{0, 2, 1}));
}

TEST(HostMap, MistakesAreNamed) {
  const auto message = [](const char* text) { return parse_host_map(text).status().message(); };
  EXPECT_EQ(message(""), "1: names no host");
  EXPECT_EQ(message("# nothing\n"), "1: names no host");
  EXPECT_EQ(message("a r\nb r\na s\n"), "3: \"a\" is there twice");
  EXPECT_EQ(message("a b\nb c\nc a\n"), "3: \"c\" would hang from itself");
  EXPECT_EQ(message("a a\n"), "1: \"a\" would hang from itself");
  EXPECT_EQ(message("a b c d\n"), "1: must be a name and what it hangs from, not 4 words");
  EXPECT_EQ(message("a\nn[0-\n"), "2: \"n[0-\" is no list of up to 65536 names");
  EXPECT_EQ(message("n[5-1]\n"), "1: \"n[5-1]\" is no list of up to 65536 names");
  EXPECT_EQ(message("n[0-9]]\n"), "1: \"n[0-9]]\" is no list of up to 65536 names");
  EXPECT_EQ(message("n[0-999][0-999]\n"), "1: \"n[0-999][0-999]\" is no list of up to 65536 names");
  EXPECT_EQ(message("rank 0=a\nrank 0=b\n"), "2: rank 0 is there twice");
  EXPECT_EQ(message("rank x=a\n"), "1: must be rank NUMBER=HOST");
  EXPECT_EQ(message("SwitchName=s Node=n\n"),
            "1: Node: must be Nodes=LIST, Switches=LIST or LinkSpeed=NUMBER");
  EXPECT_EQ(message("SwitchName=a Switches=b\nSwitchName=b Switches=a\n"),
            "2: \"a\" would hang from itself");
  EXPECT_EQ(message("<system>\n<cpu numaid=\"0\">\n"), "2: <cpu>: host_hash is missing");
  EXPECT_EQ(message("<cpu host_hash=\"0x1\">\n<gpu dev=\"0\"/>"), "2: <gpu>: rank is missing");
  EXPECT_EQ(message("<system>\n</system>\n"), "2: names no rank");
}

TEST(HostMap, HostsThatAreNotNamed) {
  const HostMap map = read("node0 rack0\n");
  EXPECT_EQ(locations_of(map, {"node0", "node9"}).status().message(),
            "rank 1 is on host \"node9\", which is not named");
  EXPECT_FALSE(locations_of(map, {"rack0"}).is_ok());
}

TEST(HostMap, SummariesTellMapsApart) {
  std::set<std::string> summaries;
  for (const char* text :
       {"a r\nb r\n", "a r\nb s\n", "a r\nc r\n", "a\nb\nr\n", "rank 0=a\nrank 1=b\n"}) {
    EXPECT_TRUE(summaries.insert(summary(read(text))).second) << text;
  }
  EXPECT_EQ(summary(read("a r\nb r\n")), summary(read("b r # other order\na r\n")));
}

TEST(HostMap, AnyTextIsReadOrRefused) {
  std::mt19937 draw(3);
  const std::string good = "SwitchName=s0 Nodes=n[0-3]\nrank 0=a\nb c\n<cpu host_hash=\"1\"> [,-";
  for (int i = 0; i < 20000; ++i) {
    std::string text = good;
    for (int edit = 0; edit < 4; ++edit) {
      const std::size_t at = draw() % text.size();
      text.replace(at, draw() % 9, std::string(1, good[draw() % good.size()]));
    }
    const auto map = parse_host_map(text);
    if (map.is_ok()) {
      EXPECT_FALSE(summary(map.value()).empty());
    } else {
      EXPECT_NE(map.status().message().find(": "), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace ringpress
