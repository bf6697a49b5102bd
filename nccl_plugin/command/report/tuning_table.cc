#include "nccl_plugin/command/report/tuning_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace ringpress::nccl_plugin::command::report {
namespace {

constexpr std::size_t kMostEvents = 20000;

/// Cells may be quoted, as names of codecs have commas. No value: a quote is not closed.
std::optional<std::vector<std::string>> cells_of(std::string_view line) {
  std::vector<std::string> cells(1);
  bool is_quoted = false;
  for (const char c : line) {
    if (c == '"') {
      is_quoted = !is_quoted;
    } else if (c == ',' && !is_quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  if (is_quoted) return std::nullopt;
  return cells;
}

std::optional<double> number_in(const std::string& cell) {
  double value = 0;
  const char* const end = cell.data() + cell.size();
  const auto parsed = std::from_chars(cell.data(), end, value);
  const bool is_number = parsed.ec == std::errc() && parsed.ptr == end && std::isfinite(value);
  return is_number && value >= 0 ? std::optional<double>(value) : std::nullopt;
}

/// The cells of a line, by their columns. The first mistake is kept.
class Row {
 public:
  Row(const std::vector<std::string>& columns, std::vector<std::string> cells)
      : columns_(columns), cells_(std::move(cells)) {}

  std::string text(const char* column) const {
    const auto found = std::find(columns_.begin(), columns_.end(), column);
    return found == columns_.end() ? std::string()
                                   : cells_[static_cast<std::size_t>(found - columns_.begin())];
  }

  double number(const char* column) {
    const std::string cell = text(column);
    const std::optional<double> value = number_in(cell);
    if (!value && problem_.empty()) {
      problem_ = std::string(column) + " is \"" + cell + "\", which is no number from 0 on";
    }
    return value.value_or(0);
  }

  std::uint64_t count(const char* column) {
    return static_cast<std::uint64_t>(std::min(number(column), 9007199254740992.0));
  }

  const std::string& problem() const { return problem_; }

 private:
  const std::vector<std::string>& columns_;
  std::vector<std::string> cells_;
  std::string problem_;
};

}  // namespace

bool is_tuning_header(std::string_view line) {
  return line.starts_with("collective,dtype,min_bytes,max_bytes,event,codec,");
}

TuningTable::TuningTable(std::string_view header)
    : columns_(cells_of(header).value_or(std::vector<std::string>())) {}

std::string TuningTable::add(const std::string& line, const std::string& file,
                             JobData* data) const {
  std::optional<std::vector<std::string>> cells = cells_of(line);
  if (!cells) return "a quote is not closed";
  if (cells->size() != columns_.size()) {
    return std::to_string(cells->size()) + " cells, where the first line has " +
           std::to_string(columns_.size());
  }
  Row row(columns_, std::move(*cells));
  TuningEvent event;
  event.file = file;
  event.collective = row.text("collective");
  event.type = row.text("dtype");
  event.event = row.text("event");
  event.codec = row.text("codec");
  event.algorithm = row.text("algorithm");
  event.min_bytes = row.count("min_bytes");
  event.max_bytes = row.count("max_bytes");
  event.chunk_bytes = row.count("chunk_bytes");
  event.calls = row.count("calls");
  event.typical_us = row.number("typical_us");
  event.predicted_us = row.number("predicted_us");
  if (!row.problem().empty()) return row.problem();
  if (data->tuning.size() < kMostEvents) {
    data->tuning.push_back(std::move(event));
  } else {
    ++data->tuning_left_out;
  }
  return "";
}

}  // namespace ringpress::nccl_plugin::command::report
