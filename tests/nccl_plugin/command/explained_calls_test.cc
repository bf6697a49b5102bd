// What `ringpress explain` says of a call on host memory is what a communicator makes of it: of
// random sizes, types, ranks, hosts and settings.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "compress_kernels/factory.h"
#include "nccl_plugin/command/explain/explanation.h"
#include "ringpress/internal/communicator.h"
#include "tests/support/communicator_ranks.h"
#include "tests/support/narrow_values.h"

namespace ringpress::nccl_plugin::command {
namespace {

constexpr int kCalls = 12;          // Of a communicator, all alike.
constexpr int kBeforeTheUsual = 3;  // Of these, which may be the first of their kind.

class Lot {
 public:
  std::size_t below(std::size_t end) { return engine_() % end; }
  bool is_one_in(std::size_t times) { return below(times) == 0; }
  const char* one_of(std::initializer_list<const char*> values) {
    return values.begin()[below(values.size())];
  }

 private:
  std::mt19937_64 engine_{28};
};

/// A communicator and its calls.
struct Job {
  testing::RankEnvironment environment;
  CallShape shape;
  DType dtype = DType::kFloat32;

  std::size_t count() const {
    const std::size_t whole = shape.bytes / dtype_size(dtype);
    const bool is_whole = shape.kind == CollectiveKind::kAllReduce;
    return is_whole ? whole : whole / static_cast<std::size_t>(shape.world);
  }
};

const char* draw_codec(Lot& lot) {
  if (lot.is_one_in(6)) return "auto";
  return lot.one_of({"none", "q4", "q8", "q2:grid=lloyd", "fp16", "bf16", "lossless", "sign",
                     "qsgd:bits=4", "topk", "powersgd", "randk"});
}

Job draw_job(Lot& lot, const std::string& cache) {
  Job job;
  job.shape.ranks_per_host = 1 + static_cast<int>(lot.below(2));
  const int hosts = job.shape.ranks_per_host == 2 ? 1 + static_cast<int>(lot.below(2))
                                                  : 2 + static_cast<int>(lot.below(3));
  job.shape.world = hosts * job.shape.ranks_per_host;
  job.shape.kind =
      lot.is_one_in(2) ? CollectiveKind::kAllReduce : static_cast<CollectiveKind>(lot.below(3));
  constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};
  job.dtype = kTypes[lot.below(3)];
  const std::size_t part = 1 + lot.below(lot.is_one_in(4) ? 2000 : 30000);
  job.shape.bytes = part * static_cast<std::size_t>(job.shape.world) * dtype_size(job.dtype);
  job.environment = {
      {"RINGPRESS_BACKEND", "host"},
      {"RINGPRESS_CODEC", draw_codec(lot)},
      {"RINGPRESS_GRADIENTS", "all"},
      {"RINGPRESS_BUDGET",
       lot.one_of({"q4", "q8", "fp16", "bf16", "lossless", "none", "q2:grid=lloyd"})},
      {"RINGPRESS", lot.one_of({"on", "on", "on", "on", "off", "observe", "lossless"})},
      {"RINGPRESS_ALGO", lot.one_of({"auto", "auto", "ring", "sra", "hier"})},
      {"RINGPRESS_MIN_BYTES", lot.one_of({"64K", "0", "4K"})},
      {"RINGPRESS_ALL_GATHER", lot.one_of({"0", "1"})},
      {"RINGPRESS_EF", lot.one_of({"0", "1"})},
      {"RINGPRESS_DETERMINISTIC", lot.one_of({"0", "0", "0", "1"})},
      {"RINGPRESS_LAZY", lot.one_of({"0", "0", "0", "2"})},
      {"RINGPRESS_WARMUP_STEPS", lot.one_of({"auto", "auto", "0", "2"})},
      {"RINGPRESS_WARMUP_CODECS", lot.one_of({"none", "none", "none;q8"})},
      {"RINGPRESS_TUNING_WARM_UP", "1"},
      {"RINGPRESS_TUNING_CALLS", "1"},
      {"RINGPRESS_CACHE", cache},
      {"RINGPRESS_SOCKET_IFNAME", "lo"}};
  return job;
}

Settings settings_of(const Job& job, int rank) {
  Settings settings = testing::settings_with(job.environment);
  settings.comm_name = "";
  settings.nccl.host_id = "host" + std::to_string(rank / job.shape.ranks_per_host);
  return settings;
}

Status make_call(const Job& job, Communicator* communicator, const std::vector<std::byte>& send,
                 std::vector<std::byte>* receive) {
  switch (job.shape.kind) {
    case CollectiveKind::kReduceScatter:
      return communicator->reduce_scatter(send.data(), receive->data(), job.count(), job.dtype, {});
    case CollectiveKind::kAllGather:
      return communicator->all_gather(send.data(), receive->data(), job.count(), job.dtype);
    default:
      return communicator->all_reduce(send.data(), receive->data(), job.count(), job.dtype, {});
  }
}

/// The statistics of rank 0 after each call.
std::vector<Statistics> run(const Job& job) {
  std::vector<Settings> settings;
  for (int rank = 0; rank < job.shape.world; ++rank) settings.push_back(settings_of(job, rank));
  std::vector<Statistics> calls;
  const auto outcomes = testing::run_communicators(settings, [&](Communicator* communicator) {
    std::vector<float> wide(job.shape.bytes / dtype_size(job.dtype));
    for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = static_cast<float>(i % 7) - 2.5F;
    std::vector<std::byte> send(job.shape.bytes), receive(job.shape.bytes);
    compress_kernels::narrow_values(wide.data(), wide.size(), job.dtype, send.data());
    for (int call = 0; call < kCalls; ++call) {
      RINGPRESS_RETURN_IF_ERROR(make_call(job, communicator, send, &receive));
      if (communicator->rank() == 0) calls.push_back(communicator->statistics());
    }
    return Status::ok();
  });
  EXPECT_EQ(testing::failures_of(outcomes), "");
  return calls;
}

std::string full_name(const std::string& specification) {
  return compress_kernels::normalize_specification(specification).value();
}

bool is_same(const CallCost& call, const Statistics& made) {
  return full_name(call.codec) == full_name(made.last_codec) &&
         algorithm_name(call.algorithm) == made.last_algorithm;
}

/// What was said of such calls, once that is what the call was.
const char* compare_call(const Explanation& said, const Statistics& made) {
  const Decided& decided = said.decided;
  if (decided.left_exact.is_exact()) {
    EXPECT_EQ(made.last_codec, "none");
    EXPECT_EQ(made.last_reason, to_text(decided.left_exact.why()));
    return "exact";
  }
  const bool is_allowed = std::any_of(
      said.calls.begin(), said.calls.end(),
      [&](const CallCost& call) { return is_same(call, made) && said.is_allowed(call); });
  EXPECT_TRUE(is_allowed) << "explain does not allow it";
  if (decided.codec.empty()) return "tried";
  EXPECT_EQ(made.last_reason, "");
  EXPECT_TRUE(is_same(said.choice(), made)) << "explain chooses " << said.choice().codec;
  return "decided";
}

std::string describe(const Job& job, const Statistics& made) {
  std::string text = std::to_string(job.shape.bytes) + " bytes of " + dtype_name(job.dtype) + ", " +
                     collective_name(job.shape.kind) + ", " + std::to_string(job.shape.world) +
                     " ranks, " + std::to_string(job.shape.ranks_per_host) + " to a host:";
  for (const auto& [name, value] : job.environment) text += " " + name + "=" + value;
  return text + "; made with " + made.last_codec + " by " + made.last_algorithm + ": " +
         made.last_reason;
}

/// A reason, or a note.
bool warms_up(const std::string& text) {
  return text.starts_with("RINGPRESS_WARMUP_STEPS");
}

/// A line of this process's own, without what it measured before.
std::string cache_folder() {
  const std::string folder = ::testing::TempDir() + "explained_calls_" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  return folder;
}

TEST(Explain, SaysWhatCommunicatorsOnHostMemoryDo) {
  constexpr int kJobs = 240;
  const std::string cache = cache_folder();
  const std::string put_off = to_text(WhyExact{ExactReason::kPutOff, 0, {}});
  Lot lot;
  std::map<std::string, int> verdicts;
  for (int number = 0; number < kJobs && !::testing::Test::HasFailure(); ++number) {
    const Job job = draw_job(lot, cache);
    ExplainOptions options;
    options.dtype = dtype_name(job.dtype);
    options.ranks = job.shape.world;
    options.ranks_per_host = job.shape.ranks_per_host;
    options.collective = collective_name(job.shape.kind);
    if (!settings_of(job, 0).codec.is_automatic()) options.codecs = "none";  // Others take time.
    const Explanation said = Explainer(options, settings_of(job, 0)).explain(job.shape.bytes);
    const std::vector<Statistics> calls = run(job);
    for (std::size_t call = kBeforeTheUsual; call < calls.size(); ++call) {
      if (calls[call].last_reason == put_off || warms_up(calls[call].last_reason)) continue;
      SCOPED_TRACE(describe(job, calls[call]));
      ++verdicts[compare_call(said, calls[call])];
    }
    if (calls.empty()) continue;
    const auto& notes = said.decided.notes;
    const bool is_said = std::any_of(notes.begin(), notes.end(), [](const std::string& note) {
      return note.find(": put off: ") != std::string::npos;
    });
    SCOPED_TRACE(describe(job, calls.back()));
    const auto& reasons = calls.back().exact_calls;
    const bool has_warmed_up = std::any_of(
        reasons.begin(), reasons.end(), [](const auto& reason) { return warms_up(reason.first); });
    const bool is_announced = std::any_of(notes.begin(), notes.end(), warms_up);
    EXPECT_TRUE(is_announced || !has_warmed_up || said.decided.left_exact.is_exact());
    if (has_warmed_up) ++verdicts["warmed up"];
    EXPECT_EQ(calls.back().exact_calls.count(put_off) > 0, is_said);
    ++verdicts[is_said ? "put off" : "sent"];
  }
  for (const char* const verdict : {"exact", "decided", "tried", "put off", "warmed up"}) {
    EXPECT_GT(verdicts[verdict], 10) << verdict;
  }
  std::filesystem::remove_all(cache);
}

}  // namespace
}  // namespace ringpress::nccl_plugin::command
