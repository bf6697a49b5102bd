#include "nccl_plugin/session/live/capped_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

#include "nccl_plugin/errors/firewall.h"
#include "nccl_plugin/errors/warn_once.h"

namespace ringpress::nccl_plugin {
namespace {

constexpr int kCappedFlags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
// A rename by another process between an open and a lock: each is seen by the next open.
constexpr int kMostOpens = 4;

bool is_regular(int file, std::size_t* size) {
  struct stat found {};
  if (fstat(file, &found) != 0 || !S_ISREG(found.st_mode)) return false;
  *size = static_cast<std::size_t>(found.st_size);
  return true;
}

}  // namespace

CappedFile::CappedFile(std::string name, std::string path, std::size_t limit, Start start,
                       std::string head)
    : name_(std::move(name)),
      path_(std::move(path)),
      limit_(limit),
      start_(start),
      head_(std::move(head)) {}

void CappedFile::write(std::string_view text) noexcept {
  if (text.empty()) return;
  static_cast<void>(catch_all([&] {
    if (write_now(text)) return Status::ok();
    const int error = errno;
    warn_once(name_ + ": what happens now was not written: " + std::strerror(error));
    return Status::ok();
  }));
}

bool CappedFile::write_now(std::string_view text) {
  const int file = open_current(text.size());
  if (file < 0) return false;
  const bool is_written = append(file, text);
  const int error = errno;
  close(file);
  errno = error;
  return is_written;
}

/// As one write: lines of several processes do not mix.
bool CappedFile::append(int file, std::string_view text) {
  std::string whole;
  std::size_t size = 0;
  if (is_regular(file, &size) && size == 0) whole = head_;
  if (is_torn_ && size != 0) whole += '\n';
  whole += text;
  const ssize_t written = ::write(file, whole.data(), whole.size());
  is_torn_ = written > 0 && static_cast<std::size_t>(written) < whole.size();
  if (is_torn_) errno = ENOSPC;
  return written == static_cast<ssize_t>(whole.size());
}

/// The file, with room for so many bytes more if it is capped, or -1.
int CappedFile::open_current(std::size_t more) {
  for (int turn = 0;; ++turn) {
    const int file = open(path_.c_str(), kCappedFlags, 0600);
    if (file < 0) return -1;
    std::size_t size = 0;
    const bool is_file = is_regular(file, &size);
    if (is_file && std::exchange(start_, Start::kAppend) == Start::kAnew &&
        ftruncate(file, 0) == 0) {
      size = 0;
    }
    if (!is_file || turn == kMostOpens || limit_ == 0 || size == 0 || size + more <= limit_) {
      return file;
    }
    const bool is_renamed = rotate(file, more);
    const int error = errno;
    close(file);
    errno = error;
    if (!is_renamed) return -1;
  }
}

/// False: it cannot be renamed. Another process may have been quicker.
bool CappedFile::rotate(int file, std::size_t more) const {
  // (Where there are no locks, such as on some network file systems, it is renamed all the same.)
  static_cast<void>(flock(file, LOCK_EX));
  std::size_t size = 0;
  if (!is_current(file) || !is_regular(file, &size) || size + more <= limit_) return true;
  return std::rename(path_.c_str(), (path_ + ".1").c_str()) == 0;
}

bool CappedFile::is_current(int file) const {
  struct stat opened {
  }, named{};
  return fstat(file, &opened) == 0 && lstat(path_.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace ringpress::nccl_plugin
