// A rank of an elastic job.
#include <dirent.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "ringpress/internal/hash.h"
#include "tests/nccl_plugin/elastic/messages.h"

namespace ringpress::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kSizes[] = {300, 70000, 40000};  // Elements of a step's calls.

int count_in(const char* folder) {
  int count = 0;
  DIR* const opened = opendir(folder);
  while (opened != nullptr && readdir(opened) != nullptr) ++count;
  if (opened != nullptr) closedir(opened);
  return count;
}

Held held_now() {
  Held held;
  held.descriptors = count_in("/proc/self/fd");
  held.threads = count_in("/proc/self/task");
  if (std::FILE* const file = std::fopen("/proc/self/status", "r")) {
    char line[256];
    while (std::fgets(line, sizeof line, file) != nullptr) {
      static_cast<void>(std::sscanf(line, "RssAnon: %ld", &held.kilobytes));
    }
    std::fclose(file);
  }
  return held;
}

void check(ncclResult_t result, const char* what, ncclComm_t comm = nullptr) {
  if (result == ncclSuccess) return;
  throw std::runtime_error(std::string(what) + ": " + ncclGetErrorString(result) + ": " +
                           ncclGetLastError(comm));
}

class Rank {
 public:
  Rank() {
    for (const std::size_t size : kSizes) tensors_.emplace_back(size);
  }

  /// False: it was the last one.
  bool obey(const Order& order, Report* report) {
    const Clock::time_point begun = Clock::now();
    switch (order.kind) {
      case Order::Kind::kMakeId:
        check(ncclGetUniqueId(&report->id), "ncclGetUniqueId");
        return true;
      case Order::Kind::kJoin:
        check(ncclCommInitRank(&comm_, order.size, order.id, order.rank), "ncclCommInitRank");
        break;
      case Order::Kind::kRun:
        run();
        return true;
      case Order::Kind::kShrink:
        shrink(order);
        break;
      case Order::Kind::kMakeGrowId:
        check(ncclCommGetUniqueId(comm_, &report->id), "ncclCommGetUniqueId", comm_);
        return true;
      case Order::Kind::kGrow:
        grow(order);
        break;
      case Order::Kind::kLeave:
        check(ncclCommDestroy(comm_), "ncclCommDestroy");
        return false;
    }
    check(step(), "ncclAllReduce", comm_);
    const auto since = order.kind == Order::Kind::kShrink ? failed_ : begun;
    report->milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - since).count();
    for (const auto& tensor : tensors_) {
      for (const float value : tensor) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof bits);
        report->hash = combine_hash(report->hash, bits);
      }
    }
    report->held = held_now();
    return true;
  }

 private:
  /// Gradients that are alike on all ranks: their sum may lose a little of its size.
  ncclResult_t step() {
    int rank = 0, size = 0;
    check(ncclCommUserRank(comm_, &rank), "ncclCommUserRank", comm_);
    check(ncclCommCount(comm_, &size), "ncclCommCount", comm_);
    for (auto& tensor : tensors_) {
      for (std::size_t i = 0; i < tensor.size(); ++i) {
        tensor[i] = std::sin(static_cast<float>(i)) + 0.01F * static_cast<float>(rank);
      }
      const ncclResult_t result = ncclAllReduce(tensor.data(), tensor.data(), tensor.size(),
                                                ncclFloat, ncclSum, comm_, nullptr);
      if (result != ncclSuccess) return result;
      check_sums(tensor, size);
    }
    return ncclSuccess;
  }

  static void check_sums(const std::vector<float>& sums, int size) {
    double error = 0, length = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const double exact = size * std::sin(static_cast<double>(i)) + 0.005 * size * (size - 1);
      error += (sums[i] - exact) * (sums[i] - exact);
      length += exact * exact;
    }
    if (!(error <= 0.05 * length)) throw std::runtime_error("a sum is wrong");
  }

  void run() {
    while (step() == ncclSuccess) {
    }
    failed_ = Clock::now();
  }

  void shrink(const Order& order) {
    if (order.revokes) check(ncclCommRevoke(comm_, NCCL_REVOKE_DEFAULT), "ncclCommRevoke", comm_);
    int victim = order.rank;
    ncclComm_t left = nullptr;
    const int flags = order.revokes ? NCCL_SHRINK_DEFAULT : NCCL_SHRINK_ABORT;
    check(ncclCommShrink(comm_, &victim, 1, &left, nullptr, flags), "ncclCommShrink", comm_);
    check(order.revokes ? ncclCommDestroy(comm_) : ncclCommAbort(comm_), "the end of the old one");
    comm_ = left;
  }

  void grow(const Order& order) {
    const bool is_new = order.rank >= 0;
    ncclComm_t larger = nullptr;
    const ncclUniqueId* const id = order.keeps_id && !is_new ? nullptr : &order.id;
    check(ncclCommGrow(is_new ? nullptr : comm_, order.size, id, order.rank, &larger, nullptr),
          "ncclCommGrow", comm_);
    if (!is_new) check(ncclCommDestroy(comm_), "ncclCommDestroy");
    comm_ = larger;
  }

  ncclComm_t comm_ = nullptr;
  std::vector<std::vector<float>> tensors_;
  Clock::time_point failed_{};
};

}  // namespace

int work(int channel) {
  Rank rank;
  for (;;) {
    Order order;
    if (recv(channel, &order, sizeof order, 0) != sizeof order) return 1;
    Report report;
    bool goes_on = true;
    try {
      goes_on = rank.obey(order, &report);
    } catch (const std::exception& error) {
      report.is_ok = false;
      std::snprintf(report.text, sizeof report.text, "%s", error.what());
    }
    if (!goes_on) return 0;
    const bool has_report = order.kind != Order::Kind::kRun || !report.is_ok;
    if (has_report) static_cast<void>(send(channel, &report, sizeof report, MSG_NOSIGNAL));
    if (!report.is_ok) return 1;
  }
}

}  // namespace ringpress::testing
