// Runs programs with the shim before them, and reads what preload_client prints.
#ifndef TESTS_SUPPORT_PRELOAD_RUN_H_
#define TESTS_SUPPORT_PRELOAD_RUN_H_

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace ringpress::testing {

using Environment = std::vector<std::string>;

struct Output {
  int status = -1;
  std::string text;  // Both streams.
};

inline Output run(const Environment& environment, const std::string& command) {
  std::string line = "env ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 ";
  for (const std::string& variable : environment) line += "'" + variable + "' ";
  line += "timeout 250 " + command + " 2>&1";
  Output output;
  FILE* pipe = popen(line.c_str(), "r");
  char buffer[4096];
  for (std::size_t got; (got = fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
    output.text.append(buffer, got);
  }
  const int status = pclose(pipe);
  output.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  // The line that every job begins with.
  static const std::regex start("ringpress \\[[0-9]+\\] [0-9]+\\.[0-9]+\\.[0-9]+ [^\n]*\n");
  output.text = std::regex_replace(output.text, start, "");
  return output;
}

/// Each rank's hashes and errors, by label, in order.
struct Results {
  struct Line {
    std::string hash;
    double error = 0;
  };
  std::map<int, std::map<std::string, std::vector<Line>>> ranks;

  explicit Results(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      int rank = 0;
      std::string label;
      Line result;
      if (words >> rank >> label >> result.hash >> result.error)
        ranks[rank][label].push_back(result);
    }
  }
};

inline int occurrences(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

inline bool starts_with(const std::string& text, const char* start) {
  return text.rfind(start, 0) == 0;
}

/// What holds for every run: all ranks have the same results, and exact calls those of `plain`.
inline void expect_sound(const Results& got, const Results& plain, int ranks) {
  ASSERT_EQ(got.ranks.size(), static_cast<std::size_t>(ranks));
  for (const auto& [rank, labels] : plain.ranks) {
    for (const auto& [label, lines] : labels) {
      ASSERT_TRUE(got.ranks.at(rank).count(label)) << label;
      const auto& ours = got.ranks.at(rank).at(label);
      ASSERT_EQ(ours.size(), lines.size()) << label;
      for (std::size_t i = 0; i < lines.size(); ++i) {
        if (starts_with(label, "exact")) {
          EXPECT_EQ(ours[i].hash, lines[i].hash) << label;
        }
        if (!starts_with(label, "each")) {
          EXPECT_EQ(ours[i].hash, got.ranks.at(0).at(label)[i].hash)
              << label << " of rank " << rank;
        }
      }
    }
  }
}

/// The smallest and the largest error of the calls that may be lossy.
inline std::pair<double, double> lossy_errors(const Results& results) {
  std::pair<double, double> range{1e9, 0};
  for (const auto& [rank, labels] : results.ranks) {
    for (const auto& [label, lines] : labels) {
      if (starts_with(label, "exact")) continue;
      for (const auto& line : lines) {
        range.first = std::min(range.first, line.error);
        range.second = std::max(range.second, line.error);
      }
    }
  }
  return range;
}

/// Uniform values in 4 bits: a step is 1/7 of the largest, the error of each of two encodings a
/// twelfth of its square; the rest is room for error feedback.
inline void expect_compressed(const Results& results) {
  const auto [smallest, largest] = lossy_errors(results);
  EXPECT_GT(smallest, 1e-3) << "some call was exact";
  EXPECT_LT(largest, 0.25);
}
inline void expect_exact(const Results& results) {
  EXPECT_LT(lossy_errors(results).second, 1e-6);
}

inline const Environment kOn = {"RINGPRESS_BACKEND=host", "RINGPRESS_CODEC=q4",
                                "RINGPRESS_SOCKET_IFNAME=lo", "RINGPRESS_TIMEOUT_MS=100000"};

inline Environment with(Environment environment, const Environment& more) {
  environment.insert(environment.end(), more.begin(), more.end());
  return environment;
}

inline std::string client(const char* program, int ranks, const char* scenario) {
  return std::string(program) + " " + std::to_string(ranks) + " " + scenario;
}

inline Results plain_results(int ranks) {
  const Output plain = run({}, client(CLIENT, ranks, "all"));
  EXPECT_EQ(plain.status, 0) << plain.text;
  return Results(plain.text);
}

inline std::string real_nccl() {
  return std::string("RINGPRESS_REAL_NCCL=") + FAKE_NCCL;
}
inline std::string preload(const std::string& libraries) {
  return "LD_PRELOAD=" + libraries;
}
inline std::string fake_folder() {
  const std::string path = FAKE_NCCL;
  return path.substr(0, path.rfind('/'));
}

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_PRELOAD_RUN_H_
