#include "perf/all_reduce/group.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <cstdlib>
#include <cstring>
#include <exception>

#include "nccl_plugin/command/terminal/error.h"

namespace ringpress::perf {
namespace {

/// The library blames the variable that stands for an option.
std::string blame_option(std::string text, const Setting& setting) {
  const std::string variable = "RINGPRESS_CODEC=" + setting.codec;
  const std::size_t at = setting.codec.empty() ? std::string::npos : text.find(variable);
  if (at == std::string::npos) return text;
  return text.replace(at, variable.size(), setting.option + " " + setting.codec);
}

}  // namespace

ScopedVariable::ScopedVariable(const char* name, const std::string& value) : name_(name) {
  if (value.empty()) return;
  const char* before = std::getenv(name);
  if (before != nullptr) before_ = before;
  setenv(name, value.c_str(), 1);
  changed_ = true;
}

ScopedVariable::~ScopedVariable() {
  if (!changed_) return;
  if (before_) {
    setenv(name_, before_->c_str(), 1);
  } else {
    unsetenv(name_);
  }
}

void require(ncclResult_t result, const char* what, ncclComm_t comm) {
  if (result == ncclSuccess) return;
  const char* detail = ncclGetLastError(comm);
  const bool has_detail = detail != nullptr && *detail != '\0';
  throw terminal::Error(fmt::format("{}: {}{}{}", what, ncclGetErrorString(result),
                                    has_detail ? ": " : "", has_detail ? detail : ""));
}

Group::Group(const Setting& setting, const ncclUniqueId& id, int rank, int ranks)
    : rank_(rank), ranks_(ranks), barrier_buffer_(sizeof(std::int32_t)) {
  const ScopedVariable codec("RINGPRESS_CODEC", setting.codec);
  const ScopedVariable algorithm("RINGPRESS_ALGO", setting.algorithm);
  try {
    require(ncclCommInitRank(&comm_, ranks, id, rank), "ncclCommInitRank");
  } catch (const terminal::Error& error) {
    throw terminal::Error(blame_option(error.what(), setting));
  }
}

Group::~Group() {
  if (std::uncaught_exceptions() > 0) {
    ncclCommAbort(comm_);
  } else {
    ncclCommDestroy(comm_);
  }
}

void Group::barrier() {
  require(ncclAllReduce(barrier_buffer_.data(), barrier_buffer_.data(), 1, ncclInt32, ncclMax,
                        comm_, stream_.handle()),
          "barrier", comm_);
  stream_.synchronize();
}

void Group::broadcast(void* data, std::size_t bytes) {
  DeviceBuffer buffer(bytes);
  buffer.write(0, data, bytes);
  require(ncclBroadcast(buffer.data(), buffer.data(), bytes, ncclUint8, 0, comm_, stream_.handle()),
          "ncclBroadcast", comm_);
  stream_.synchronize();
  buffer.read(0, data, bytes);
}

std::vector<std::byte> Group::gather(const void* data, std::size_t bytes) {
  DeviceBuffer own(bytes);
  DeviceBuffer all(bytes * static_cast<std::size_t>(ranks_));
  own.write(0, data, bytes);
  require(ncclAllGather(own.data(), all.data(), bytes, ncclUint8, comm_, stream_.handle()),
          "ncclAllGather", comm_);
  stream_.synchronize();
  std::vector<std::byte> gathered(all.bytes());
  all.read(0, gathered.data(), gathered.size());
  return gathered;
}

std::vector<double> Group::gather(const std::vector<double>& values) {
  const std::vector<std::byte> bytes = gather(values.data(), values.size() * sizeof(double));
  std::vector<double> gathered(bytes.size() / sizeof(double));
  if (!gathered.empty()) std::memcpy(gathered.data(), bytes.data(), bytes.size());
  return gathered;
}

void Group::sum(std::vector<double>& values) {
  const std::size_t bytes = values.size() * sizeof(double);
  DeviceBuffer buffer(bytes);
  buffer.write(0, values.data(), bytes);
  require(ncclAllReduce(buffer.data(), buffer.data(), values.size(), ncclFloat64, ncclSum, comm_,
                        stream_.handle()),
          "summing in double precision", comm_);
  stream_.synchronize();
  buffer.read(0, values.data(), bytes);
}

std::optional<ringpressStatistics_t> Group::statistics() const {
  using GetStatistics = int (*)(void*, ringpressStatistics_t*);
  static const auto get_statistics =
      reinterpret_cast<GetStatistics>(dlsym(RTLD_DEFAULT, "ringpressGetStatistics"));
  if (get_statistics == nullptr) return std::nullopt;
  ringpressStatistics_t statistics = {};
  statistics.size = sizeof statistics;
  require(static_cast<ncclResult_t>(get_statistics(comm_, &statistics)), "ringpressGetStatistics",
          comm_);
  return statistics;
}

}  // namespace ringpress::perf
