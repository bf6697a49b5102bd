#include "nccl_plugin/session/settings/setting_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ringpress::nccl_plugin {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;

Result<std::string> read_open_file(int file) {
  struct stat about = {};
  if (fstat(file, &about) != 0) return Status(Code::kInvalidArgument, std::strerror(errno));
  if (S_ISDIR(about.st_mode)) return Status(Code::kInvalidArgument, std::strerror(EISDIR));
  if (!S_ISREG(about.st_mode)) return Status(Code::kInvalidArgument, "it is no regular file");
  std::string text(kMostBytes + 1, '\0');
  std::size_t bytes = 0;
  while (bytes < text.size()) {
    const ssize_t some = read(file, text.data() + bytes, text.size() - bytes);
    if (some < 0 && errno == EINTR) continue;
    if (some < 0) return Status(Code::kInvalidArgument, std::strerror(errno));
    if (some == 0) break;
    bytes += static_cast<std::size_t>(some);
  }
  if (bytes > kMostBytes) return Status(Code::kInvalidArgument, "it is larger than a megabyte");
  text.resize(bytes);
  return text;
}

}  // namespace

Result<std::string> read_setting_file(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return Status(Code::kInvalidArgument, std::strerror(errno));
  Result<std::string> text = read_open_file(file);
  close(file);
  return text;
}

}  // namespace ringpress::nccl_plugin
