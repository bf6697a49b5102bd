// The page for Prometheus, as Prometheus's own checker sees it: promtool, of Debian's package
// prometheus. Where that is not installed, nothing is tested.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "nccl_plugin/session/live/prometheus_page.h"
#include "ringpress/internal/communicator.h"
#include "tests/support/communicator_ranks.h"
#include "tests/support/live_files.h"
#include "tests/support/random_tensor.h"

namespace ringpress::nccl_plugin {
namespace {

using testing::LiveFolder;

/// What a command says, on both streams, and then its status, if that is not 0.
std::string said_by(const std::string& command) {
  std::FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return "cannot be started";
  std::string said;
  std::array<char, 4096> part;
  for (std::size_t got; (got = std::fread(part.data(), 1, part.size(), pipe)) > 0;) {
    said.append(part.data(), got);
  }
  const int status = pclose(pipe);
  return status == 0 ? said : said + "status " + std::to_string(WEXITSTATUS(status));
}

class Promtool : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!said_by("command -v promtool >/dev/null").empty()) {
      GTEST_SKIP() << "there is no promtool (Debian's package prometheus)";
    }
  }
  /// What it has to complain of.
  std::string complaints(const std::string& name) const {
    return said_by("promtool check metrics <'" + folder_.path(name) + "'");
  }
  std::string complaints_of(const std::string& page) const {
    std::ofstream(folder_.path("written"), std::ios::binary) << page;
    return complaints("written");
  }
  const LiveFolder& folder() const { return folder_; }

 private:
  LiveFolder folder_;
};

/// Everything that a page may have.
PrometheusSource source_of(const std::string& comm, int rank) {
  PrometheusSource source;
  source.identity = {comm, "host", rank, 4, 2};
  Statistics& total = source.total;
  total.calls = 10;
  total.raw_bytes = ~std::uint64_t{0};
  total.by_codec = {{"none", {6, 200, 210}}, {"q4:block=256", {4, 800, 90}}};
  total.phases = PhaseTimes{1000000000, 2, 3, 4, 5, 6};
  total.exact_calls = {{"fewer than 65536 bytes", 6}, {"a \"reason\"\nof\\two lines", 1}};
  total.errors = {{1000, DType::kFloat32, 2, 0.1, 1e-30, 0.3, 1}};
  total.residual_norm = 1e-9;
  source.activities = {CallWatch::Activity{}};
  return source;
}

TEST_F(Promtool, TakesAnyNameOfACommunicator) {
  std::string all;
  for (int byte = 1; byte < 256; ++byte) all += static_cast<char>(byte);
  std::vector<PrometheusSource> sources;
  for (const std::string& comm :
       {std::string("dp"), std::string("tp \"0\""), std::string("two\nlines"),
        std::string("C:\\n\\"), std::string("{a=\"b\"} 1"), std::string("\xC3\xA9\xF0\x9F\x98\x80"),
        std::string("cut \xF0\x9F\x98"), std::string(), all}) {
    for (int rank = 0; rank < 4; ++rank) sources.push_back(source_of(comm, rank));
  }
  EXPECT_EQ(complaints_of(prometheus_page(sources)), "");
}

/// It does complain.
TEST_F(Promtool, RefusesWhatIsNoPage) {
  const std::string page = prometheus_page({source_of("dp", 0)});
  EXPECT_NE(complaints_of(page + "ringpress_more{comm=\"\xFF\"} 1\n"), "");
  EXPECT_NE(complaints_of(page + "ringpress_more{comm=\"dp} 1\n"), "");
  EXPECT_NE(complaints_of(page + "# TYPE ringpress_more counter\nringpress_more 1\n"), "");
}

TEST_F(Promtool, TakesThePagesOfAJob) {
  constexpr std::size_t kPageCount = 50000;
  std::vector<Settings> settings;
  for (int rank = 0; rank < 3; ++rank) {
    settings.push_back(testing::settings_with({{"RINGPRESS_CODEC", "q4"},
                                               {"RINGPRESS_PROMETHEUS", folder().path("%p.prom")},
                                               {"RINGPRESS_LIVE_SECONDS", "0.01"}}));
    settings.back().comm_name = "dp \"\\\n\xFF";
  }
  // Of each process there is one page: ranks that are threads share it.
  const std::string name = std::to_string(getpid()) + ".prom";
  const auto outcomes = testing::run_communicators(settings, [&](Communicator* communicator) {
    const auto gradient = testing::random_gradient(kPageCount, 1, communicator->rank());
    std::vector<float> sum(kPageCount);
    for (float is_enough = 0; is_enough == 0;) {
      RINGPRESS_RETURN_IF_ERROR(
          communicator->all_reduce(gradient.data(), sum.data(), kPageCount, DType::kFloat32, {}));
      const std::string page = folder().read(name);
      const bool has_all = page.find("codec=\"q4") != std::string::npos &&
                           page.find("rank=\"2\"") != std::string::npos;
      is_enough = communicator->rank() == 0 && has_all ? 1 : 0;
      RINGPRESS_RETURN_IF_ERROR(
          communicator->all_reduce(&is_enough, &is_enough, 1, DType::kFloat32, {}));
    }
    return Status::ok();
  });
  EXPECT_EQ(testing::failures_of(outcomes), "");
  EXPECT_EQ(complaints(name), "") << folder().read(name);
}

}  // namespace
}  // namespace ringpress::nccl_plugin
