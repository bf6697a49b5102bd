#include "perf/all_reduce/session.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "perf/all_reduce/id_exchange.h"
#include "perf/all_reduce/setting.h"

namespace ringpress::perf {
namespace {

constexpr std::chrono::milliseconds kMeetingTimeout{120000};

/// RankDescription in a form that may be sent as bytes.
struct RankRecord {
  int rank = 0;
  int process = 0;
  int device = 0;
  char host[64] = {};
  char position[64] = {};
  char model[96] = {};
};

template <std::size_t size>
void copy_text(const std::string& text, char (&target)[size]) {
  std::memcpy(target, text.data(), std::min(text.size(), size - 1));
}

RankRecord own_record(const RankIdentity& identity) {
  RankRecord record;
  record.rank = identity.rank;
  record.process = getpid();
  gethostname(record.host, sizeof record.host - 1);
  const DeviceDescription device = describe_device();
  record.device = device.number;
  copy_text(device.position, record.position);
  copy_text(device.model, record.model);
  return record;
}

ncclUniqueId make_id() {
  ncclUniqueId id;
  require(ncclGetUniqueId(&id), "ncclGetUniqueId");
  return id;
}

}  // namespace

Session::Session(const Options& options, const RankIdentity& identity) : identity_(identity) {
  const Setting control = control_setting(options.settings);
  const ScopedVariable codec("RINGPRESS_CODEC", control.codec);
  const ScopedVariable algorithm("RINGPRESS_ALGO", control.algorithm);
  const ncclUniqueId id = exchange_id(options, identity, kMeetingTimeout, make_id);
  control_ = std::make_unique<Group>(control, id, identity.rank, identity.ranks);
  for (const Setting& setting : options.settings) {
    ncclUniqueId measured_id = {};
    if (is_root()) measured_id = make_id();
    control_->broadcast(&measured_id, sizeof measured_id);
    measured_.push_back(
        std::make_unique<Group>(setting, measured_id, identity.rank, identity.ranks));
  }
  const RankRecord own = own_record(identity);
  const std::vector<std::byte> all = control_->gather(&own, sizeof own);
  for (int rank = 0; rank < identity.ranks; ++rank) {
    RankRecord record;
    std::memcpy(&record, all.data() + static_cast<std::size_t>(rank) * sizeof record,
                sizeof record);
    descriptions_.push_back(
        {record.rank, record.process, record.host, record.device, record.position, record.model});
  }
}

}  // namespace ringpress::perf
