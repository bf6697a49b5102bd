// What a tool that shows ranges of NVTX is told of a program's calls: by the library on host memory,
// and by the preloaded one on a stand-in for NVIDIA's. Ranks are processes.
#include <gtest/gtest.h>

#include <algorithm>
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
  int open = 0;      // Have no end.
  int unbegun = 0;   // Have no beginning.

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

// A call of preload_client's.
constexpr const char* kCall = "all_reduce 195.3 KiB";
constexpr const char* kCompressed = "all_reduce 195.3 KiB q4:block=256";

TEST_F(Nvtx, CallsOnHostMemoryAreRangesAndSoAreTheirPhases) {
  const Record record = run_client({on_host_memory()}, "all");
  expect_record_is_sound(record);
  EXPECT_TRUE(has_record());
  expect_compressed(Results(output().text));
}

TEST_F(Nvtx, PreloadedCallsAreRangesOfWhatTheyAskTheDeviceFor) {
  const Record record = run_client({preload(SHIM)}, "all");
  expect_record_is_sound(record);
  expect_compressed(Results(output().text));
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
