#include "nccl_plugin/session/tuning/calibration_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "compress_kernels/factory.h"
#include "ringpress/version.h"

namespace ringpress::nccl_plugin::tuning {
namespace {

constexpr std::string_view kFirstLine = "ringpress calibration 3";
constexpr std::size_t kLargestFileBytes = 64 * 1024;

std::string hexadecimal(std::uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return text;
}

/// Reads back as the same number, whatever the program's locale.
std::string exact(double number) {
  char text[32];
  const std::to_chars_result end = std::to_chars(text, text + sizeof text, number);
  return " " + std::string(text, end.ptr);
}

std::string written(const LinkSpeed& link) {
  return exact(link.latency_seconds) + exact(link.bytes_per_second) + "\n";
}

std::string checksum_line(std::string_view text) {
  return "end " + hexadecimal(XXH3_64bits(text.data(), text.size())) + "\n";
}

Status corrupt(const std::string& what) {
  return {Code::kCorrupt, what};
}

bool read_positive(std::istringstream& line, double* number, double smallest) {
  std::string text;
  if (!(line >> text)) return false;
  const char* const last = text.data() + text.size();
  const std::from_chars_result end = std::from_chars(text.data(), last, *number);
  return end.ec == std::errc() && end.ptr == last && std::isfinite(*number) && *number >= smallest;
}

bool read_cost(std::istringstream& line, OperationCost* cost) {
  return read_positive(line, &cost->start_seconds, 0) &&
         read_positive(line, &cost->seconds_per_byte, 0);
}

bool read_link(std::istringstream& line, LinkSpeed* link) {
  return read_positive(line, &link->latency_seconds, 0) &&
         read_positive(line, &link->bytes_per_second, 1);
}

Status read_codec(std::istringstream& line, Calibrations* found) {
  std::string type;
  CodecSpeed codec;
  const bool is_whole = line >> type >> codec.codec && read_positive(line, &codec.ratio, 1e-9) &&
                        read_positive(line, &codec.error, 0) && read_cost(line, &codec.encode) &&
                        read_cost(line, &codec.decode) && read_cost(line, &codec.hop);
  if (!is_whole) return corrupt("a codec that is not whole");
  const Status known = compress_kernels::normalize_specification(codec.codec).status();
  if (!known.is_ok()) return corrupt(known.message());
  for (std::size_t i = 0; i < kTunedTypes.size(); ++i) {
    if (type != dtype_name(kTunedTypes[i])) continue;
    found->by_type[i].codecs.push_back(std::move(codec));
    return Status::ok();
  }
  return corrupt("a codec of the type " + type);
}

}  // namespace

std::string CalibrationKey::text() const {
  return std::to_string(kLibraryVersion) + " " + std::to_string(ranks) + " " +
         std::to_string(ranks_per_host) + " " + budget + " " + hosts;
}

std::string write_calibrations(const Calibrations& calibrations, const CalibrationKey& key) {
  std::string text(kFirstLine);
  text += "\nof " + key.text() + "\nlink" + written(calibrations.link());
  if (key.ranks_per_host > 1) text += "inside" + written(calibrations.inside());
  for (std::size_t i = 0; i < kTunedTypes.size(); ++i) {
    for (const CodecSpeed& codec : calibrations.by_type[i].codecs) {
      text += std::string("codec ") + dtype_name(kTunedTypes[i]) + " " + codec.codec +
              exact(codec.ratio) + exact(codec.error);
      for (const OperationCost& cost : {codec.encode, codec.decode, codec.hop}) {
        text += exact(cost.start_seconds) + exact(cost.seconds_per_byte);
      }
      text += "\n";
    }
  }
  return text + checksum_line(text);
}

Result<Calibrations> read_calibrations(std::string_view text, const CalibrationKey& key) {
  const std::size_t end = text.rfind("end ");
  if (end == std::string_view::npos || text.substr(end) != checksum_line(text.substr(0, end))) {
    return corrupt("it is cut short or was changed");
  }
  std::istringstream lines{std::string(text.substr(0, end))};
  std::string line;
  if (!std::getline(lines, line) || line != kFirstLine) return corrupt("it is of another kind");
  if (!std::getline(lines, line) || line != "of " + key.text()) {
    return corrupt("it is of another version or of other ranks");
  }
  Calibrations found;
  LinkSpeed link, inside;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "link" || kind == "inside") {
      if (!read_link(words, kind == "link" ? &link : &inside)) {
        return corrupt("a link that is not whole");
      }
    } else if (kind == "codec") {
      RINGPRESS_RETURN_IF_ERROR(read_codec(words, &found));
    } else {
      return corrupt("a line of another kind");
    }
  }
  found.set_links(link, inside);
  const bool has_links =
      link.bytes_per_second != 0 && (key.ranks_per_host == 1 || inside.bytes_per_second != 0);
  for (const Calibration& one : found.by_type) {
    if (!has_links || one.codecs.empty() || !is_no_codec(one.codecs[0].codec)) {
      return corrupt("something is missing");
    }
  }
  return found;
}

std::string calibration_path(const CallSettings& settings, const CalibrationKey& key) {
  if (settings.cache.is_off) return "";
  std::string folder = settings.cache.folder;
  if (folder.empty()) {
    const char* const cache = std::getenv("XDG_CACHE_HOME");
    const char* const home = std::getenv("HOME");
    if (cache != nullptr && cache[0] == '/') {
      folder = std::string(cache) + "/ringpress";
    } else if (home != nullptr && home[0] == '/') {
      folder = std::string(home) + "/.cache/ringpress";
    } else {
      return "";
    }
  }
  const std::string text = key.text();
  return folder + "/calibration-" + hexadecimal(XXH3_64bits(text.data(), text.size()));
}

Result<std::string> load_calibration_file(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::string();
    return Status(Code::kSystem, std::strerror(errno));
  }
  struct stat found {};
  Status problem = Status::ok();
  if (fstat(file, &found) != 0 || !S_ISREG(found.st_mode)) {
    problem = {Code::kSystem, "it is no file"};
  } else if (found.st_uid != geteuid()) {
    problem = {Code::kSystem, "it is not this user's"};
  } else if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    problem = {Code::kSystem, "others may write it"};
  }
  std::string text(kLargestFileBytes, '\0');
  const ssize_t bytes = problem.is_ok() ? read(file, text.data(), text.size()) : 0;
  if (bytes < 0) problem = {Code::kSystem, std::strerror(errno)};
  if (bytes == 0 && problem.is_ok()) problem = {Code::kSystem, "it is empty"};
  close(file);
  RINGPRESS_RETURN_IF_ERROR(problem);
  text.resize(static_cast<std::size_t>(bytes));
  return text;
}

Status save_calibration_file(const std::string& path, const std::string& text) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  std::string temporary = path + ".XXXXXX";
  const int file = mkostemp(temporary.data(), O_CLOEXEC);
  if (file < 0) return {Code::kSystem, std::strerror(errno)};
  const bool is_written =
      write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  close(file);
  if (is_written && rename(temporary.c_str(), path.c_str()) == 0) return Status::ok();
  const Status failed(Code::kSystem, std::strerror(is_written ? errno : error));
  unlink(temporary.c_str());
  return failed;
}

}  // namespace ringpress::nccl_plugin::tuning
