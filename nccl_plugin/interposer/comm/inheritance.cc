#include "nccl_plugin/interposer/comm/inheritance.h"

#include <span>
#include <utility>
#include <vector>

#include "nccl_plugin/errors/firewall.h"
#include "nccl_plugin/interposer/last_error.h"
#include "ringpress/internal/hash.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

std::int32_t number_of(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0;
  for (const std::byte byte : bytes) hash = combine_hash(hash, std::to_integer<unsigned>(byte));
  return static_cast<std::int32_t>(hash >> 34) + 1;
}

}  // namespace

Inheritance::Inheritance(std::shared_ptr<Comm> parent) : parent_(std::move(parent)) {
  Comm& comm = *parent_;
  CallClasses& classes = comm.planner().classifier().classes();
  StateBytes known, shared, own;
  classes.known().save(known);
  classes.known().save(shared);
  classes.recurrences().save(shared);
  comm.parts_.sequence->save_shapes(shared);
  comm.planner().steps().save(shared);
  comm.starter().turns().slices.save(shared);
  shared.put(comm.starter().turns().calls);
  if (comm.parts_.guard != nullptr) comm.parts_.guard->settled().save(shared);
  comm.parts_.sequence->save_buffers(own);

  StateView of_shared(shared.bytes()), of_own(own.bytes());
  read(of_shared);
  calls_->load_buffers(of_own, StateFrom::kThisProcess);
  RINGPRESS_EXPECTS(of_shared.is_ok() && of_own.is_ok(), "a communicator's state makes no sense");
  number_of_all_ = number_of(shared.bytes());
  number_of_classes_ = number_of(known.bytes());
}

/// In the order in which it is written.
void Inheritance::read(StateReader& from) {
  classes_.load(from);
  recurrences_.load(from);
  calls_->load_shapes(from);
  steps_.load(from);
  turns_.slices.load(from);
  turns_.calls = from.get<std::uint64_t>();
  if (parent_->parts_.guard != nullptr) settled_.load(from);
}

void Inheritance::give_to(Comm& heir, Alike alike) noexcept {
  const Status status = catch_all([&]() -> Status {
    CommParts& parts = heir.parts_;
    const bool is_all = alike == Alike::kAll;
    CallClasses& classes = heir.planner().classifier().classes();
    if (alike != Alike::kNothing) classes.known() = std::move(classes_);
    if (is_all) {
      classes.recurrences() = std::move(recurrences_);
      heir.planner().steps().adopt(std::move(steps_));
      heir.starter().turns().slices.adopt(std::move(turns_.slices));
      heir.starter().turns().calls = turns_.calls;
      if (parts.guard != nullptr) parts.guard->adopt(settled_);
    } else {
      calls_->forget_shapes();
    }
    *parts.sequence = std::move(*calls_);
    if (parts.kept == nullptr || parent_->parts_.kept == nullptr) return Status::ok();
    return parts.kept->adopt(*parent_->parts_.kept,
                             is_all ? KeptMemory::Places::kAll : KeptMemory::Places::kBuffers);
  });
  warn_if_failed("residuals of a communicator are not taken over", status);
}

}  // namespace ringpress::nccl_plugin::interposer
