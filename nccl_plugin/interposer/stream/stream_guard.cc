#include "nccl_plugin/interposer/stream/stream_guard.h"

#include <bit>
#include <utility>

#include "nccl_plugin/session/calls/comm_shape.h"
#include "ringpress/internal/log.h"
#include "ringpress/internal/tuning.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

using tuning::GuardedClass;
using tuning::Verdict;

// Of what a compressed call takes.
constexpr double kCheap = 0.1;
constexpr std::uint32_t kWantsScales = 0x100;
// Of a class that is settled, saved; and below so many bits are its calls' bytes.
constexpr std::size_t kSavedClassBytes = 13;
constexpr std::size_t kMostBits = 64;

/// What travels: which verdict of the class it is, and the verdict.
std::uint64_t make_word(std::uint32_t epoch, Verdict verdict, bool wants_scales) {
  return std::uint64_t{epoch} << 32 | static_cast<std::uint32_t>(verdict) |
         (wants_scales ? kWantsScales : 0);
}
bool wants_scales_by(std::uint64_t word) {
  return (word & kWantsScales) != 0;
}
std::uint32_t epoch_of(std::uint64_t word) {
  return static_cast<std::uint32_t>(word >> 32);
}

/// Nothing else is sent, but the word comes from another process.
Result<Verdict> verdict_of(std::uint64_t word) {
  const auto verdict = static_cast<Verdict>(static_cast<std::uint32_t>(word) & ~kWantsScales);
  switch (verdict) {
    case Verdict::kCompress:
    case Verdict::kExact:
    case Verdict::kAgain:
      return verdict;
  }
  return Status(Code::kMismatch, "rank 0 has sent a verdict that there is not");
}

}  // namespace

Result<std::unique_ptr<VerdictMemory>> VerdictMemory::make(Device& device) {
  std::unique_ptr<VerdictMemory> memory(new VerdictMemory(device));
  RINGPRESS_ASSIGN_OR_RETURN(void* const words, device.allocate(kMost * sizeof(std::uint64_t)));
  memory->device_words_ = static_cast<std::uint64_t*>(words);
  RINGPRESS_ASSIGN_OR_RETURN(void* const shared,
                             device.allocate_host(2 * kMost * sizeof(std::uint64_t)));
  memory->host_words_ = static_cast<std::uint64_t*>(shared);
  std::fill_n(memory->host_words_, 2 * kMost, 0);
  return memory;
}

VerdictMemory::~VerdictMemory() {
  if (device_words_ != nullptr) device_.free(device_words_);
  if (host_words_ != nullptr) device_.free_host(host_words_);
}

StreamGuard::StreamGuard(Device& device, const Settings& settings, int rank)
    : device_(device),
      settings_(settings),
      rank_(rank),
      worth_switching_(TuningLimits().worth_switching) {}

Result<std::unique_ptr<StreamGuard>> StreamGuard::make(Device& device, const Settings& settings,
                                                       int rank) {
  std::unique_ptr<StreamGuard> guard(new StreamGuard(device, settings, rank));
  RINGPRESS_ASSIGN_OR_RETURN(guard->memory_, VerdictMemory::make(device));
  return guard;
}

StreamGuard::~StreamGuard() {
  for (auto& [key, calls] : classes_) {
    for (const Slot& slot : calls.slots) {
      if (slot.begin != nullptr) device_.destroy_event(slot.begin);
      if (slot.end != nullptr) device_.destroy_event(slot.end);
    }
  }
}

StreamGuard::Key StreamGuard::key_of(const PlanRequest& request) {
  const std::size_t bytes = request.count * dtype_size(request.dtype);
  return {request.kind, request.dtype, std::bit_width(bytes) - 1};
}

StreamGuard::Class* StreamGuard::find_class(const PlanRequest& request) {
  return find_class(key_of(request));
}

/// Null if there are more classes than words for them.
StreamGuard::Class* StreamGuard::find_class(const Key& key) {
  const auto found = classes_.find(key);
  if (found != classes_.end()) return &found->second;
  if (classes_.size() == VerdictMemory::kMost) return nullptr;
  Class calls{classes_.size(), {}, {}, 0, false, tuning::GuardJudge(worth_switching_), {}};
  calls.calls = {std::get<CollectiveKind>(key), std::get<DType>(key),
                 std::size_t{1} << std::get<int>(key)};
  return &classes_.emplace(key, std::move(calls)).first->second;
}

void SettledClasses::save(StateWriter& to) const {
  to.put<std::uint64_t>(all_.size());
  for (const auto& [key, settled] : all_) {
    to.put(std::get<CollectiveKind>(key));
    to.put(std::get<DType>(key));
    to.put(static_cast<std::uint8_t>(std::get<int>(key)));
    settled.turns.save(to);
    to.put(settled.wants_scales);
  }
}

void SettledClasses::load(StateReader& from) {
  all_.clear();
  const std::size_t count = from.get_count(kSavedClassBytes, VerdictMemory::kMost);
  for (std::size_t i = 0; i < count && from.is_ok(); ++i) {
    const auto kind = static_cast<CollectiveKind>(from.get_below(kCollectiveKindCount));
    const auto dtype = static_cast<DType>(from.get_below(kDTypeCount));
    const int bits = static_cast<int>(from.get_below(kMostBits));
    Settled& settled = all_[{kind, dtype, bits}];
    settled.turns.load(from);
    settled.wants_scales = from.get<bool>();
  }
}

SettledClasses StreamGuard::settled() const {
  SettledClasses found;
  for (const auto& [key, calls] : classes_) {
    if (calls.turns.is_settled()) found.all()[key] = {calls.turns, calls.wants_scales};
  }
  return found;
}

void StreamGuard::prepare(SettledClasses& settled) {
  for (const auto& [key, known] : settled.all()) find_class(key);
}

void StreamGuard::adopt(SettledClasses& settled) noexcept {
  for (const auto& [key, known] : settled.all()) {
    const auto found = classes_.find(key);
    if (found == classes_.end()) continue;
    found->second.turns = known.turns;
    found->second.wants_scales = known.wants_scales;
  }
}

StreamGuard::Answer StreamGuard::look_at(const PlanRequest& request) {
  Class* const calls = find_class(request);
  if (calls == nullptr) return Answer::kCompress;
  if (!calls->turns.is_settled()) return Answer::kAsk;
  return calls->turns.next().is_exact ? Answer::kExact : Answer::kCompress;
}

StreamGuard::Answer StreamGuard::look_at_captured(const PlanRequest& request) const {
  const auto found = classes_.find(key_of(request));
  if (found == classes_.end() || !found->second.turns.is_settled()) return Answer::kCompress;
  return found->second.turns.settled_verdict() == Verdict::kExact ? Answer::kExact
                                                                  : Answer::kCompress;
}

bool StreamGuard::wants_scales(const PlanRequest& request) const {
  const auto found = classes_.find(key_of(request));
  return found != classes_.end() && found->second.wants_scales;
}

Result<GuardedCall> StreamGuard::next(const PlanRequest& request, Stream stream,
                                      std::string_view codec, const Watch& watch) {
  Class* const calls = find_class(request);
  RINGPRESS_EXPECTS(calls != nullptr, "a call was to be guarded that has no class");
  if (calls->turns.awaits_verdict()) RINGPRESS_RETURN_IF_ERROR(receive(calls, stream, watch));
  GuardedCall guarded;
  guarded.step = calls->turns.next();
  if (guarded.step.announces) {
    ++calls->epoch;
    if (rank_ == 0) write_verdict(calls, codec);
    guarded.frame.words = memory_->words_of(calls->index);
  }
  if (rank_ != 0 || !guarded.step.slot) return guarded;
  Slot* const slot = prepare_slot(calls, *guarded.step.slot);
  if (slot == nullptr) return guarded;
  slot->bytes = request.count * dtype_size(request.dtype);
  guarded.frame.begin = slot->begin;
  guarded.frame.end = slot->end;
  return guarded;
}

/// Waits for the verdict that was sent last.
Status StreamGuard::receive(Class* calls, Stream stream, const Watch& watch) {
  RINGPRESS_ASSIGN_OR_RETURN(
      const std::uint64_t word,
      await_word(memory_->received(calls->index), stream, watch,
                 "what rank 0 found out about compressing has not come",
                 [calls](std::uint64_t seen) { return epoch_of(seen) == calls->epoch; }));
  RINGPRESS_ASSIGN_OR_RETURN(const Verdict verdict, verdict_of(word));
  calls->turns.apply(verdict);
  if (verdict != Verdict::kAgain) calls->wants_scales = wants_scales_by(word);
  return Status::ok();
}

/// On rank 0, for the call that carries it. The one before has arrived: it was waited for.
void StreamGuard::write_verdict(Class* calls, std::string_view codec) {
  collect_times(calls);
  const Verdict verdict = calls->judge.judge();
  const bool wants_scales = verdict == Verdict::kCompress && are_scales_cheap(*calls);
  *memory_->sent(calls->index) = make_word(calls->epoch, verdict, wants_scales);
  if (verdict != Verdict::kAgain) log_verdict(*calls, verdict, codec);
}

/// By the times that led to the verdict.
bool StreamGuard::are_scales_cheap(const Class& calls) const {
  const auto element_bytes = static_cast<double>(dtype_size(calls.calls.dtype));
  const double call_seconds = calls.judge.compressed() * element_bytes;
  return scale_seconds_ && *scale_seconds_ <= kCheap * call_seconds;
}

/// Of the calls that have ended by now. The others are not asked about again.
void StreamGuard::collect_times(Class* calls) {
  for (std::size_t number = 0; number < calls->slots.size(); ++number) {
    Slot& slot = calls->slots[number];
    const std::size_t bytes = std::exchange(slot.bytes, 0);
    if (bytes == 0) continue;
    const Result<double> seconds = device_.seconds_between(slot.begin, slot.end);
    if (!seconds.is_ok() || seconds.value() < 0) continue;
    calls->judge.note(tuning::is_exact_slot(number), seconds.value() / static_cast<double>(bytes));
  }
}

void StreamGuard::log_verdict(const Class& calls, Verdict verdict, std::string_view codec) const {
  const auto bytes = static_cast<double>(calls.calls.bytes);
  const double seconds[] = {calls.judge.exact() * bytes, calls.judge.compressed() * bytes};
  const auto write = [&](TuningEvent event, bool is_exact) {
    TuningNote note;
    note.event = event;
    note.choice.codec = is_exact ? 0 : 1;
    note.choice.algorithm = unsplit_algorithm(settings_);
    note.seconds = seconds[is_exact ? 0 : 1];
    const std::string named(is_exact ? kNoCodec : codec);
    const std::string line = tuning::tuning_log_line(calls.calls, note, named);
    log_line(LogLevel::kInfo, "%s", line.c_str());
    if (!settings_.tuning_log.empty()) tuning::append_to_tuning_log(settings_.tuning_log, line);
  };
  write(TuningEvent::kTried, false);
  write(TuningEvent::kTried, true);
  write(TuningEvent::kSettled, verdict == Verdict::kExact);
}

/// Null if there is no memory for events.
StreamGuard::Slot* StreamGuard::prepare_slot(Class* calls, std::size_t number) {
  Slot& slot = calls->slots[number];
  for (Event* const event : {&slot.begin, &slot.end}) {
    if (*event != nullptr) continue;
    Result<Event> made = device_.create_timing_event();
    if (!made.is_ok()) return nullptr;
    *event = made.value();
  }
  return &slot;
}

}  // namespace ringpress::nccl_plugin::interposer
