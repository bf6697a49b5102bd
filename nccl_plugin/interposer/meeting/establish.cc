#include "nccl_plugin/interposer/meeting/establish.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_plugin/errors/firewall.h"
#include "nccl_plugin/errors/warn_once.h"
#include "nccl_plugin/interposer/calls/number_exchange.h"
#include "nccl_plugin/interposer/comm/inheritance.h"
#include "nccl_plugin/interposer/comm/lifetime.h"
#include "nccl_plugin/interposer/last_error.h"
#include "nccl_plugin/interposer/meeting/place_exchange.h"
#include "nccl_plugin/session/settings/comm_name.h"
#include "nccl_plugin/session/start_line.h"
#include "nccl_plugin/session/usable_settings.h"
#include "ringpress/internal/hash.h"
#include "ringpress/internal/log.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

/// A communicator on its way into the table. `status` not ok: it is plain NCCL's.
struct Candidate {
  NewComm* made = nullptr;
  std::shared_ptr<Comm> comm;  // Null: this rank could not even make that.
  Status status;
  std::optional<std::string> name;  // Nothing: its ranks call it differently.
  std::vector<int> hosts;           // By rank.
  HostGroups groups;                // What it was split into, if anything.
  bool has_asked = false;           // Its ranks talk: they go on, whatever becomes of this one.
  bool is_settled = false;
};

/// Facts are compared in the order of their names: the cause comes before what follows from it.
std::string fact_of(const Status& problem) {
  return "Door A cannot work because=" + (problem.is_ok() ? "nothing" : problem.message());
}

/// Different each time, in one process and in several.
std::int32_t fresh_number() {
  static const unsigned seed = std::random_device()();
  static std::atomic<unsigned> made{0};
  return static_cast<std::int32_t>(seed + 0x9e3779b9u * ++made);
}

std::uint64_t mix(std::uint64_t parent, std::int32_t number) {
  const std::uint64_t mixed = (parent ^ static_cast<std::uint32_t>(number)) * 0x9e3779b97f4a7c15u;
  return mixed ^ mixed >> 29;
}

/// Of a name, for comparison.
std::int32_t number_of(const std::string& name) {
  std::uint64_t hash = 0;
  for (const char c : name) hash = combine_hash(hash, static_cast<unsigned char>(c));
  return static_cast<std::int32_t>(hash >> 33);
}

/// Null: there is no memory for it.
std::unique_ptr<Inheritance> make_inheritance(const std::shared_ptr<Comm>& parent,
                                              const std::shared_ptr<Comm>& heir) {
  std::unique_ptr<Inheritance> made;
  warn_if_failed("residuals of a communicator are not taken over", catch_all([&] {
                   made = std::make_unique<Inheritance>(parent, heir);
                   return Status::ok();
                 }));
  return made;
}

bool can_split(const ringpressRealNccl& real) {
  return real.CommSplit != nullptr;
}

class Establishing {
 public:
  Establishing(const ringpressRealNccl& real, const Settings& settings, Meetings& meetings)
      : real_(real), settings_(settings), meetings_(meetings) {}

  /// Throws before anything is done.
  void expect(std::size_t comms) { candidates_.reserve(comms); }
  void prepare(NewComm& made, LeftComms& left);
  void find_places();
  void meet();
  void spread_failures();
  void find_hosts();
  void find_ready();
  void inherit();
  void finish(KnownComms known);
  /// After any of these has thrown.
  void break_off(std::span<const NewComm> made) noexcept;

 private:
  bool is_awaited(const NewComm& made) const;
  void meet_one(Candidate& candidate, const Status& problem);
  std::vector<Candidate*> living();
  std::vector<NumberExchange> ask(const std::vector<Candidate*>& asked,
                                  const std::vector<std::int32_t>& numbers);
  void find_children();
  void find_racks(const std::vector<Candidate*>& asked);
  void find_names(const std::vector<Candidate*>& children);
  void split(const std::vector<Candidate*>& asked);
  void prepare_to_compress(const std::vector<Candidate*>& asked);
  /// Whose memory a rank exchanges its number in. A child's rank may have got none of its own, its
  /// parent's is certain.
  static Comm& helper_of(const Candidate& candidate) {
    return candidate.made->parent != nullptr ? *candidate.made->parent : *candidate.comm;
  }

  const ringpressRealNccl& real_;
  const Settings& settings_;
  Meetings& meetings_;
  std::vector<Candidate> candidates_;
  bool have_met_ = false;
};

void Establishing::prepare(NewComm& made, LeftComms& left) {
  Candidate candidate;
  candidate.made = &made;
  candidate.name = made.name;
  int size = 0;
  if (real_.CommCount(made.handle, &size) != ncclSuccess || size < 2) {
    const WhyLeft why{ExactReason::kSingleRank, {}};
    if (made.place) meetings_.call_off(*made.place, to_text(why));
    return left.add(made.handle, why);
  }
  int rank = 0;
  if (real_.CommUserRank(made.handle, &rank) == ncclSuccess) warn_of_shortcomings(settings_, rank);
  candidate.status = made.problem;
  if (made.problem.is_ok()) {
    candidate.status = catch_all([&]() -> Status {
      RINGPRESS_ASSIGN_OR_RETURN(
          candidate.comm, Comm::make(real_, settings_, made.handle, {made.clique, made.name}));
      return Status::ok();
    });
  }
  if (candidate.status.is_ok()) candidate.status = meetings_.topology().problem;
  made.is_refused = !made.refusal.is_ok();
  if (made.is_refused) candidate.status = made.refusal;
  candidates_.push_back(std::move(candidate));
}

/// The ranks of a grown communicator that were there before tell each other the place. (Those that
/// are new have its id.)
void Establishing::find_places() {
  std::vector<PlaceExchange> exchanges;
  std::vector<Candidate*> asked;
  for (Candidate& candidate : candidates_) {
    if (candidate.made->grown_from == nullptr) continue;
    asked.push_back(&candidate);
    exchanges.push_back({candidate.made->grown_from.get(), candidate.made->place, Status::ok()});
  }
  if (asked.empty()) return;
  exchange_places(real_, exchanges);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    Candidate& candidate = *asked[i];
    candidate.made->place = exchanges[i].place;
    if (candidate.status.is_ok()) candidate.status = exchanges[i].status;
    if (candidate.comm == nullptr || !exchanges[i].place) continue;
    candidate.comm->identity().clique = interposer::number_of(*exchanges[i].place);
  }
}

/// Goes there even if this rank cannot take part, so that the others hear why.
void Establishing::meet_one(Candidate& candidate, const Status& problem) {
  int version = 0, rank = 0, size = 0;
  candidate.status = catch_all([&]() -> Status {
    if (real_.GetVersion(&version) != ncclSuccess ||
        real_.CommUserRank(candidate.made->handle, &rank) != ncclSuccess ||
        real_.CommCount(candidate.made->handle, &size) != ncclSuccess) {
      return {Code::kSystem, "the real NCCL does not say which rank this is"};
    }
    const char* device =
        candidate.comm != nullptr ? candidate.comm->exchange().device().name() : "none";
    std::vector<std::string> facts = {"NCCL version=" + std::to_string(version),
                                      std::string("device=") + device, fact_of(problem)};
    CallSettings named = settings_;
    named.comm_name = candidate.made->name;
    append_name_line(named, &facts);
    RINGPRESS_ASSIGN_OR_RETURN(std::vector<int> hosts,
                               meetings_.meet(*candidate.made->place, rank, size,
                                              candidate.made->refusal, std::move(facts)));
    candidate.hosts = std::move(hosts);
    return Status::ok();
  });
  // All ranks hear the same.
  if (candidate.status.code() == Code::kRefused) candidate.made->is_refused = true;
  if (!problem.is_ok()) candidate.status = catch_all([&] { return problem; });
}

/// All at once, as ranks may name the communicators of a group in any order. What the system gives
/// no thread for is met for in turn: a rank that left it out now would be waited for by those that
/// it has met.
void Establishing::meet() {
  struct Awaited {
    Candidate* candidate;
    Status problem;
  };
  std::vector<Awaited> awaited;
  for (Candidate& candidate : candidates_) {
    if (candidate.made->place) awaited.push_back({&candidate, candidate.status});
  }
  std::vector<std::jthread> threads;  // Joined when it goes, whatever happens.
  threads.reserve(awaited.size());
  std::size_t in_turn = 0;  // The first one; the last one needs no thread in any case.
  try {
    for (; in_turn + 1 < awaited.size(); ++in_turn) {
      threads.emplace_back(
          [this, one = &awaited[in_turn]] { meet_one(*one->candidate, one->problem); });
    }
  } catch (const std::exception& error) {
    log_line(LogLevel::kInfo, "meets for communicators one after the other: %s", error.what());
  }
  for (; in_turn < awaited.size(); ++in_turn) {
    meet_one(*awaited[in_turn].candidate, awaited[in_turn].problem);
  }
}

/// Those whose ranks all came so far. One that has begun to ask(), as a child's has, takes part
/// although it is not able to.
std::vector<Candidate*> Establishing::living() {
  std::vector<Candidate*> found;
  for (Candidate& candidate : candidates_) {
    if (candidate.status.is_ok() || candidate.has_asked) found.push_back(&candidate);
  }
  return found;
}

/// Every rank tells the others a number; gives theirs.
std::vector<NumberExchange> Establishing::ask(const std::vector<Candidate*>& asked,
                                              const std::vector<std::int32_t>& numbers) {
  std::vector<NumberExchange> exchanges;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    asked[i]->has_asked = true;
    Comm& helper = helper_of(*asked[i]);
    exchanges.push_back(
        {asked[i]->made->handle, &helper.exchange(), {numbers[i]}, &helper.lifetime().watch()});
  }
  exchange_numbers(real_, exchanges);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (asked[i]->status.is_ok()) asked[i]->status = exchanges[i].status;
  }
  return exchanges;
}

/// Of communicators whose ranks are all in this process, one that cannot take part spoils all.
void Establishing::spread_failures() {
  for (const Candidate& failed : candidates_) {
    if (failed.status.is_ok() || !failed.made->in_process) continue;
    for (Candidate& other : candidates_) {
      if (other.made->clique == failed.made->clique) other.status = failed.status;
    }
  }
}

void Establishing::find_hosts() {
  have_met_ = true;
  find_children();
  for (Candidate& candidate : candidates_) {
    if (candidate.comm == nullptr) continue;
    if (candidate.made->in_process) {
      candidate.hosts.assign(static_cast<std::size_t>(candidate.comm->size()), 0);
    }
    candidate.comm->policy().set_hosts(candidate.hosts);
  }
  if (meetings_.topology().is_file()) find_racks(living());
}

/// A file says which racks hosts are in. Ranks tell each other where it has theirs.
void Establishing::find_racks(const std::vector<Candidate*>& asked) {
  const RingTopology& topology = meetings_.topology();
  const std::vector<std::int32_t> own(asked.size(), own_host_number(topology));
  const std::vector<NumberExchange> answers = ask(asked, own);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    Candidate& candidate = *asked[i];
    if (!candidate.status.is_ok()) continue;
    std::vector<std::string> hosts;
    for (const std::int32_t number : answers[i].numbers) {
      hosts.push_back(host_of_number(topology, number));
    }
    if (own[i] < 0) hosts[static_cast<std::size_t>(candidate.comm->rank())] = topology.own_host;
    // The same on all ranks. (What is thrown is not: then the others are told, break_off().)
    Result<std::vector<int>> order = ring_order_of(topology, hosts);
    candidate.status = order.status();
    if (order.is_ok()) candidate.comm->policy().set_ring_order(std::move(order).value());
  }
}

/// What is decided by a child's name holds for all of its ranks, or it is left. (Where ranks meet,
/// they have heard of it there.)
void Establishing::find_names(const std::vector<Candidate*>& children) {
  if (name_to_agree_on(settings_, "").empty() && !asks_for_names(settings_)) return;
  std::vector<std::int32_t> names;
  for (const Candidate* child : children) {
    names.push_back(number_of(name_to_agree_on(settings_, child->made->name)));
  }
  const std::vector<NumberExchange> answers = ask(children, names);
  for (std::size_t i = 0; i < children.size(); ++i) {
    const std::vector<std::int32_t>& numbers = answers[i].numbers;
    const bool is_same = std::equal(numbers.begin() + 1, numbers.end(), numbers.begin());
    if (is_same) continue;
    children[i]->name.reset();
    if (children[i]->status.is_ok())
      children[i]->status = {Code::kMismatch, "its ranks call it by different names"};
  }
}

/// A child's ranks tell each other their hosts, and the first one what sets it apart from others.
void Establishing::find_children() {
  std::vector<Candidate*> children;
  std::vector<std::int32_t> hosts, fresh;
  for (Candidate& candidate : candidates_) {
    const NewComm& made = *candidate.made;
    if (made.parent == nullptr) continue;
    children.push_back(&candidate);
    hosts.push_back(made.parent->policy().hosts()[static_cast<std::size_t>(made.parent->rank())]);
    fresh.push_back(fresh_number());
  }
  find_names(children);
  const std::vector<NumberExchange> all_hosts = ask(children, hosts);
  const std::vector<NumberExchange> all_fresh = ask(children, fresh);
  for (std::size_t i = 0; i < children.size(); ++i) {
    Candidate& child = *children[i];
    child.hosts.assign(all_hosts[i].numbers.begin(), all_hosts[i].numbers.end());
    if (child.comm == nullptr) continue;
    child.comm->identity().clique =
        mix(child.made->parent->identity().clique, all_fresh[i].numbers.front());
  }
}

/// For `hier`. Every rank takes part, whether it could make what it needs or not.
void Establishing::split(const std::vector<Candidate*>& asked) {
  std::vector<HostSplit> splits;
  std::vector<Candidate*> candidates;
  for (Candidate* candidate : asked) {
    int rank = 0;
    if (!wants_groups(settings_, can_split(real_), candidate->hosts)) continue;
    static_cast<void>(real_.CommUserRank(candidate->made->handle, &rank));
    candidate->groups.position = find_position(candidate->hosts, rank);
    splits.push_back({candidate->made->handle, &candidate->groups});
    candidates.push_back(candidate);
  }
  if (splits.empty()) return;
  const ncclResult_t result = split_hosts(real_, splits);
  for (Candidate* candidate : candidates) {
    if (candidate->comm != nullptr) candidate->comm->set_groups(candidate->groups);
    if (result == ncclSuccess || !candidate->status.is_ok()) continue;
    candidate->status = answered("ncclCommSplit", result);
  }
}

void Establishing::prepare_to_compress(const std::vector<Candidate*>& asked) {
  for (Candidate* candidate : asked) {
    if (!candidate->status.is_ok()) continue;
    candidate->status = catch_all([&] { return candidate->comm->prepare_to_compress(); });
  }
}

void Establishing::find_ready() {
  std::vector<Candidate*> asked = living();
  // Decided alike on all ranks of a communicator, whether they could make what they need or not.
  std::erase_if(asked, [this](const Candidate* candidate) {
    return !may_compress(settings_, can_split(real_), candidate->hosts, candidate->name);
  });
  split(asked);
  prepare_to_compress(asked);
  std::vector<std::int32_t> able;
  able.reserve(asked.size());
  for (const Candidate* candidate : asked) {
    able.push_back(candidate->status.is_ok() ? candidate->comm->parts().codecs.number() : 0);
  }
  const std::vector<NumberExchange> answers = ask(asked, able);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const std::vector<std::int32_t>& numbers = answers[i].numbers;
    const auto unlike = std::find_if(numbers.begin(), numbers.end(),
                                     [&](std::int32_t number) { return number != able[i]; });
    if (!asked[i]->status.is_ok() || unlike == numbers.end()) continue;
    asked[i]->status = {Code::kUnsupported, "rank " + std::to_string(unlike - numbers.begin()) +
                                                (*unlike == 0 ? " is not able to compress"
                                                              : " has kernels for other codecs")};
  }
}

/// How much of what is inherited is the same on all ranks: 0 stands for nothing.
bool are_alike(const std::vector<std::int32_t>& numbers) {
  return numbers.front() != 0 && std::equal(numbers.begin() + 1, numbers.end(), numbers.begin());
}

/// Whatever a rank has, it takes part in the comparison. Ranks that have joined have nothing of the
/// communicator that has grown: the others take what is their own.
void Establishing::inherit() {
  std::vector<Candidate*> compared;  // Those whose parent was shrunk. The same on all ranks.
  for (Candidate& candidate : candidates_) {
    const bool is_one = candidate.made->is_heir &&
                        may_compress(settings_, can_split(real_), candidate.hosts, candidate.name);
    if (is_one) compared.push_back(&candidate);
  }
  std::vector<std::unique_ptr<Inheritance>> inherited(compared.size());
  std::vector<std::int32_t> all(compared.size()), classes(compared.size());
  for (std::size_t i = 0; i < compared.size(); ++i) {
    const Candidate& heir = *compared[i];
    const std::shared_ptr<Comm>& parent = heir.made->parent;
    if (!heir.status.is_ok() || parent->policy().name() != heir.comm->policy().name()) continue;
    inherited[i] = make_inheritance(parent, heir.comm);
    if (inherited[i] == nullptr) continue;
    all[i] = inherited[i]->number_of_all();
    classes[i] = inherited[i]->number_of_classes();
  }
  const std::vector<NumberExchange> alike = ask(compared, all);
  const std::vector<NumberExchange> alike_classes = ask(compared, classes);
  for (std::size_t i = 0; i < compared.size(); ++i) {
    if (!compared[i]->status.is_ok() || inherited[i] == nullptr) continue;
    const Alike shared = are_alike(alike[i].numbers)           ? Alike::kAll
                         : are_alike(alike_classes[i].numbers) ? Alike::kClasses
                                                               : Alike::kNothing;
    inherited[i]->give(shared);
  }
  for (Candidate& grown : candidates_) {
    if (grown.made->grown_from == nullptr || !grown.status.is_ok()) continue;
    const auto own = make_inheritance(grown.made->grown_from, grown.comm);
    if (own != nullptr) own->give(Alike::kNothing);
  }
}

void Establishing::finish(KnownComms known) {
  for (Candidate& candidate : candidates_) {
    if (candidate.status.is_ok()) {
      log_line(LogLevel::kInfo, "rank %d of %d: door A is open", candidate.comm->rank(),
               candidate.comm->size());
      candidate.comm->open();
      say_start(settings_, candidate.comm->rank(), candidate.comm->size(),
                candidate.comm->policy().crosses_hosts());
      known.open.add(std::move(candidate.comm));
      candidate.is_settled = true;
      continue;
    }
    candidate.is_settled = true;
    candidate.groups.end(real_.CommDestroy);
    const std::string& reason = candidate.status.message();
    if (candidate.made->is_refused) {
      log_line(LogLevel::kError, "no communicator is made: %s", reason.c_str());
      set_last_error("ringpress: " + reason);
      continue;
    }
    // What is wrong with the whole process was said when the engine found it.
    if (candidate.made->problem.is_ok()) warn_left(reason);
    known.left.add(candidate.made->handle, {ExactReason::kCannotBegin, reason});
  }
}

/// Its other ranks are talking, or will be. (Those that meet are told, or wait for seconds.)
bool Establishing::is_awaited(const NewComm& made) const {
  const auto is_of_it = [&made](const Candidate& candidate) { return candidate.made == &made; };
  const auto found = std::find_if(candidates_.begin(), candidates_.end(), is_of_it);
  if (found == candidates_.end()) return made.parent != nullptr || made.grown_from != nullptr;
  if (found->is_settled || made.in_process) return false;
  if (made.grown_from != nullptr && !have_met_) return true;
  return made.parent != nullptr || (have_met_ && found->status.is_ok());
}

void Establishing::break_off(std::span<const NewComm> made) noexcept {
  for (const NewComm& one : made) {
    if (is_awaited(one)) abandon(real_, one.handle);
  }
}

}  // namespace

void abandon(const ringpressRealNccl& real, ncclComm_t handle) noexcept {
  revoke(real, handle);
}

void warn_left(const std::string& reason) {
  warn_once("a communicator is left to plain NCCL: " + reason);
}

void establish(const ringpressRealNccl& real, const Settings& settings, Meetings& meetings,
               KnownComms known, std::span<NewComm> made) noexcept {
  Establishing establishing(real, settings, meetings);
  const Status status = catch_all([&] {
    establishing.expect(made.size());
    for (NewComm& one : made) establishing.prepare(one, known.left);
    establishing.find_places();
    establishing.meet();
    establishing.spread_failures();
    establishing.find_hosts();
    establishing.find_ready();
    establishing.inherit();
    establishing.finish(known);
    return Status::ok();
  });
  if (status.is_ok()) return;
  warn_if_failed("communicators are left to plain NCCL, or given up", status);
  establishing.break_off(made);
  warn_if_failed("cannot close meeting places", catch_all([&] {
                   for (const NewComm& one : made) {
                     if (one.place) meetings.call_off(*one.place, status.message());
                   }
                   return Status::ok();
                 }));
}

}  // namespace ringpress::nccl_plugin::interposer
