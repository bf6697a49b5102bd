#include "tuner/espresso/menu.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace ringpress::espresso {
namespace {

/// Up to so many tensors times options, nothing is left out.
constexpr std::size_t kMostPrices = 1024;

bool takes_no_more(const Chain& a, const Chain& b) {
  for (std::size_t resource = 0; resource < a.seconds.size(); ++resource) {
    if (a.seconds[resource] > b.seconds[resource]) return false;
  }
  return true;
}

/// Takes no more of any resource, sends no later and has no more left to do then.
bool is_as_good(const Candidate& a, const Candidate& b) {
  return takes_no_more(a.chain, b.chain) && a.before_sending <= b.before_sending &&
         a.after_sending <= b.after_sending;
}

/// Of candidates that are equal the first one stays.
bool is_dominated(const std::vector<Candidate>& all, std::size_t index) {
  for (std::size_t other = 0; other < all.size(); ++other) {
    if (other == index || !is_as_good(all[other], all[index])) continue;
    if (other < index || !is_as_good(all[index], all[other])) return true;
  }
  return false;
}

Candidate make_candidate(const Job& job, const std::vector<Option>& options, const Choice& choice,
                         const Tensor& tensor) {
  const Option& option = options[choice.option];
  Candidate candidate;
  candidate.choice = choice;
  candidate.compresses = option.compresses();
  candidate.chain = price(option, choice.device, tensor, job);
  bool has_sent = false;
  for (const Task& task : candidate.chain.tasks) {
    const bool sends = task.resource == Resource::kWire;
    has_sent = has_sent || sends;
    if (!has_sent) candidate.before_sending += task.seconds;
    candidate.after_sending = sends ? 0 : candidate.after_sending + task.seconds;
  }
  return candidate;
}

/// The index of the smallest of `value` among candidates that compress, or do not; size() if there
/// is none.
template <typename Value>
std::size_t least(const std::vector<Candidate>& all, bool compresses, Value value) {
  std::size_t best = all.size();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].compresses != compresses) continue;
    if (best == all.size() || value(all[i].chain) < value(all[best].chain)) best = i;
  }
  return best;
}

double wire(const Chain& chain) {
  return chain.seconds[static_cast<std::size_t>(Resource::kWire)];
}

void add_cpu_twins(const Job& job, const std::vector<Option>& options, const Tensor& tensor,
                   Menu* menu) {
  for (std::size_t i = 0; i < menu->on_gpu; ++i) {
    if (!menu->candidates[i].compresses) continue;
    menu->cpu_twin[i] = menu->candidates.size();
    const Choice choice = {menu->candidates[i].choice.option, Device::kCpu};
    menu->candidates.push_back(make_candidate(job, options, choice, tensor));
    menu->cpu_twin.push_back(menu->cpu_twin[i]);
  }
}

bool is_alike(const Chain& a, const Chain& b) {
  const auto is_same = [](const Task& x, const Task& y) {
    return x.resource == y.resource && x.seconds == y.seconds;
  };
  return std::equal(a.tasks.begin(), a.tasks.end(), b.tasks.begin(), b.tasks.end(), is_same);
}

/// All that is not there yet, nor anything that is the same.
void add_rest(const Job& job, const std::vector<Option>& options, const Tensor& tensor,
              Menu* menu) {
  const auto add = [&](const Choice& choice) {
    Candidate candidate = make_candidate(job, options, choice, tensor);
    const auto is_there = [&](const Candidate& other) {
      return is_alike(candidate.chain, other.chain) && candidate.compresses >= other.compresses;
    };
    if (std::any_of(menu->candidates.begin(), menu->candidates.end(), is_there)) return;
    menu->cpu_twin.push_back(menu->candidates.size());
    menu->candidates.push_back(std::move(candidate));
  };
  for (std::size_t i = 0; i < options.size(); ++i) add({i, Device::kGpu});
  if (!job.compressor.cpu) return;
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (options[i].compresses()) add({i, Device::kCpu});
  }
}

Menu make_menu(const Job& job, const std::vector<Option>& options, const Tensor& tensor) {
  std::vector<Candidate> all;
  for (std::size_t i = 0; i < options.size(); ++i) {
    all.push_back(make_candidate(job, options, {i, Device::kGpu}, tensor));
  }
  const std::size_t plain = least(all, false, wire);
  RINGPRESS_EXPECTS(plain < all.size(), "no option leaves a tensor uncompressed");
  std::size_t quickest = least(all, true, [](const Chain& chain) { return chain.total(); });
  if (quickest == all.size()) quickest = plain;
  Menu menu;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i != plain && i != quickest && is_dominated(all, i)) continue;
    if (i == plain) menu.plain = menu.candidates.size();
    if (i == quickest) menu.quickest = menu.candidates.size();
    menu.candidates.push_back(all[i]);
  }
  menu.on_gpu = menu.candidates.size();
  for (std::size_t i = 0; i < menu.on_gpu; ++i) {
    if (wire(menu.candidates[i].chain) < wire(menu.candidates[menu.least_wire].chain)) {
      menu.least_wire = i;
    }
  }
  menu.cpu_twin.resize(menu.on_gpu);
  std::iota(menu.cpu_twin.begin(), menu.cpu_twin.end(), 0);
  if (job.compressor.cpu) add_cpu_twins(job, options, tensor, &menu);
  menu.worth = menu.candidates.size();
  if (job.tensors.size() * options.size() <= kMostPrices) add_rest(job, options, tensor, &menu);
  const Chain& uncompressed = menu.candidates[menu.plain].chain;
  for (Candidate& candidate : menu.candidates) {
    candidate.only_makes_way = candidate.compresses && takes_no_more(uncompressed, candidate.chain);
  }
  return menu;
}

}  // namespace

Menus::Menus(const Job& job, const std::vector<Option>& options) {
  std::map<std::pair<std::size_t, std::optional<CallPrice>>, std::size_t> menu_of_price;
  for (const Tensor& tensor : job.tensors) {
    const auto [found, is_new] =
        menu_of_price.emplace(std::pair(tensor.bytes, tensor.call), menus.size());
    if (is_new) menus.push_back(make_menu(job, options, tensor));
    menu_of.push_back(found->second);
  }
}

}  // namespace ringpress::espresso
