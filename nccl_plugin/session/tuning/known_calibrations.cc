#include "nccl_plugin/session/tuning/known_calibrations.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <span>
#include <stdexcept>
#include <utility>

#include "nccl_plugin/errors/warn_once.h"
#include "ringpress/internal/log.h"

namespace ringpress::nccl_plugin::tuning {
namespace {

// Characters, in a state.
constexpr std::uint64_t kLongestCalibration = std::uint64_t{64} * 1024;

std::size_t position_of(DType dtype) {
  for (std::size_t i = 0; i < kTunedTypes.size(); ++i) {
    if (kTunedTypes[i] == dtype) return i;
  }
  throw std::logic_error("a type that is never compressed");
}

std::string own_host() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "?";
  return name;
}

/// The same on all ranks of the same hosts, but for a coincidence, which still_hold() notices.
Result<std::string> name_hosts(Peers& peers, const std::string& interfaces) {
  const std::size_t hash =
      std::hash<std::string>()(own_host() + "/" + interfaces) & ((1ull << 52) - 1);
  double bounds[] = {static_cast<double>(hash), -static_cast<double>(hash)};
  RINGPRESS_RETURN_IF_ERROR(peers.max(bounds));
  return std::to_string(static_cast<std::uint64_t>(bounds[0])) + "-" +
         std::to_string(static_cast<std::uint64_t>(-bounds[1]));
}

std::string described(const LinkSpeed& link) {
  char text[64];
  std::snprintf(text, sizeof text, "latency %.0f us, %.3f Gb/s", link.latency_seconds * 1e6,
                link.bytes_per_second * 8e-9);
  return text;
}

std::string described(const Calibrations& calibrations, int ranks_per_host) {
  if (ranks_per_host == 1) return described(calibrations.link());
  return described(calibrations.link()) + " between hosts of " + std::to_string(ranks_per_host) +
         ", " + described(calibrations.inside()) + " inside";
}

}  // namespace

KnownCalibrations::KnownCalibrations(const Settings& settings, Peers& peers)
    : settings_(settings), interfaces_(settings.address.interfaces), peers_(peers) {}

const Calibration& KnownCalibrations::of(DType dtype) const {
  return found_->by_type[position_of(dtype)];
}

Status KnownCalibrations::find() {
  if (found_ != nullptr) return Status::ok();
  const std::uint64_t sent_before = peers_.sent_bytes();
  Status status = ask_or_calibrate();
  sent_bytes_ += peers_.sent_bytes() - sent_before;
  return status;
}

/// Sets found_.
Status KnownCalibrations::ask_or_calibrate() {
  const auto begin = std::chrono::steady_clock::now();
  RINGPRESS_ASSIGN_OR_RETURN(std::string hosts, name_hosts(peers_, interfaces_));
  RINGPRESS_ASSIGN_OR_RETURN(ranks_per_host_, count_ranks_per_host(peers_));
  const CalibrationKey key{peers_.size(), ranks_per_host_, settings_.budget.codec,
                           std::move(hosts)};
  cache_path_ = calibration_path(settings_, key);
  RINGPRESS_ASSIGN_OR_RETURN(const std::string cached, ask_cache(key));
  if (!cached.empty()) {
    RINGPRESS_ASSIGN_OR_RETURN(Calibrations found, read_calibrations(cached, key));
    RINGPRESS_ASSIGN_OR_RETURN(const bool holds, still_hold(peers_, found, ranks_per_host_));
    if (holds) found_ = std::make_unique<Calibrations>(std::move(found));
    if (!holds) log_line(LogLevel::kInfo, "%s no longer holds", cache_path_.c_str());
  }
  if (found_ == nullptr) {
    RINGPRESS_ASSIGN_OR_RETURN(Calibrations found, calibrate(peers_, settings_, ranks_per_host_));
    found_ = std::make_unique<Calibrations>(std::move(found));
    keep(key);
  }
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin;
  log_line(LogLevel::kInfo, "%d ranks: %s; known after %.0f ms", peers_.size(),
           described(*found_, ranks_per_host_).c_str(), taken.count());
  return Status::ok();
}

/// The cached text, from rank 0 to all; empty if there is none that can be trusted.
Result<std::string> KnownCalibrations::ask_cache(const CalibrationKey& key) {
  std::string text;
  if (peers_.rank() == 0 && !cache_path_.empty()) {
    Result<std::string> loaded = load_calibration_file(cache_path_);
    if (loaded.is_ok()) text = std::move(loaded).value();
    Status problem = loaded.status();
    if (problem.is_ok() && !text.empty()) problem = read_calibrations(text, key).status();
    if (!problem.is_ok()) {
      warn_once("measured anew: " + cache_path_ + ": " + problem.message());
      text.clear();
    }
  }
  std::uint64_t bytes = text.size();
  RINGPRESS_RETURN_IF_ERROR(peers_.broadcast(std::as_writable_bytes(std::span(&bytes, 1))));
  text.resize(bytes);
  if (bytes != 0) {
    RINGPRESS_RETURN_IF_ERROR(peers_.broadcast(std::as_writable_bytes(std::span(text))));
  }
  return text;
}

void KnownCalibrations::keep(const CalibrationKey& key) const {
  if (peers_.rank() != 0 || cache_path_.empty()) return;
  const Status saved = save_calibration_file(cache_path_, write_calibrations(*found_, key));
  if (saved.is_ok()) return;
  warn_once("what was measured is not kept: " + cache_path_ + ": " + saved.message());
}

void KnownCalibrations::drop_file() const {
  if (!cache_path_.empty()) unlink(cache_path_.c_str());
}

/// Of whatever ranks: that they are the same is not for this to find out.
CalibrationKey KnownCalibrations::key_in_state() const {
  return {0, ranks_per_host_, settings_.budget.codec, "state"};
}

void KnownCalibrations::save(StateWriter& to) const {
  to.put(found_ != nullptr);
  if (found_ == nullptr) return;
  to.put<std::int32_t>(ranks_per_host_);
  to.put_text(write_calibrations(*found_, key_in_state()));
}

void KnownCalibrations::load(StateReader& from) {
  if (!from.get<bool>()) return;
  ranks_per_host_ = from.get<std::int32_t>();
  const std::string text = from.get_text(kLongestCalibration);
  if (!from.is_ok()) return;
  Result<Calibrations> found = read_calibrations(text, key_in_state());
  from.require(found.is_ok() && ranks_per_host_ > 0);
  if (from.is_ok()) found_ = std::make_unique<Calibrations>(std::move(found).value());
}

void KnownCalibrations::adopt(KnownCalibrations&& loaded) {
  found_ = std::move(loaded.found_);
  ranks_per_host_ = loaded.ranks_per_host_;
}

}  // namespace ringpress::nccl_plugin::tuning
