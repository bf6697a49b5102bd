#include "nccl_plugin/session/settings/comm_name.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace ringpress::nccl_plugin {
namespace {

// Programs put the names of their groups of ranks together of such words. One of kSplits says that
// tensors are split between the ranks, whatever else is in the name. Of the others, one of
// kReplicas says that the ranks are replicas, and one of kOthers alone that they are not.
constexpr std::array kSplits = {"tp", "tensor"};
constexpr std::array kReplicas = {"dp",        "ddp",     "data", "fsdp",     "hsdp",  "zero",
                                  "replicate", "replica", "grad", "gradient", "grads", "gradients"};
constexpr std::array kOthers = {"mp", "pp",       "pipe", "pipeline", "cp",      "context",
                                "sp", "sequence", "ep",   "expert",   "experts", "moe"};

template <std::size_t kCount>
bool is_one_of(const std::array<const char*, kCount>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

NamedFor named_for(std::string_view name) {
  bool is_split = false, is_replicated = false, is_other = false;
  bool is_model = false, is_parallel = false;  // "MODEL_PARALLEL_GROUP"
  std::string word;
  const auto end_word = [&] {
    is_split |= is_one_of(kSplits, word);
    is_replicated |= is_one_of(kReplicas, word);
    is_other |= is_one_of(kOthers, word);
    is_model |= word == "model";
    is_parallel |= word == "parallel";
    word.clear();
  };
  for (const char letter : name) {
    if (std::isalpha(static_cast<unsigned char>(letter)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    } else {
      end_word();
    }
  }
  end_word();
  if (is_split) return NamedFor::kOthers;
  if (is_replicated) return NamedFor::kGradients;
  return is_other || (is_model && is_parallel) ? NamedFor::kOthers : NamedFor::kNothing;
}

std::string name_to_agree_on(const CallSettings& settings, std::string_view name) {
  if (asks_for_names(settings)) return std::string(name);
  if (!settings.codec.is_automatic() || settings.gradients == GradientChoice::kAll) return "";
  switch (named_for(name)) {
    case NamedFor::kNothing:
      return "of anything";
    case NamedFor::kGradients:
      return "of gradients";
    case NamedFor::kOthers:
      return "of other things";
  }
  return "";
}

}  // namespace ringpress::nccl_plugin
