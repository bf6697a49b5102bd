// The file of a state: what is written is read, and nothing else is.
#include "nccl_plugin/session/state/state_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace ringpress::nccl_plugin {
namespace {

class StateFile : public ::testing::Test {
 protected:
  StateFile() {
    std::string name = (std::filesystem::temp_directory_path() / "state-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = folder_ / "state";
  }
  ~StateFile() override { std::filesystem::remove_all(folder_); }

  std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void put(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  /// As whoever knows the format may.
  void put_with_checksum(std::string bytes) const {
    const std::size_t end = bytes.size() - sizeof(std::uint64_t);
    const std::uint64_t checksum = XXH3_64bits(bytes.data(), end);
    std::memcpy(&bytes[end], &checksum, sizeof checksum);
    put(bytes);
  }
  Status write(const std::vector<float>& numbers) const {
    return write_state_file(path_, [&](StateWriter& to) { to.put_list(numbers); });
  }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  std::filesystem::path folder_;
  std::string path_;
};

std::vector<float> many_numbers() {
  std::vector<float> numbers(700001);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  return numbers;
}

TEST_F(StateFile, IsReadAsItWasWritten) {
  ASSERT_TRUE(write(many_numbers()).is_ok());
  EXPECT_EQ(files(), 1U);
  const OpenState state = open_state_file(path_);
  ASSERT_NE(state.reader, nullptr) << state.reason;
  EXPECT_EQ(state.reader->get_list<float>(), many_numbers());
  EXPECT_EQ(state.reader->left(), 0U);
  EXPECT_TRUE(state.reader->is_ok());
  EXPECT_EQ(state.reader->get<int>(), 0);
  EXPECT_FALSE(state.reader->is_ok());
}

TEST_F(StateFile, NoPartOfItIsTakenForIt) {
  ASSERT_TRUE(write({1, 2, 3}).is_ok());
  const std::string whole = bytes();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    put(whole.substr(0, size));
    EXPECT_EQ(open_state_file(path_).outcome, StateOutcome::kCorrupt) << size;
  }
  put(whole + "x");
  EXPECT_EQ(open_state_file(path_).outcome, StateOutcome::kCorrupt);
}

TEST_F(StateFile, NoBitOfItMayChange) {
  ASSERT_TRUE(write({1, 2, 3}).is_ok());
  const std::string whole = bytes();
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string changed = whole;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    put(changed);
    EXPECT_EQ(open_state_file(path_).outcome, StateOutcome::kCorrupt) << bit;
  }
}

TEST_F(StateFile, ANumberOfAnotherVersionIsNamed) {
  ASSERT_TRUE(write({1, 2, 3}).is_ok());
  std::string older = bytes();
  older[8] = static_cast<char>(kStateVersion - 1);
  put_with_checksum(older);
  const OpenState state = open_state_file(path_);
  EXPECT_EQ(state.outcome, StateOutcome::kOtherVersion);
  EXPECT_NE(state.reason.find("version is " + std::to_string(kStateVersion - 1)), std::string::npos)
      << state.reason;
}

/// What was there before stays, and nothing is left beside it.
TEST_F(StateFile, IsThereWholeOrNotAtAll) {
  ASSERT_TRUE(write({1, 2, 3}).is_ok());
  const std::string before = bytes();
  EXPECT_THROW(static_cast<void>(write_state_file(path_,
                                                  [](StateWriter& to) {
                                                    to.put(std::uint64_t{1});
                                                    throw std::bad_alloc();
                                                  })),
               std::bad_alloc);
  EXPECT_EQ(bytes(), before);
  EXPECT_EQ(files(), 1U);
  EXPECT_EQ(write_state_file(folder_ / "none" / "state", [](StateWriter&) {}).code(),
            Code::kSystem);
  std::filesystem::create_directory(folder_ / "folder");
  EXPECT_EQ(write_state_file(folder_ / "folder", [](StateWriter&) {}).code(), Code::kSystem);
  EXPECT_EQ(files(), 2U);
}

TEST_F(StateFile, ReplacesNothingButFiles) {
  const std::string pipe = folder_ / "pipe", link = folder_ / "link";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/null", link);
  std::filesystem::create_directory(folder_ / "folder");
  for (const std::string& place : {pipe, link, std::string(folder_ / "folder")}) {
    const Status status = write_state_file(place, [](StateWriter&) {});
    EXPECT_EQ(status.code(), Code::kSystem);
    EXPECT_EQ(status.message(), place + ": it is no file");
  }
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(files(), 3U);
}

/// Such as `latest`, beside the states of several steps.
TEST_F(StateFile, IsWrittenWhereALinkLeads) {
  const std::filesystem::path steps = folder_ / "steps", latest = folder_ / "latest";
  std::filesystem::create_directory(steps);
  std::filesystem::create_symlink("steps/hundred", latest);
  std::filesystem::create_symlink("latest", path_);
  std::ofstream(steps / "hundred") << "the one before";
  ASSERT_TRUE(write({1, 2, 3}).is_ok());
  EXPECT_EQ(std::filesystem::read_symlink(path_), "latest");
  EXPECT_EQ(std::filesystem::read_symlink(latest), "steps/hundred");
  EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(steps / "hundred")));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(steps), {}), 1);
  EXPECT_EQ(files(), 3U);
  const OpenState state = open_state_file(path_);
  ASSERT_NE(state.reader, nullptr) << state.reason;
  EXPECT_EQ(state.reader->get_list<float>(), (std::vector<float>{1, 2, 3}));
}

TEST_F(StateFile, ALinkToNothingIsLeftAlone) {
  const std::string round = folder_ / "round";
  std::filesystem::create_symlink("nothing", path_);
  std::filesystem::create_symlink("round", round);
  EXPECT_EQ(write({1, 2, 3}).message(), path_ + ": it is a link to nothing");
  EXPECT_EQ(write_state_file(round, [](StateWriter&) {}).message(),
            round + ": Too many levels of symbolic links");
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_TRUE(std::filesystem::is_symlink(round));
  EXPECT_EQ(files(), 2U);
}

TEST_F(StateFile, ASaveThatWasKilledLeavesNothingForEver) {
  const pid_t killed = fork();
  if (killed == 0) {
    static_cast<void>(write_state_file(path_, [](StateWriter&) { std::raise(SIGKILL); }));
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(killed, &status, 0), killed);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_EQ(files(), 1U);
  EXPECT_EQ(open_state_file(path_).outcome, StateOutcome::kMissing);
  ASSERT_TRUE(write({1, 2, 3}).is_ok());
  EXPECT_EQ(files(), 1U);
  EXPECT_EQ(open_state_file(path_).outcome, StateOutcome::kLoaded);
}

/// (Nobody should: each rank has a file of its own.)
TEST_F(StateFile, OfTwoSavesAtOnceTheLaterOneCounts) {
  std::size_t others = 0;
  const Status status = write_state_file(path_, [&](StateWriter&) {
    if (others++ == 0) {
      EXPECT_TRUE(write({1, 2, 3}).is_ok());
    }
  });
  EXPECT_EQ(status.message(), path_ + ": another save has begun");
  EXPECT_EQ(files(), 1U);
  EXPECT_EQ(open_state_file(path_).outcome, StateOutcome::kLoaded);
}

TEST_F(StateFile, MistakesNameThePathThatWasGiven) {
  const std::string nowhere = folder_ / "none" / "state";
  EXPECT_EQ(write_state_file(nowhere, [](StateWriter&) {}).message(),
            nowhere + ": No such file or directory");
}

TEST(StateReader, TakesNoMemoryForWhatIsNotThere) {
  StateBytes bytes;
  bytes.put<std::uint64_t>(std::uint64_t{1} << 60);
  StateView list(bytes.bytes());
  EXPECT_TRUE(list.get_list<float>().empty());
  EXPECT_FALSE(list.is_ok());
  StateView text(bytes.bytes());
  EXPECT_TRUE(text.get_text(100).empty());
  EXPECT_FALSE(text.is_ok());
}

}  // namespace
}  // namespace ringpress::nccl_plugin
