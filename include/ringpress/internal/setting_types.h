// What settings say, where that is neither a plain number nor any text: the types, and the words
// for their values, by which they are read and shown.
#ifndef RINGPRESS_INTERNAL_SETTING_TYPES_H_
#define RINGPRESS_INTERNAL_SETTING_TYPES_H_

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "ringpress/internal/algorithms.h"
#include "ringpress/internal/buffer.h"
#include "ringpress/internal/levels.h"
#include "ringpress/internal/log.h"
#include "ringpress/internal/types.h"

namespace ringpress {

/// RINGPRESS.
enum class Mode : std::uint8_t { kOn, kOff, kObserve, kLossless };

/// Whether any call is made smaller.
inline bool compresses(Mode mode) {
  return mode == Mode::kOn || mode == Mode::kLossless;
}

/// RINGPRESS_GRADIENTS: which recurring calls automatic mode takes for gradients.
enum class GradientChoice : std::uint8_t { kKnown, kAll };

/// RINGPRESS_ENCRYPT: whether what goes over a network is encrypted.
enum class EncryptionChoice : std::uint8_t { kAuto, kOn, kOff };

/// RINGPRESS_EF: what is kept of a tensor from call to call for a lossy codec's sake.
enum class FeedbackChoice : std::uint8_t { kAuto, kScales, kPlain, kOff };

/// RINGPRESS_BACKEND. No value: the door's own.
using BackendChoice = std::optional<Backend>;

/// RINGPRESS_PROGRESS_THREAD.
enum class ProgressThread : std::uint8_t { kAuto, kOn, kOff };

/// RINGPRESS_ADJUST_GRIDS: whose bits levels may have.
enum class LevelGrids : std::uint8_t { kUniform, kBoth };

/// RINGPRESS_ALGO. No value: the library chooses.
using AlgorithmChoice = std::optional<Algorithm>;

/// RINGPRESS_CODEC.
struct CodecChoice {
  static constexpr const char* kAutomatic = "auto";

  /// For the codec factory, as the user wrote it. No value: automatic mode.
  std::optional<std::string> specification;

  bool is_automatic() const { return !specification.has_value(); }
};

/// RINGPRESS_BUDGET: what automatic mode may lose.
struct BudgetChoice {
  static constexpr const char* kError = "error=";

  std::string codec;  // For the codec factory: nothing that loses more.
  double error = 0;   // Of a sum, relative, if the user gave that; 0: a codec was given.
};

/// RINGPRESS_WARMUP_STEPS.
struct WarmUpChoice {
  static constexpr const char* kAutomatic = "auto";

  std::optional<std::size_t> steps;  // No value: by codec.
};

/// RINGPRESS_TOPOLOGY.
enum class RingOrderBy : std::uint8_t { kHosts, kRanks, kFile };
struct TopologyChoice {
  RingOrderBy by = RingOrderBy::kHosts;
  std::string file;
};

/// RINGPRESS_CACHE.
struct CacheChoice {
  bool is_off = false;
  std::string folder;  // Empty: the usual one.
};

template <typename Value>
struct SettingWord {
  const char* text = "";
  Value value{};
};

/// The words of a setting, in the order in which people are told of them.
template <typename Value>
struct SettingWords;

template <>
struct SettingWords<Mode> {
  static constexpr SettingWord<Mode> kAll[] = {{"on", Mode::kOn},
                                               {"off", Mode::kOff},
                                               {"observe", Mode::kObserve},
                                               {"lossless", Mode::kLossless}};
};

template <>
struct SettingWords<BackendChoice> {
  static constexpr SettingWord<BackendChoice> kAll[] = {
      {"auto", std::nullopt}, {"host", Backend::kHost}, {"cuda", Backend::kCuda}};
};

template <>
struct SettingWords<ProgressThread> {
  static constexpr SettingWord<ProgressThread> kAll[] = {
      {"auto", ProgressThread::kAuto}, {"on", ProgressThread::kOn}, {"off", ProgressThread::kOff}};
};

template <>
struct SettingWords<LevelGrids> {
  static constexpr SettingWord<LevelGrids> kAll[] = {{"uniform", LevelGrids::kUniform},
                                                     {"both", LevelGrids::kBoth}};
};

/// (`1` and `0` with their like are read too, as they always were.)
template <>
struct SettingWords<FeedbackChoice> {
  static constexpr SettingWord<FeedbackChoice> kAll[] = {{"auto", FeedbackChoice::kAuto},
                                                         {"scales", FeedbackChoice::kScales},
                                                         {"plain", FeedbackChoice::kPlain},
                                                         {"0", FeedbackChoice::kOff}};
};

template <>
struct SettingWords<GradientChoice> {
  static constexpr SettingWord<GradientChoice> kAll[] = {{"known", GradientChoice::kKnown},
                                                         {"all", GradientChoice::kAll}};
};

template <>
struct SettingWords<EncryptionChoice> {
  static constexpr SettingWord<EncryptionChoice> kAll[] = {{"auto", EncryptionChoice::kAuto},
                                                           {"on", EncryptionChoice::kOn},
                                                           {"off", EncryptionChoice::kOff}};
};

template <>
struct SettingWords<ErrorMetric> {
  static constexpr SettingWord<ErrorMetric> kAll[] = {{"l2", ErrorMetric::kL2},
                                                      {"l2sq", ErrorMetric::kL2Squared}};
};

/// "auto", and the table's names in the order of the alphabet.
template <>
struct SettingWords<AlgorithmChoice> {
  static constexpr auto kAll = [] {
    std::array<SettingWord<AlgorithmChoice>, 1 + std::size(kAlgorithms)> words{};
    words[0] = {"auto", std::nullopt};
    std::transform(std::begin(kAlgorithms), std::end(kAlgorithms), words.begin() + 1,
                   [](const AlgorithmTraits& traits) {
                     return SettingWord<AlgorithmChoice>{traits.name, traits.algorithm};
                   });
    std::sort(words.begin() + 1, words.end(), [](const auto& one, const auto& other) {
      return std::string_view(one.text) < other.text;
    });
    return words;
  }();
};

/// RINGPRESS_DEBUG. No word for no value: the setting is empty.
template <>
struct SettingWords<std::optional<LogLevel>> {
  static constexpr SettingWord<std::optional<LogLevel>> kAll[] = {{"error", LogLevel::kError},
                                                                  {"warn", LogLevel::kWarn},
                                                                  {"info", LogLevel::kInfo},
                                                                  {"trace", LogLevel::kTrace}};
};

/// Of RINGPRESS_TOPOLOGY, where it names no file.
template <>
struct SettingWords<RingOrderBy> {
  static constexpr SettingWord<RingOrderBy> kAll[] = {{"hosts", RingOrderBy::kHosts},
                                                      {"ranks", RingOrderBy::kRanks}};
};

template <typename Value>
concept HasWords = requires {
  SettingWords<Value>::kAll;
};

/// No value: none of them.
template <HasWords Value>
constexpr std::optional<Value> find_word(std::string_view text) {
  for (const SettingWord<Value>& word : SettingWords<Value>::kAll) {
    if (text == word.text) return word.value;
  }
  return std::nullopt;
}

/// Empty: there is none.
template <HasWords Value>
std::string to_text(const Value& value) {
  for (const SettingWord<Value>& word : SettingWords<Value>::kAll) {
    if (value == word.value) return word.text;
  }
  return "";
}

inline std::string to_text(const CodecChoice& codec) {
  return codec.specification.value_or(CodecChoice::kAutomatic);
}
/// The shortest text that is read as that number.
inline std::string shortest_text(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
}
/// As the user gave it.
inline std::string to_text(const BudgetChoice& budget) {
  return budget.error > 0 ? BudgetChoice::kError + shortest_text(budget.error) : budget.codec;
}
inline std::string to_text(const WarmUpChoice& warm_up) {
  return warm_up.steps ? std::to_string(*warm_up.steps) : WarmUpChoice::kAutomatic;
}
inline std::string to_text(const TopologyChoice& topology) {
  return topology.by == RingOrderBy::kFile ? topology.file : to_text(topology.by);
}

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_SETTING_TYPES_H_
