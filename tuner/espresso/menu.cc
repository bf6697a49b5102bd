#include "tuner/espresso/menu.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace ringpress::espresso {
namespace {

bool takes_no_more(const Chain& a, const Chain& b) {
  for (std::size_t lane = 0; lane < a.seconds.size(); ++lane) {
    if (a.seconds[lane] > b.seconds[lane]) return false;
  }
  return true;
}

/// Of candidates that are equal the first one stays.
bool is_dominated(const std::vector<Candidate>& all, std::size_t index) {
  for (std::size_t other = 0; other < all.size(); ++other) {
    if (other == index || !takes_no_more(all[other].chain, all[index].chain)) continue;
    if (other < index || !takes_no_more(all[index].chain, all[other].chain)) return true;
  }
  return false;
}

Candidate make_candidate(const Job& job, const std::vector<Option>& options, const Choice& choice,
                         const Tensor& tensor) {
  const Option& option = options[choice.option];
  return {choice, option.compresses(), false, price(option, choice.device, tensor, job)};
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
  return chain.seconds[static_cast<std::size_t>(Lane::kWire)];
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
