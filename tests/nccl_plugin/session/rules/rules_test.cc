// RINGPRESS_RULES: what is read, what is refused and how, and what communicators do by it.
#include "nccl_plugin/session/rules/rules.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_plugin/session/rules/rule_codecs.h"
#include "ringpress/internal/communicator.h"
#include "tests/support/random_tensor.h"
#include "tests/support/rules_file.h"

namespace ringpress::nccl_plugin {
namespace {

using test::RulesFile;

TEST(Rules, HaveTheColumnsOfNcclsTunerFileAndSomeMore) {
  const auto rules = parse_rules(
      "# small ones\n"
      "allreduce,0,65535,-1,-1,-1,-1,-1,-1,-1,none\n"
      "\n"
      "allreduce,65536,-1,sra,simple,2,2,16,-1,-1,\"q4:block=64,round=nearest\",dp*,bfloat16 # "
      "x\r\n"
      "*,0,1024,tree,ll,8,1,8\n");
  ASSERT_TRUE(rules.is_ok()) << rules.status().message();
  ASSERT_EQ(rules.value().size(), 3u);
  const Rule& small = rules.value()[0];
  EXPECT_EQ(small.line, 2u);
  EXPECT_EQ(small.max_bytes, 65535u);
  EXPECT_TRUE(small.denies());
  EXPECT_FALSE(small.algorithm);
  const Rule& large = rules.value()[1];
  EXPECT_EQ(large.line, 4u);
  EXPECT_EQ(large.kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(large.min_bytes, 65536u);
  EXPECT_EQ(large.max_bytes, std::numeric_limits<std::size_t>::max());
  EXPECT_EQ(large.algorithm, Algorithm::kSra);
  EXPECT_EQ(large.nodes, 2);
  EXPECT_EQ(large.ranks, 16);
  EXPECT_EQ(large.codec, "q4:block=64,round=nearest");
  EXPECT_EQ(large.comm_match, "dp*");
  EXPECT_EQ(large.dtype, DType::kBfloat16);
  const Rule& of_nccl = rules.value()[2];
  EXPECT_FALSE(of_nccl.kind);
  EXPECT_FALSE(of_nccl.algorithm);  // NCCL's own.
  EXPECT_EQ(of_nccl.codec, "");
}

/// As some editors and spreadsheets write it.
TEST(Rules, MayBeginWithAByteOrderMark) {
  const std::string mark = "\xEF\xBB\xBF";
  for (const std::string first :
       {"collective_type,min_bytes,max_bytes,algorithm\n", "# small ones\n", ""}) {
    const auto rules = parse_rules(mark + first + "allreduce,0,65535,-1\n");
    ASSERT_TRUE(rules.is_ok()) << rules.status().message();
    ASSERT_EQ(rules.value().size(), 1u);
    EXPECT_EQ(rules.value()[0].kind, CollectiveKind::kAllReduce);
  }
  EXPECT_FALSE(parse_rules("allreduce,0,65535,-1\n" + mark + "allreduce,0,65535,-1\n").is_ok());
}

TEST(Rules, SizesAreWrittenAsInSettings) {
  const auto rules = parse_rules("allreduce,64K,1.5M,-1\n");
  ASSERT_TRUE(rules.is_ok()) << rules.status().message();
  EXPECT_EQ(rules.value()[0].min_bytes, 65536u);
  EXPECT_EQ(rules.value()[0].max_bytes, 1536u * 1024);
}

/// A pipe that nobody writes to would be waited for.
TEST(Rules, AreInARegularFile) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("rules_pipe_" + std::to_string(getpid())))
          .string();
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const Settings settings = parse_settings({{"RINGPRESS_RULES", path}}, nullptr);
  std::filesystem::remove(path);
  EXPECT_NE(check_settings(settings).message().find("no regular file"), std::string::npos)
      << check_settings(settings).message();
}

TEST(Rules, MayBeWhatExplainPrints) {
  const auto rules = parse_rules(
      "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,"
      "regBuff,dtype,codec,ringpress_algorithm,predicted_us,uncompressed_us\n"
      "allreduce,65536,131071,collnet_direct,simple,-1,-1,4,-1,-1,float32,\"q4\",sra,212.2,888.7\n"
      "allreduce,1048576,2097151,ring,simple,-1,-1,4,-1,-1,float32,\"none\",ring,21.5,21.5\n");
  ASSERT_TRUE(rules.is_ok()) << rules.status().message();
  ASSERT_EQ(rules.value().size(), 2u);
  EXPECT_EQ(rules.value()[0].codec, "q4");
  EXPECT_EQ(rules.value()[0].dtype, DType::kFloat32);
  EXPECT_EQ(rules.value()[0].algorithm, Algorithm::kSra);
  EXPECT_EQ(rules.value()[1].algorithm, Algorithm::kRing);
}

TEST(Rules, AWrongLineIsNamedWithFieldAndWhatIsAllowed) {
  struct Wrong {
    std::string line;
    std::string said;
  };
  const std::vector<Wrong> wrong = {
      {"allreduse,0,-1,-1", "collective_type: \"allreduse\"; allowed: allreduce, reducescatter"},
      {"allreduce,64Q,-1,-1",
       "min_bytes: \"64Q\"; allowed: a size such as 65536, 64K, 1.5M or 2G, or -1 for any"},
      {"allreduce,64K,65535,-1", "max_bytes: \"65535\"; allowed: min_bytes or more"},
      {"allreduce,0,-2,-1", "max_bytes: \"-2\""},
      {"allreduce,0,99999999999999999999999,-1", "max_bytes"},
      {"allreduce,10,5,-1", "max_bytes: \"5\"; allowed: min_bytes or more"},
      {"allreduce,0,-1,srb", "algorithm: \"srb\"; allowed: sra, ring, hier, tree"},
      {"allreduce,0,-1,-1,fast", "protocol: \"fast\"; allowed: ll, ll128, simple"},
      {"allreduce,0,-1,-1,-1,x", "channels: \"x\"; allowed: a whole number"},
      {"allreduce,0,-1,-1,-1,-1,1.5", "nNodes"},
      {"allreduce,0,-1,-1,-1,-1,-1,many", "nRanks"},
      {"allreduce,0,-1,-1,-1,-1,-1,-1,2", "numPipeOps: \"2\"; allowed: -1 alone"},
      {"allreduce,0,-1,-1,-1,-1,-1,-1,-1,1", "regBuff"},
      {"allreduce,0,-1,-1,-1,-1,-1,-1,-1,-1,q4,*,int8", "dtype: \"int8\"; allowed: float32"},
      {"allreduce,0,-1", "fields: \"3\"; allowed: 4 to 13"},
      {"allreduce,0,-1,-1,-1,-1,-1,-1,-1,-1,q4,*,-1,more", "fields: \"14\""},
      {"allreduce,0,-1,-1,-1,-1,-1,-1,-1,-1,\"q4", "quotes"},
      {"allreduce,0,-1,-1,-1,-1,-1,-1,-1,-1,q\"4\"", "quotes"}};
  for (const Wrong& one : wrong) {
    const Status status = parse_rules("# first\n" + one.line + "\n").status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << one.line;
    EXPECT_TRUE(status.message().starts_with("line 2, ")) << status.message();
    EXPECT_NE(status.message().find(one.said), std::string::npos) << status.message();
  }
  const Status header = parse_rules("collective_type,min_bytes,max_bites\n").status();
  EXPECT_NE(header.message().find("maybe max_bytes?"), std::string::npos) << header.message();
}

TEST(Rules, AFileThatCannotBeReadIsTheSettingsMistake) {
  const Settings missing = parse_settings({{"RINGPRESS_RULES", "/nowhere/rules.csv"}}, nullptr);
  EXPECT_EQ(check_settings(missing).message(),
            "RINGPRESS_RULES=/nowhere/rules.csv: No such file or directory");
  const RulesFile wrong("allreduce,0,-1,srb\n");
  const Settings mistaken = parse_settings({{"RINGPRESS_RULES", wrong.path()}}, nullptr);
  EXPECT_NE(mistaken.mistake.find(wrong.path() + ": line 1, algorithm"), std::string::npos);
  EXPECT_TRUE(mistaken.rule_list.empty());
  const RulesFile folder("");
  EXPECT_FALSE(
      check_settings(parse_settings({{"RINGPRESS_RULES", ::testing::TempDir()}}, nullptr)).is_ok());
}

TEST(Rules, CodecsAreChecked) {
  const auto check = [](const std::string& codec) {
    const RulesFile file("allreduce,0,-1,-1,-1,-1,-1,-1,-1,-1,\"" + codec + "\"\n");
    return check_rules(parse_settings({{"RINGPRESS_RULES", file.path()}}, nullptr));
  };
  for (const char* const codec : {"q4", "none", "topk:density=0.1", "lossless", "qsgd", "-1"}) {
    EXPECT_TRUE(check(codec).is_ok()) << codec << ": " << check(codec).message();
  }
  EXPECT_NE(check("q9").message().find("line 1, codec: "), std::string::npos);
  EXPECT_NE(check("powersgd:rank=2").message().find("whole tensors"), std::string::npos);
}

TEST(Rules, NameTheCodecsThatTheyNeed) {
  const RulesFile file(
      "allreduce,0,9,-1,-1,-1,-1,-1,-1,-1,q4\n"
      "allreduce,10,19,-1,-1,-1,-1,-1,-1,-1,none\n"
      "allreduce,20,29,-1,-1,-1,-1,-1,-1,-1,q8\n"
      "allreduce,30,39,-1,-1,-1,-1,-1,-1,-1,q4\n");
  const auto codecs = [&file](const char* mode) {
    return rule_codecs(
        parse_settings({{"RINGPRESS_RULES", file.path()}, {"RINGPRESS", mode}}, nullptr));
  };
  EXPECT_EQ(codecs("on"), (std::vector<std::string>{"q4", "q8"}));
  EXPECT_EQ(codecs("lossless"), (std::vector<std::string>{"lossless"}));
  EXPECT_EQ(codecs("observe"), codecs("on"));
  EXPECT_TRUE(codecs("off").empty());
}

TEST(Rules, AFileIsReadOnceAProcess) {
  const RulesFile file("allreduce,0,-1,-1,-1,-1,-1,-1,-1,-1,q4\n");
  const auto read = [&file] { return parse_settings({{"RINGPRESS_RULES", file.path()}}, nullptr); };
  const Settings before = read();
  std::ofstream(file.path()) << "allreduce,0,-1,-1,-1,-1,-1,-1,-1,-1,q8\n";
  EXPECT_EQ(read().rule_list[0].codec, "q4");
  EXPECT_EQ(agreement_lines(read()), agreement_lines(before));
}

/// What ranks of a communicator did, or why there is none.
struct RuledRank {
  std::string failure;
  std::vector<std::string> codecs;   // Of each call.
  std::vector<std::string> reasons;  // That it stayed exact.
  std::vector<std::vector<float>> results;
};

std::vector<RuledRank> run_ruled(const std::vector<Settings>& settings,
                                 const std::vector<std::size_t>& counts) {
  const auto id = make_unique_id(settings[0]).value();
  std::vector<RuledRank> ranks(settings.size());
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    threads.emplace_back([&, rank] {
      const auto made = Communicator::create(id, static_cast<int>(rank),
                                             static_cast<int>(ranks.size()), settings[rank]);
      ranks[rank].failure = made.status().message();
      if (!made.is_ok()) return;
      for (const std::size_t count : counts) {
        std::vector<float> values = testing::random_gradient(count, 3, static_cast<int>(rank));
        const Status status = made.value()->all_reduce(values.data(), values.data(), count,
                                                       DType::kFloat32, Reduction());
        EXPECT_TRUE(status.is_ok()) << status.message();
        const Statistics statistics = made.value()->statistics();
        ranks[rank].codecs.push_back(statistics.last_codec.substr(0, 4));
        ranks[rank].reasons.push_back(statistics.last_reason);
        ranks[rank].results.push_back(std::move(values));
      }
    });
  }
  threads.clear();
  return ranks;
}

Settings ruled_by(const RulesFile& file, const std::string& name = "") {
  Settings settings = parse_settings({{"RINGPRESS_RULES", file.path()},
                                      {"RINGPRESS_SOCKET_IFNAME", "lo"},
                                      {"RINGPRESS_SHM", "0"},
                                      {"RINGPRESS_TIMEOUT_MS", "100000"}},
                                     nullptr);
  settings.comm_name = name;
  return settings;
}

// Without rules everything would stay exact here: all ranks share one host.
TEST(RuledCommunicators, EachCallGetsWhatTheFirstRuleThatMatchesSays) {
  const RulesFile file(
      "allreduce,0,3999,-1,-1,-1,-1,-1,-1,-1,none\n"
      "allreduce,4000,40000,ring,-1,-1,-1,-1,-1,-1,q8\n"
      "allreduce,0,400000,-1,-1,-1,-1,2,-1,-1,q4\n"
      "allreduce,0,400000,-1,-1,-1,1,-1,-1,-1,q2\n");
  for (const std::size_t world : {2, 3, 4}) {
    const auto ranks =
        run_ruled(std::vector<Settings>(world, ruled_by(file)), {500, 5000, 50000, 200000});
    for (const RuledRank& rank : ranks) {
      EXPECT_EQ(rank.failure, "");
      EXPECT_EQ(rank.codecs,
                (std::vector<std::string>{"none", "q8:b", world == 2 ? "q4:b" : "q2:b", "none"}));
      EXPECT_EQ(rank.reasons[0], "line 1 of RINGPRESS_RULES");
      EXPECT_EQ(rank.reasons[3], "all ranks share one host");
      EXPECT_TRUE(rank.results == ranks[0].results);
    }
  }
}

// As CollNet does it, where each rank is a node and nobody knows how many ranks NCCL has.
TEST(RuledCommunicators, PiecesFollowWhatIsKnownOfThem) {
  const RulesFile file(
      "allreduce,0,99999,-1,-1,-1,-1,16,-1,-1,none\n"
      "allreduce,0,-1,-1,-1,-1,-1,16,-1,-1,q2\n"
      "allreduce,0,399999,-1,-1,-1,2,-1,-1,-1,q8\n"
      "allreduce,0,-1,-1,-1,-1,3,-1,-1,-1,q2\n");
  const auto codec_of = [](Communicator& communicator, std::size_t count) -> std::string {
    std::vector<float> values(count, 1);
    PiecewiseTensor tensor;
    tensor.known = PiecewiseTensor::Known::kTensor;
    tensor.count = count;
    if (!communicator.pieces().start(tensor).is_ok() ||
        !communicator.pieces().run(values.data(), values.data(), 0, count).is_ok()) {
      return "failed";
    }
    return communicator.statistics().last_codec.substr(0, 2);
  };
  Settings settings = ruled_by(file);
  settings.codec.specification = "q4";  // Of what no rule is for.
  const auto id = make_unique_id(settings).value();
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto made = Communicator::create(id, rank, 2, settings);
      ASSERT_TRUE(made.is_ok()) << made.status().message();
      EXPECT_EQ(codec_of(*made.value(), 20000), "no");
      EXPECT_EQ(codec_of(*made.value(), 50000), "q8");
      EXPECT_EQ(codec_of(*made.value(), 200000), "q4");
    });
  }
}

TEST(RuledCommunicators, FilesThatDifferAreRefusedOnAllRanks) {
  const RulesFile one("allreduce,0,-1,-1,-1,-1,-1,-1,-1,-1,q4\n");
  const RulesFile other("allreduce,0,-1,-1,-1,-1,-1,-1,-1,-1,q8\n");
  const RulesFile same("allreduce,0,-1,-1,-1,-1,-1,-1,-1,-1,q4\n");
  for (const RuledRank& rank : run_ruled({ruled_by(one), ruled_by(other)}, {50000})) {
    EXPECT_NE(rank.failure.find("RINGPRESS_RULES has"), std::string::npos) << rank.failure;
  }
  for (const RuledRank& rank : run_ruled({ruled_by(one), ruled_by(same)}, {50000})) {
    EXPECT_EQ(rank.failure, "");
  }
}

TEST(RuledCommunicators, AMistakeIsHeardOnAllRanks) {
  const RulesFile right("allreduce,0,-1,-1\n");
  const RulesFile wrong("allreduce,0,-1,srb\n");
  for (const RuledRank& rank : run_ruled({ruled_by(right), ruled_by(wrong)}, {50000})) {
    EXPECT_NE(rank.failure.find("line 1, algorithm: \"srb\""), std::string::npos) << rank.failure;
  }
  const RulesFile codec("allreduce,0,-1,-1,-1,-1,-1,-1,-1,-1,q9\n");
  for (const RuledRank& rank : run_ruled({ruled_by(codec), ruled_by(codec)}, {50000})) {
    EXPECT_NE(rank.failure.find("line 1, codec: "), std::string::npos) << rank.failure;
  }
}

TEST(RuledCommunicators, NamesDenyAndMustBeTheSame) {
  const RulesFile file(
      "*,0,-1,-1,-1,-1,-1,-1,-1,-1,none,tp_*\n"
      "allreduce,0,-1,-1,-1,-1,-1,-1,-1,-1,q4\n");
  const auto codec_of = [&file](const std::string& name) {
    return run_ruled({ruled_by(file, name), ruled_by(file, name)}, {50000})[1].codecs.at(0);
  };
  EXPECT_EQ(codec_of("tp_0"), "none");
  EXPECT_EQ(codec_of("dp"), "q4:b");
  EXPECT_EQ(codec_of(""), "q4:b");
  for (const RuledRank& rank : run_ruled({ruled_by(file, "tp_0"), ruled_by(file, "dp")}, {5})) {
    EXPECT_NE(rank.failure.find("Name of the communicator"), std::string::npos) << rank.failure;
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin
