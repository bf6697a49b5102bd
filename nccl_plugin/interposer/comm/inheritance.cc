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

/// What was measured holds where the links between the ranks are of the same kind.
bool have_links_alike(Comm& one, Comm& other) {
  const auto is_hierarchical = [](Comm& comm) { return comm.policy().position().hosts != 0; };
  return one.policy().crosses_hosts() == other.policy().crosses_hosts() &&
         is_hierarchical(one) == is_hierarchical(other);
}

}  // namespace

Inheritance::Inheritance(std::shared_ptr<Comm> parent, std::shared_ptr<Comm> heir)
    : parent_(std::move(parent)), heir_(std::move(heir)) {
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
  if (!have_links_alike(*parent_, *heir_)) settled_ = {};
  if (heir_->parts_.guard != nullptr) heir_->parts_.guard->prepare(settled_);
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

/// A rank that failed here would decide otherwise than the others: nothing of it takes memory.
void Inheritance::give_shared(Alike alike) noexcept {
  CallClasses& classes = heir_->planner().classifier().classes();
  if (alike != Alike::kNothing) classes.known() = std::move(classes_);
  if (alike == Alike::kAll) {
    classes.recurrences() = std::move(recurrences_);
    heir_->planner().steps().adopt(std::move(steps_));
    heir_->starter().turns().slices.adopt(std::move(turns_.slices));
    heir_->starter().turns().calls = turns_.calls;
    if (heir_->parts_.guard != nullptr) heir_->parts_.guard->adopt(settled_);
  } else {
    calls_->forget_shapes();
  }
  *heir_->parts_.sequence = std::move(*calls_);
}

void Inheritance::give_own(Alike alike) noexcept {
  const Status status = catch_all([&]() -> Status {
    KeptMemory* const kept = heir_->parts_.kept.get();
    KeptMemory* const of_parent = parent_->parts_.kept.get();
    if (kept == nullptr || of_parent == nullptr) return Status::ok();
    return kept->adopt(
        *of_parent, alike == Alike::kAll ? KeptMemory::Places::kAll : KeptMemory::Places::kBuffers);
  });
  warn_if_failed("residuals of a communicator are not taken over", status);
}

void Inheritance::give(Alike alike) noexcept {
  give_shared(alike);
  give_own(alike);
}

}  // namespace ringpress::nccl_plugin::interposer
