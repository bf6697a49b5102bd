// Entry points that add ranks to those of a communicator.
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nccl_plugin/host/arguments.h"
#include "nccl_plugin/host/comm.h"
#include "nccl_plugin/host/configuration.h"
#include "nccl_plugin/host/derived.h"
#include "nccl_plugin/host/group.h"
#include "nccl_plugin/host/registry.h"
#include "nccl_plugin/host/translate.h"
#include "ringpress/internal/communicator.h"
#include "ringpress/internal/export.h"
#include "ringpress/nccl.h"

namespace ringpress::nccl_plugin::host {
namespace {

/// The arguments of ncclCommGrow().
struct Grow {
  int size = 0;
  const ncclUniqueId* id = nullptr;
  int rank = -1;
  const ncclConfig_t* config = nullptr;
};

UniqueId to_id(const ncclUniqueId& from) {
  UniqueId id{};
  std::memcpy(id.data(), &from, id.size());
  return id;
}

/// What one of the ranks that there were says of the call.
struct GrowWord {
  std::int32_t size = 0;
  std::uint8_t has_id = 0;   // It was given one, or has made it.
  std::uint8_t made_id = 0;  // Here, and nobody has used it.
  std::uint8_t reserved[2] = {};
  UniqueId id{};
};

/// The id that all go by, by what each of them says: every rank finds the same.
Result<UniqueId> agree_on_id(const std::vector<GrowWord>& words) {
  const GrowWord* made = nullptr;
  for (std::size_t rank = 0; rank < words.size(); ++rank) {
    const GrowWord& word = words[rank];
    if (word.size != words[0].size) {
      return Status(Code::kMismatch, "nRanks: rank 0 has " + std::to_string(words[0].size) +
                                         ", rank " + std::to_string(rank) + " has " +
                                         std::to_string(word.size));
    }
    if (word.made_id == 0) continue;
    if (made != nullptr) {
      return Status(Code::kInvalidUsage,
                    "two ranks have made ids by ncclCommGetUniqueId: only one may");
    }
    made = &word;
  }
  if (made == nullptr) {
    return Status(Code::kInvalidArgument,
                  "no rank has an id that ncclCommGetUniqueId made for this communicator and that "
                  "is not used yet");
  }
  for (const GrowWord& word : words) {
    if (word.has_id != 0 && word.id != made->id) {
      return Status(Code::kInvalidArgument,
                    "uniqueId is not what ncclCommGetUniqueId made for this communicator, or it is "
                    "used already");
    }
  }
  return made->id;
}

Result<UniqueId> find_id(ncclComm& parent, int size, const std::optional<UniqueId>& given) {
  GrowWord own;
  own.size = size;
  const std::optional<UniqueId> made = parent.objects().grow_id.take(given);
  own.made_id = made ? 1 : 0;
  own.has_id = given || made ? 1 : 0;
  if (own.has_id != 0) own.id = made ? *made : *given;
  std::vector<GrowWord> words(static_cast<std::size_t>(parent.size()));
  RINGPRESS_RETURN_IF_ERROR(parent.run([&](Communicator& communicator) -> Status {
    return communicator.all_gather(&own, words.data(), sizeof own, DType::kUint8);
  }));
  Result<UniqueId> agreed = agree_on_id(words);
  if (!agreed.is_ok() && made) parent.objects().grow_id.give_back(*made);
  return agreed;
}

/// On a rank that there was: it keeps its number.
Status grow_old(ncclComm_t handle, const Grow& grow, ncclComm_t* out) {
  RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> parent, find_ready_comm(handle));
  if (grow.size <= parent->size()) {
    return Status(Code::kInvalidArgument, "nRanks is " + std::to_string(grow.size) +
                                              ", but comm has " + std::to_string(parent->size()) +
                                              " ranks already");
  }
  if (grow.rank != -1) {
    return Status(Code::kInvalidArgument,
                  "rank is " + std::to_string(grow.rank) +
                      ", but must be -1 where comm is given: its ranks keep their numbers");
  }
  std::optional<UniqueId> given;
  if (grow.id != nullptr) given = to_id(*grow.id);
  // Ranks compare names, and those that come do not know the parent's.
  Configuration inherited = parent->traits().configuration;
  inherited.name.clear();
  RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> child,
                             make_child(*parent, inherited, grow.config));
  *out = child.get();
  Settings settings = settings_for_init(child->traits().name());
  const auto run = [parent, child, given, size = grow.size,
                    settings = std::move(settings)]() -> Status {
    auto id = find_id(*parent, size, given);
    if (!id.is_ok()) return logged("ncclCommGrow", id.status());
    auto made = Communicator::create(id.value(), parent->rank(), size, settings);
    if (!made.is_ok()) return logged("ncclCommGrow", made.status());
    RINGPRESS_RETURN_IF_ERROR(inherit(*parent, *made.value()));
    return child->attach(std::move(made).value(), id.value());
  };
  return submit_setup(parent, {child, out, run});
}

/// On a rank that comes.
Status grow_new(const Grow& grow, ncclComm_t* out) {
  RINGPRESS_RETURN_IF_ERROR(check_pointer(grow.id, "uniqueId"));
  RINGPRESS_RETURN_IF_ERROR(check_rank(grow.rank, grow.size, "rank"));
  RINGPRESS_ASSIGN_OR_RETURN(const Configuration configuration,
                             parse_configuration(grow.config, {}));
  const auto comm = std::make_shared<ncclComm>(CommTraits{configuration, 0});
  Registry::instance().add(comm);
  *out = comm.get();
  Settings settings = settings_for_init(configuration.name);
  const auto run = [comm, id = to_id(*grow.id), rank = grow.rank, size = grow.size,
                    settings = std::move(settings)]() -> Status {
    auto made = Communicator::create(id, rank, size, settings);
    if (!made.is_ok()) return logged("ncclCommGrow", made.status());
    if (CommunicatorState* const state = made.value()->state()) {
      RINGPRESS_RETURN_IF_ERROR(state->begin_among_heirs());
    }
    return comm->attach(std::move(made).value(), id);
  };
  return submit_setup(comm, {comm, out, run});
}

Status grow(ncclComm_t comm, const Grow& request, ncclComm_t* out) {
  RINGPRESS_RETURN_IF_ERROR(check_pointer(out, "newcomm"));
  *out = nullptr;
  if (request.size < 1) {
    return Status(Code::kInvalidArgument,
                  "nRanks is " + std::to_string(request.size) + ", but must be at least 1");
  }
  return comm == nullptr ? grow_new(request, out) : grow_old(comm, request, out);
}

Status make_grow_id(ncclComm_t comm, ncclUniqueId* out) {
  RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> live, find_ready_comm(comm));
  RINGPRESS_RETURN_IF_ERROR(check_pointer(out, "uniqueId"));
  const Settings settings = settings_for_init(live->traits().name());
  RINGPRESS_ASSIGN_OR_RETURN(
      const UniqueId id, live->objects().grow_id.renew(
                             settings.timeout, [&settings] { return make_unique_id(settings); }));
  std::memcpy(out, id.data(), sizeof *out);
  return Status::ok();
}

}  // namespace
}  // namespace ringpress::nccl_plugin::host

using namespace ringpress::nccl_plugin::host;  // NOLINT: the entry points are in no namespace.

RINGPRESS_EXPORT ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* uniqueId) {
  return firewall("ncclCommGetUniqueId", comm, [&] { return make_grow_id(comm, uniqueId); });
}
RINGPRESS_PROFILING_NAME(CommGetUniqueId);

RINGPRESS_EXPORT ncclResult_t ncclCommGrow(ncclComm_t comm, int nRanks,
                                           const ncclUniqueId* uniqueId, int rank,
                                           ncclComm_t* newcomm, ncclConfig_t* config) {
  return group_firewall("ncclCommGrow", comm, [&] {
    return grow(comm, {nRanks, uniqueId, rank, config}, newcomm);
  });
}
RINGPRESS_PROFILING_NAME(CommGrow);
