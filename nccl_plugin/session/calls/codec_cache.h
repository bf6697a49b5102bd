// The codecs of a communicator, or whatever a door makes of them: each is made once.
#ifndef NCCL_PLUGIN_SESSION_CALLS_CODEC_CACHE_H_
#define NCCL_PLUGIN_SESSION_CALLS_CODEC_CACHE_H_

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin {

/// `Made`: what is kept of a codec. It stays where it is. One thread at a time.
template <typename Made>
class CodecCache {
 public:
  /// Null: it has not been made. Asks for no memory.
  const Made* find(std::string_view specification, DType dtype, ReduceOp op) const {
    const auto found = codecs_.find(KeyView(specification, dtype, op));
    return found == codecs_.end() ? nullptr : &found->second;
  }

  /// The one that is there, or else what `make` gives for the same: a Result<Made>.
  template <typename Make>
  Result<const Made*> find_or_make(std::string_view specification, DType dtype, ReduceOp op,
                                   Make&& make) {
    if (const Made* const found = find(specification, dtype, op)) return found;
    std::string name(specification);
    RINGPRESS_ASSIGN_OR_RETURN(Made made, std::forward<Make>(make)(std::as_const(name), dtype, op));
    return &codecs_.emplace(Key{std::move(name), dtype, op}, std::move(made)).first->second;
  }

  bool is_empty() const { return codecs_.empty(); }
  /// Calls `look(made)` for each.
  template <typename Look>
  void for_each(Look&& look) const {
    for (const auto& [key, made] : codecs_) look(made);
  }

 private:
  using Key = std::tuple<std::string, DType, ReduceOp>;
  using KeyView = std::tuple<std::string_view, DType, ReduceOp>;
  /// Of either: to look one up, no string is made.
  struct Less {
    using is_transparent = void;
    bool operator()(const KeyView& a, const KeyView& b) const { return a < b; }
  };

  std::map<Key, Made, Less> codecs_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_CODEC_CACHE_H_
