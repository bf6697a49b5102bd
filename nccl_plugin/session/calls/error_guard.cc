#include "nccl_plugin/session/calls/error_guard.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "compress_kernels/factory.h"
#include "nccl_plugin/session/settings/budget_error.h"

namespace ringpress::nccl_plugin {
namespace {

// A codec is allowed so many times what it usually loses.
constexpr double kOfUsual = 4;
constexpr std::size_t kRun = 16;  // Values of a sample that lie side by side.
// Looks in a row until a bit is given back, and how far below what is allowed they are.
constexpr std::uint32_t kGoodLooks = 4;
constexpr double kClearlyGood = 0.35;
constexpr std::uint64_t kLongestPause = 64 * 1024;
constexpr int kMostBits = 8;

/// The first value of each run of a sample: evenly over the tensor.
std::size_t first_of_run(std::size_t run, std::size_t runs, std::size_t count) {
  return runs == 1 ? 0 : run * ((count - kRun) / (runs - 1));
}

/// Adds them to `sample`.
void add_sample(const void* values, std::size_t count, DType dtype, std::span<float> sample) {
  const auto* const bytes = static_cast<const std::byte*>(values);
  const std::size_t runs = sample.size() / kRun;
  for (std::size_t run = 0; run < runs; ++run) {
    compress_kernels::add_values(bytes + first_of_run(run, runs, count) * dtype_size(dtype), kRun,
                                 dtype, &sample[run * kRun]);
  }
}

int bits_of(std::string_view specification) {
  const bool is_of_family = specification.size() >= 2 && specification[0] == 'q' &&
                            specification[1] >= '2' && specification[1] <= '8' &&
                            (specification.size() == 2 || specification[2] == ':');
  return is_of_family ? specification[1] - '0' : 0;
}

}  // namespace

double allowed_error(const CallSettings& settings) {
  const bool is_tuned = settings.codec.is_automatic() && settings.mode == Mode::kOn &&
                        settings.adjust_steps == 0 && settings.lazy == 0;
  if (!is_tuned) return 0;
  if (settings.budget.error > 0) return settings.budget.error;
  return kOfUsual * usual_error(settings.budget.codec);
}

std::string with_more_bits(std::string_view specification, int more) {
  const int bits = bits_of(specification);
  if (bits == 0 || bits == kMostBits) return {};
  std::string found(specification);
  found[1] = static_cast<char>('0' + std::min(bits + more, kMostBits));
  return found;
}

std::string_view ErrorGuard::codec_for(const TensorCall& call, std::string_view chosen) {
  if (allowed_ == 0) return chosen;
  Watched& watched = shapes_.of(call);
  if (watched.exact > 0) {
    --watched.exact;
    return {};
  }
  if (watched.more == 0) return chosen;
  const auto [name, is_new] = names_.try_emplace({std::string(chosen), watched.more});
  if (is_new) name->second = with_more_bits(chosen, static_cast<int>(watched.more));
  return name->second.empty() ? chosen : std::string_view(name->second);
}

bool ErrorGuard::is_due(const TensorCall& call) {
  Watched& watched = shapes_.of(call);
  if (++watched.calls < watched.next_look || call.count < kSampleValues) return false;
  watched.next_look = std::min(4 * watched.calls, watched.calls + kMostBetween);
  return true;
}

std::span<float> ErrorGuard::take(const TensorCall& call, const void* values) {
  sample_.assign(kSampleValues, 0);
  add_sample(values, call.count, call.dtype, sample_);
  return sample_;
}

std::string ErrorGuard::judge(const TensorCall& call, const void* result, int ranks,
                              std::string_view codec, bool is_guarded) {
  found_.assign(kSampleValues, 0);
  add_sample(result, call.count, call.dtype, found_);
  const double divisor = call.op == ReduceOp::kAvg ? ranks : 1;
  double lost = 0, whole = 0;
  for (std::size_t i = 0; i < kSampleValues; ++i) {
    const double exact = double{sample_[i]} / divisor;
    lost += (double{found_[i]} - exact) * (double{found_[i]} - exact);
    whole += exact * exact;
  }
  const double error = std::sqrt(lost / whole);
  if (!std::isfinite(error)) return {};  // Zeros, or an overflow, tell nothing.
  Watched& watched = shapes_.of(call);
  ++watched.looks;
  watched.last = error;
  watched.worst = std::max(watched.worst, error);
  watched.squares += error * error;
  if (allowed_ == 0 || !is_guarded) return {};
  if (error > allowed_) return raise(call, codec, error, &watched);
  watched.good = error < kClearlyGood * allowed_ ? watched.good + 1 : 0;
  if (watched.good < kGoodLooks || watched.more == 0) return {};
  watched.good = 0;
  --watched.more;
  return describe(call, codec, error) + ": one bit less from now on";
}

std::string ErrorGuard::describe(const TensorCall& call, std::string_view codec, double error) {
  char numbers[48];
  std::snprintf(numbers, sizeof numbers, "%.3g", error);
  return "all-reduces of " + std::to_string(call.count) + " " + dtype_name(call.dtype) + ": " +
         std::string(codec) + " loses " + numbers + " of a sum";
}

/// Each bit halves it.
std::string ErrorGuard::raise(const TensorCall& call, std::string_view codec, double error,
                              Watched* watched) const {
  watched->good = 0;
  watched->next_look = watched->calls + kFirstLook;
  std::string line = describe(call, codec, error);
  char allowed[32];
  std::snprintf(allowed, sizeof allowed, "%.3g", allowed_);
  line += ", more than the " + std::string(allowed) + " of RINGPRESS_BUDGET: ";
  const auto wanted = static_cast<std::uint32_t>(
      std::clamp(std::ceil(std::log2(error / allowed_)), 1.0, double{kMostMore}));
  const std::string next = with_more_bits(codec, static_cast<int>(wanted));
  if (!next.empty()) {
    watched->more = std::min(watched->more + wanted, kMostMore);
    return line + next + " from now on";
  }
  watched->exact =
      std::min(kMostBetween << std::min<std::uint64_t>(watched->pauses++, 6), kLongestPause);
  return line + "the next " + std::to_string(watched->exact) + " are exact";
}

void ErrorGuard::list_errors(std::size_t most, std::vector<MeasuredError>* to) const {
  to->clear();
  shapes_.for_each(
      [&](CollectiveKind, std::size_t count, DType dtype, ReduceOp, const Watched& watched) {
        if (watched.looks == 0) return;
        const double mean = std::sqrt(watched.squares / static_cast<double>(watched.looks));
        to->push_back({count, dtype, watched.looks, watched.last, mean, watched.worst,
                       static_cast<int>(watched.more)});
      });
  const auto size = [](const MeasuredError& error) {
    return std::pair(error.count * dtype_size(error.dtype), error.dtype);
  };
  std::sort(to->begin(), to->end(),
            [&size](const MeasuredError& a, const MeasuredError& b) { return size(a) > size(b); });
  if (to->size() > most) to->resize(most);
}

void ErrorGuard::save(StateWriter& to) const {
  shapes_.save(to, [&to](const Watched& watched) {
    to.put(watched.calls);
    to.put(watched.next_look);
    to.put(watched.looks);
    to.put(watched.last);
    to.put(watched.worst);
    to.put(watched.squares);
    to.put(watched.more);
    to.put(watched.good);
    to.put(watched.exact);
    to.put(watched.pauses);
  });
}

void ErrorGuard::load(StateReader& from) {
  shapes_.load(from, [](StateReader& bytes) {
    Watched watched;
    watched.calls = bytes.get<std::uint64_t>();
    watched.next_look = bytes.get<std::uint64_t>();
    watched.looks = bytes.get<std::uint64_t>();
    watched.last = bytes.get<double>();
    watched.worst = bytes.get<double>();
    watched.squares = bytes.get<double>();
    watched.more = bytes.get<std::uint32_t>();
    watched.good = bytes.get<std::uint32_t>();
    watched.exact = bytes.get<std::uint64_t>();
    watched.pauses = bytes.get<std::uint64_t>();
    const auto is_number = [](double value) { return value >= 0 && value < 1e30; };
    bytes.require(is_number(watched.last) && is_number(watched.worst) &&
                  is_number(watched.squares) && watched.more <= kMostMore &&
                  watched.exact <= kLongestPause && watched.looks <= watched.calls);
    return watched;
  });
}

}  // namespace ringpress::nccl_plugin
