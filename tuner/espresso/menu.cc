#include "tuner/espresso/menu.h"

#include <algorithm>
#include <map>
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

std::vector<Candidate> price_all(const Job& job, const std::vector<Option>& options, double bytes) {
  std::vector<Candidate> all;
  all.reserve(options.size());
  for (std::size_t i = 0; i < options.size(); ++i) {
    all.push_back(
        {{i, Device::kGpu}, options[i].compresses(), price(options[i], Device::kGpu, bytes, job)});
  }
  return all;
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

Menu make_menu(const Job& job, const std::vector<Option>& options, double bytes) {
  std::vector<Candidate> all = price_all(job, options, bytes);
  const std::size_t plain = least(all, false, wire);
  RINGPRESS_EXPECTS(plain < all.size(), "no option leaves a tensor uncompressed");
  std::size_t everything = least(all, true, [](const Chain& chain) { return chain.total(); });
  if (everything == all.size()) everything = plain;
  Menu menu;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i != plain && i != everything && is_dominated(all, i)) continue;
    if (i == plain) menu.plain = menu.candidates.size();
    if (i == everything) menu.everything = menu.candidates.size();
    menu.candidates.push_back(all[i]);
  }
  menu.on_gpu = menu.candidates.size();
  for (std::size_t i = 0; i < menu.on_gpu; ++i) {
    const Candidate candidate = menu.candidates[i];
    if (wire(candidate.chain) < wire(menu.candidates[menu.least_wire].chain)) menu.least_wire = i;
    menu.cpu_twin.push_back(i);
    if (!job.compressor.cpu || !candidate.compresses) continue;
    menu.cpu_twin.back() = menu.candidates.size();
    const std::size_t option = candidate.choice.option;
    menu.candidates.push_back(
        {{option, Device::kCpu}, true, price(options[option], Device::kCpu, bytes, job)});
  }
  for (std::size_t i = menu.on_gpu; i < menu.candidates.size(); ++i) menu.cpu_twin.push_back(i);
  return menu;
}

}  // namespace

Menus::Menus(const Job& job, const std::vector<Option>& options) {
  std::map<std::size_t, std::size_t> menu_of_size;
  for (const Tensor& tensor : job.tensors) {
    const auto [found, is_new] = menu_of_size.emplace(tensor.bytes, menus.size());
    if (is_new) menus.push_back(make_menu(job, options, static_cast<double>(tensor.bytes)));
    menu_of.push_back(found->second);
  }
}

}  // namespace ringpress::espresso
