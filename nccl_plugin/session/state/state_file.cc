#include "nccl_plugin/session/state/state_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

namespace ringpress::nccl_plugin {
namespace {

constexpr std::array<char, 8> kStateMagic = {'r', 'p', 's', 't', 'a', 't', 'e', '\0'};
constexpr std::uint64_t kStateHeaderBytes = 24;
constexpr std::uint64_t kStateTrailerBytes = 8;
constexpr std::size_t kStateBufferBytes = std::size_t{1} << 20;
// Added to the name of a file that is being written. It is the same each time, so that the next
// save clears away what a killed one has left.
constexpr const char* kBesideState = ".ringpress-tmp";
constexpr const char* kNoFile = "it is no file";
constexpr const char* kLinkToNothing = "it is a link to nothing";

/// Of what comes piece by piece.
class StateChecksum {
 public:
  StateChecksum() { XXH3_64bits_reset(&state_); }
  void add(std::span<const std::byte> bytes) {
    XXH3_64bits_update(&state_, bytes.data(), bytes.size());
  }
  std::uint64_t value() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

class StateDescriptor {
 public:
  explicit StateDescriptor(int file) : file_(file) {}
  ~StateDescriptor() { static_cast<void>(close()); }
  StateDescriptor(StateDescriptor&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  StateDescriptor& operator=(StateDescriptor&&) = delete;

  int get() const { return file_; }
  bool close() { return file_ < 0 || ::close(std::exchange(file_, -1)) == 0; }

 private:
  int file_;
};

/// Into a file, from its beginning on. The first error is kept.
class StateFileWriter final : public StateWriter {
 public:
  explicit StateFileWriter(int file) : file_(file) { buffer_.reserve(kStateBufferBytes); }

  void write(std::span<const std::byte> bytes) override {
    checksum_.add(bytes);
    bytes_ += bytes.size();
    if (buffer_.size() + bytes.size() > kStateBufferBytes) flush();
    if (bytes.size() >= kStateBufferBytes) return write_now(bytes);
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
  void flush() {
    write_now(buffer_);
    buffer_.clear();
  }

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t checksum() const { return checksum_.value(); }
  int error() const { return error_; }

 private:
  void write_now(std::span<const std::byte> bytes) {
    while (error_ == 0 && !bytes.empty()) {
      const ssize_t written = ::write(file_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) error_ = errno;
      if (written > 0) bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  int file_;
  int error_ = 0;
  std::uint64_t bytes_ = 0;
  StateChecksum checksum_;
  std::vector<std::byte> buffer_;
};

/// The bytes of an open file from one place up to another.
class StateFileReader final : public StateReader {
 public:
  StateFileReader(StateDescriptor file, std::uint64_t first, std::uint64_t end)
      : file_(std::move(file)), next_(first), end_(end) {}

  std::uint64_t left() const override { return end_ - next_ + (buffer_.size() - taken_); }

 protected:
  bool read_some(std::span<std::byte> to) override {
    while (!to.empty()) {
      if (taken_ == buffer_.size() && !fill()) return false;
      const std::size_t bytes = std::min(to.size(), buffer_.size() - taken_);
      std::memcpy(to.data(), buffer_.data() + taken_, bytes);
      taken_ += bytes;
      to = to.subspan(bytes);
    }
    return true;
  }

 private:
  bool fill() {
    const std::uint64_t wanted = std::min<std::uint64_t>(kStateBufferBytes, end_ - next_);
    buffer_.resize(static_cast<std::size_t>(wanted));
    taken_ = 0;
    ssize_t got = -1;
    do {
      got = pread(file_.get(), buffer_.data(), buffer_.size(), static_cast<off_t>(next_));
    } while (got < 0 && errno == EINTR);
    buffer_.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    next_ += buffer_.size();
    return got > 0;
  }

  StateDescriptor file_;
  std::uint64_t next_;  // That the buffer is filled from.
  const std::uint64_t end_;
  std::vector<std::byte> buffer_;
  std::size_t taken_ = 0;  // Of the buffer.
};

/// Where the length stands: it is known at the end.
void write_state_header(StateWriter& to, std::uint64_t bytes) {
  to.put_all(std::span<const char>(kStateMagic));
  to.put(kStateVersion);
  to.put(std::uint32_t{0});
  to.put(bytes);
}

/// Counts.
class StateLength final : public StateWriter {
 public:
  void write(std::span<const std::byte> bytes) override { bytes_ += bytes.size(); }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::uint64_t bytes_ = 0;
};

int write_whole_state(int file, const std::function<void(StateWriter&)>& save) {
  StateLength length;
  save(length);
  StateFileWriter writer(file);
  write_state_header(writer, kStateHeaderBytes + length.bytes() + kStateTrailerBytes);
  save(writer);
  writer.put(writer.checksum());
  writer.flush();
  if (writer.error() != 0) return writer.error();
  return fsync(file) == 0 ? 0 : errno;
}

/// So that the name is on the disk, too. Where folders cannot be synced, nothing is lost by it.
void sync_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const StateDescriptor file(
      open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file.get() >= 0) static_cast<void>(fsync(file.get()));
}

Status state_file_error(const std::string& path, int error) {
  return {Code::kSystem, path + ": " + std::strerror(error)};
}

/// The path, or where it leads if it is a link: that stays.
Result<std::string> state_place(const std::string& path) {
  struct stat there {};
  if (lstat(path.c_str(), &there) != 0 || !S_ISLNK(there.st_mode)) return path;
  const std::unique_ptr<char, void (*)(void*)> place(realpath(path.c_str(), nullptr), std::free);
  if (place != nullptr) return std::string(place.get());
  if (errno == ENOENT) return Status(Code::kSystem, path + ": " + kLinkToNothing);
  return state_file_error(path, errno);
}

OpenState refused_state(StateOutcome outcome, std::string reason) {
  return {outcome, std::move(reason), nullptr};
}

/// Of all bytes but the last; no value: they cannot be read.
bool has_state_checksum(StateReader& whole) {
  StateChecksum checksum;
  std::vector<std::byte> piece;
  while (whole.is_ok() && whole.left() > kStateTrailerBytes) {
    piece.resize(static_cast<std::size_t>(
        std::min<std::uint64_t>(kStateBufferBytes, whole.left() - kStateTrailerBytes)));
    whole.read(piece);
    checksum.add(piece);
  }
  const auto expected = whole.get<std::uint64_t>();
  return whole.is_ok() && expected == checksum.value();
}

/// False: another process writes a file of that name by now.
bool is_named(const StateDescriptor& file, const std::string& name) {
  struct stat own {
  }, named{};
  return fstat(file.get(), &own) == 0 && stat(name.c_str(), &named) == 0 &&
         own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

/// A duplicate, so that it is read from its beginning by whoever has it.
StateDescriptor duplicate(const StateDescriptor& file) {
  return StateDescriptor(fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
}

}  // namespace

Status write_state_file(const std::string& path, const std::function<void(StateWriter&)>& save) {
  struct stat there {};
  if (stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    return {Code::kSystem, path + ": " + kNoFile};
  }
  RINGPRESS_ASSIGN_OR_RETURN(const std::string place, state_place(path));
  const std::string temporary = place + kBesideState;
  unlink(temporary.c_str());  // Of a save that was killed.
  constexpr int kNewFile = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  StateDescriptor file(open(temporary.c_str(), kNewFile, S_IRUSR | S_IWUSR));
  if (file.get() < 0) return state_file_error(path, errno);
  int error = 0;
  try {
    error = write_whole_state(file.get(), save);
  } catch (...) {
    unlink(temporary.c_str());
    throw;
  }
  if (!is_named(file, temporary)) return {Code::kSystem, path + ": another save has begun"};
  if (!file.close() && error == 0) error = errno;
  if (error == 0 && rename(temporary.c_str(), place.c_str()) != 0) error = errno;
  if (error != 0) {
    unlink(temporary.c_str());
    return state_file_error(path, error);
  }
  sync_folder_of(place);
  return Status::ok();
}

OpenState open_state_file(const std::string& path) {
  StateDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    const bool is_missing = errno == ENOENT || errno == ENOTDIR;
    return refused_state(is_missing ? StateOutcome::kMissing : StateOutcome::kUnreadable,
                         std::strerror(errno));
  }
  struct stat found {};
  if (fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode)) {
    return refused_state(StateOutcome::kUnreadable, kNoFile);
  }
  const auto bytes = static_cast<std::uint64_t>(found.st_size);
  if (bytes < kStateHeaderBytes + kStateTrailerBytes) {
    return refused_state(StateOutcome::kCorrupt, "it is cut short");
  }
  StateFileReader whole(duplicate(file), 0, bytes);
  std::array<char, 8> magic{};
  whole.read(std::as_writable_bytes(std::span(magic)));
  const auto version = whole.get<std::uint32_t>();
  static_cast<void>(whole.get<std::uint32_t>());
  const auto written_bytes = whole.get<std::uint64_t>();
  if (!whole.is_ok()) return refused_state(StateOutcome::kUnreadable, "it cannot be read");
  if (magic != kStateMagic) return refused_state(StateOutcome::kCorrupt, "it is of another kind");
  StateFileReader again(duplicate(file), 0, bytes);
  if (written_bytes != bytes || !has_state_checksum(again)) {
    return refused_state(StateOutcome::kCorrupt, "it is cut short or was changed");
  }
  if (version != kStateVersion) {
    return refused_state(StateOutcome::kOtherVersion, "its version is " + std::to_string(version) +
                                                          ", this library's " +
                                                          std::to_string(kStateVersion));
  }
  return {StateOutcome::kLoaded, "",
          std::make_unique<StateFileReader>(std::move(file), kStateHeaderBytes,
                                            bytes - kStateTrailerBytes)};
}

}  // namespace ringpress::nccl_plugin
