#include "compress_kernels/isa.h"

#include <hwy/highway.h>

#include <algorithm>
#include <atomic>
#include <cctype>

#include "compress_kernels/uniform/uniform.h"

namespace ringpress::compress_kernels {
namespace {

std::vector<Isa> find_isas() {
  std::vector<Isa> isas;
  const std::int64_t supported = hwy::SupportedTargets();
  // In Highway's mask a lower bit is a better instruction set.
  for (int bit = 62; bit >= 0; --bit) {
    const std::int64_t target = std::int64_t{1} << bit;
    if ((supported & target) == 0 || uniform::simd_kernels(target) == nullptr) continue;
    std::string name = hwy::TargetName(target);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    isas.push_back(Isa{name, target});
  }
  isas.insert(isas.begin(), Isa{"scalar", kScalarTarget});
  return isas;
}

/// Index in isa_list(), or -1 for the widest.
std::atomic<int> forced_index{-1};

}  // namespace

const std::vector<Isa>& isa_list() {
  static const std::vector<Isa>& kIsas = *new std::vector<Isa>(find_isas());
  return kIsas;
}

Isa selected_isa() {
  const int index = forced_index.load();
  return index < 0 ? isa_list().back() : isa_list()[static_cast<std::size_t>(index)];
}

Status select_isa(const std::string& name) {
  std::string known;
  if (name.empty()) {
    forced_index.store(-1);
    return Status::ok();
  }
  for (std::size_t i = 0; i < isa_list().size(); ++i) {
    if (isa_list()[i].name == name) {
      forced_index.store(static_cast<int>(i));
      return Status::ok();
    }
    known += (known.empty() ? "" : ", ") + isa_list()[i].name;
  }
  return Status(Code::kInvalidArgument,
                "instruction set \"" + name + "\" is not available; this machine has " + known);
}

}  // namespace ringpress::compress_kernels
