// What a tool that shows ranges of NVTX is told of a program's calls: by the library on host
// memory, and by the preloaded one on a stand-in for NVIDIA's. Ranks are processes.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/live_files.h"
#include "tests/support/preload_run.h"

namespace ringpress::testing {
namespace {

/// A range that has ended, and what it was in.
struct Range {
  std::string name;
  long long payload = -1;
  std::vector<std::string> around;  // Names; the outermost first.
};

/// What the recorder has written (tests/support/nvtx_recorder.cc).
struct Record {
  std::vector<Range> ranges;
  std::set<std::string> domains;  // Of ranges.
  std::set<std::string> processes;
  int created = 0;
  int open = 0;     // Have no end.
  int unbegun = 0;  // Have no beginning.

  explicit Record(const std::string& text) {
    std::map<std::string, std::vector<Range>> threads;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) read(line, &threads);
    for (const auto& [thread, begun] : threads) open += static_cast<int>(begun.size());
  }

  void read(const std::string& line, std::map<std::string, std::vector<Range>>* threads) {
    std::istringstream words(line);
    std::string process, thread, what, domain;
    words >> process >> thread >> what >> domain;
    processes.insert(process);
    created += what == "create" ? 1 : 0;
    if (what == "create") return;
    domains.insert(domain);
    std::vector<Range>& begun = (*threads)[process + " " + thread];
    if (what == "push") {
      Range range;
      words >> range.payload;
      std::getline(words >> std::ws, range.name);
      for (const Range& outer : begun) range.around.push_back(outer.name);
      begun.push_back(range);
    } else if (begun.empty()) {
      ++unbegun;
    } else {
      ranges.push_back(begun.back());
      begun.pop_back();
    }
  }

  /// How many ranges have that name, within ranges of those.
  long count(const std::string& name, const std::vector<std::string>& around) const {
    return std::count_if(ranges.begin(), ranges.end(), [&](const Range& range) {
      return range.name == name && range.around == around;
    });
  }
};

const std::set<std::string> kPhases = {"wait", "encode", "send", "receive", "reduce", "decode"};

/// Of whatever is recorded: two ranks have told the tool of ranges of our domain, all of which end,
/// and calls are not within calls.
void expect_record_is_sound(const Record& record) {
  EXPECT_EQ(record.processes.size(), 2u);
  EXPECT_EQ(record.created, 2) << "a domain for each process";
  EXPECT_EQ(record.domains, std::set<std::string>{"ringpress"});
  EXPECT_EQ(record.open, 0);
  EXPECT_EQ(record.unbegun, 0);
  for (const Range& range : record.ranges) {
    const std::vector<std::string>& around = range.around;
    const bool is_phase = kPhases.count(range.name) != 0;
    EXPECT_LE(around.size(), is_phase ? 2u : 1u) << range.name;
    if (is_phase) {
      EXPECT_FALSE(around.empty()) << range.name << " of no call";
    } else if (!around.empty()) {
      EXPECT_TRUE(starts_with(range.name, (around[0] + " ").c_str())) << range.name;
    }
  }
}

class Nvtx : public ::testing::Test {
 protected:
  /// Of two ranks, which are hosts of their own.
  Record run_client(const Environment& environment, const char* scenario) {
    const Environment tool = {std::string("NVTX_INJECTION64_PATH=") + NVTX_RECORDER,
                              "NVTX_RECORD=" + folder_.path("record")};
    std::filesystem::remove(folder_.path("record"));
    output_ = run(with(with(kOn, tool), environment), client(CLIENT, 2, scenario));
    EXPECT_EQ(output_.status, 0) << output_.text;
    return Record(folder_.read("record"));
  }
  const Output& output() const { return output_; }
  bool has_record() const { return folder_.has("record"); }

  /// The library in NCCL's place.
  static std::string on_host_memory() { return std::string("LD_LIBRARY_PATH=") + HOST_FOLDER; }

 private:
  LiveFolder folder_;
  Output output_;
};

// Each of the two ranks of preload_client makes four all-reduces of 100003 floats.
constexpr const char* kCall = "all_reduce 390.6 KiB";
constexpr const char* kCompressed = "all_reduce 390.6 KiB q4:block=128,grid=uniform,round=nearest";
constexpr long kCalls = 8;

TEST_F(Nvtx, CallsOnHostMemoryAreRangesAndSoAreTheirPhases) {
  const Record record = run_client({on_host_memory()}, "all");
  expect_compressed(Results(output().text));
  expect_record_is_sound(record);
  EXPECT_EQ(record.count(kCall, {}), kCalls);
  EXPECT_EQ(record.count(kCompressed, {kCall}), kCalls);
  for (const std::string& phase : kPhases) {
    if (phase == "receive") continue;  // Hardly anything comes in two frames.
    EXPECT_GE(record.count(phase, {kCall, kCompressed}), kCalls) << phase;
  }
  EXPECT_EQ(record.count("all_reduce 400 B none", {"all_reduce 400 B"}), 2);
  EXPECT_EQ(record.count("broadcast 195.3 KiB none", {"broadcast 195.3 KiB"}), 4);
  EXPECT_EQ(record.count("reduce_scatter 156.2 KiB", {}), 2) << "a rank's share";
  for (const Range& range : record.ranges) {
    const bool is_call = range.name == kCall || range.name == kCompressed;
    EXPECT_TRUE(!is_call || range.payload == 400012) << range.payload;
    const bool has_peer = range.name == "send" || range.name == "wait";
    EXPECT_TRUE(!has_peer || range.payload == 0 || range.payload == 1) << range.payload;
    EXPECT_TRUE(range.name != "encode" || range.payload == -1) << range.payload;
  }
}

TEST_F(Nvtx, PreloadedCallsAreRangesOfWhatTheyAskTheStreamFor) {
  const Record record = run_client({preload(SHIM)}, "all");
  expect_compressed(Results(output().text));
  expect_record_is_sound(record);
  EXPECT_EQ(record.count(kCall, {}), kCalls);
  EXPECT_EQ(record.count(kCompressed, {kCall}), kCalls);
  EXPECT_EQ(record.count("all_reduce 234.4 KiB", {}), 4) << "two of a group";
  for (const Range& range : record.ranges) {
    EXPECT_EQ(kPhases.count(range.name), 0u) << "a device does them";
    EXPECT_FALSE(starts_with(range.name, "broadcast")) << "NCCL has ranges of its own";
  }
}

TEST_F(Nvtx, RangesOfCallsThatFailEnd) {
  for (const std::string& door : {on_host_memory(), preload(SHIM)}) {
    const Record record = run_client({door}, "abort");
    EXPECT_NE(output().text.find("0 aborted "), std::string::npos) << output().text;
    expect_record_is_sound(record);
  }
}

TEST_F(Nvtx, SwitchedOffNoToolIsLoaded) {
  for (const std::string& door : {on_host_memory(), preload(SHIM)}) {
    run_client({door, "RINGPRESS_NVTX=0"}, "all");
    EXPECT_FALSE(has_record());
  }
}

/// As a tool that is not there any more.
TEST_F(Nvtx, AToolThatCannotBeLoadedIsNoErrorOfACall) {
  for (const std::string& door : {on_host_memory(), preload(SHIM)}) {
    run_client({door, "NVTX_INJECTION64_PATH=/no/such/library.so"}, "all");
    EXPECT_FALSE(has_record());
    expect_compressed(Results(output().text));
  }
}

}  // namespace
}  // namespace ringpress::testing
