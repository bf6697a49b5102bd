#include "nccl_plugin/command/report/charts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "nccl_plugin/command/report/html.h"
#include "nccl_plugin/command/report/numbers.h"

namespace ringpress::nccl_plugin::command::report {
namespace {

constexpr double kChartWidth = 520, kChartHeight = 300;
constexpr double kLeftMargin = 62, kRightMargin = 14, kTopMargin = 26, kBottomMargin = 46;
constexpr std::size_t kMostMarkers = 24;
constexpr std::size_t kMostNumberRows = 40;

/// From values to parts of the picture, and where its ticks are.
class ChartAxis {
 public:
  ChartAxis(double least, double most, bool is_logarithmic)
      : least_(least), most_(most), is_logarithmic_(is_logarithmic) {
    if (is_logarithmic_) {
      least_ = std::pow(10, std::floor(std::log10(least) + 1e-9));
      most_ = std::pow(10, std::ceil(std::log10(most) - 1e-9));
      if (most_ <= least_) most_ = 10 * least_;
    } else if (most_ <= least_) {
      most_ = least_ + (least_ == 0 ? 1 : std::abs(least_));
    }
  }

  /// Ends at a tick.
  void round_up() {
    if (!is_logarithmic_) most_ = step() * std::ceil(most_ / step() - 1e-9);
  }

  double part(double value) const {
    if (!is_logarithmic_) return (value - least_) / (most_ - least_);
    return std::log(value / least_) / std::log(most_ / least_);
  }

  std::vector<double> ticks() const {
    std::vector<double> ticks;
    if (is_logarithmic_) {
      const int decades = static_cast<int>(std::lround(std::log10(most_ / least_)));
      const int step = 1 + decades / 7;
      for (int i = 0; i <= decades; i += step) ticks.push_back(least_ * std::pow(10, i));
      return ticks;
    }
    for (double i = std::ceil(least_ / step()); step() * i <= most_ + 1e-9 * step(); ++i) {
      ticks.push_back(step() * i);
    }
    return ticks;
  }

 private:
  /// Between ticks.
  double step() const {
    const double decade = std::pow(10, std::floor(std::log10((most_ - least_) / 4)));
    double step = decade;
    for (const double factor : {2.0, 5.0, 10.0}) {
      if ((most_ - least_) / step > 6) step = decade * factor;
    }
    return step;
  }

  double least_, most_;
  bool is_logarithmic_;
};

bool is_drawn(const Chart& chart, const std::pair<double, double>& point) {
  if (!std::isfinite(point.first) || !std::isfinite(point.second)) return false;
  return (!chart.has_logarithmic_x || point.first > 0) &&
         (!chart.has_logarithmic_y || point.second > 0);
}

std::vector<ChartLine> drawn_lines(const Chart& chart) {
  std::vector<ChartLine> lines;
  for (const ChartLine& line : chart.lines) {
    ChartLine drawn = line;
    drawn.points.clear();
    for (const auto& point : line.points) {
      if (is_drawn(chart, point)) drawn.points.push_back(point);
    }
    if (!drawn.points.empty() && lines.size() < kMostLines) lines.push_back(std::move(drawn));
  }
  return lines;
}

/// Those of y begin at 0, but for logarithmic ones and values below.
ChartAxis axis_of(const std::vector<ChartLine>& lines, bool is_x, bool is_logarithmic) {
  double least = 1e300, most = -1e300;
  for (const ChartLine& line : lines) {
    for (const auto& [x, y] : line.points) {
      least = std::min(least, is_x ? x : y);
      most = std::max(most, is_x ? x : y);
    }
  }
  if (!is_x && !is_logarithmic) least = std::min(0.0, least);
  return {least, most, is_logarithmic};
}

std::string axis_number(double value) {
  const double size = std::abs(value);
  if (size >= 1e5 || (size > 0 && size < 1e-3)) return fmt::format("{:.0e}", value);
  return fmt::format("{:g}", std::round(value * 1e6) / 1e6);
}

class Picture {
 public:
  Picture(const Chart& chart, std::vector<ChartLine> lines)
      : chart_(chart),
        lines_(std::move(lines)),
        x_(axis_of(lines_, true, chart.has_logarithmic_x)),
        y_(axis_of(lines_, false, chart.has_logarithmic_y)) {
    y_.round_up();
  }

  std::string svg() {
    draw_axes();
    for (std::size_t i = 0; i < lines_.size(); ++i) draw_line(i);
    return fmt::format(
        "<svg class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}: {} over {}\">\n{}"
        "</svg>\n",
        kChartWidth, kChartHeight, html_text(chart_.title), html_text(chart_.y_name),
        html_text(chart_.x_name), body_);
  }

 private:
  double left(double value) const {
    return kLeftMargin + (kChartWidth - kLeftMargin - kRightMargin) * x_.part(value);
  }
  double top(double value) const {
    return kTopMargin + (kChartHeight - kTopMargin - kBottomMargin) * (1 - y_.part(value));
  }

  void text(double x, double y, const char* anchor, const std::string& words) {
    body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y,
                         anchor, html_text(words));
  }

  void draw_axes() {
    for (const double tick : x_.ticks()) {
      body_ += fmt::format("<path class=\"grid\" d=\"M{:.1f} {}V{}\"/>\n", left(tick), kTopMargin,
                           kChartHeight - kBottomMargin);
      text(left(tick), kChartHeight - kBottomMargin + 16, "middle", axis_number(tick));
    }
    for (const double tick : y_.ticks()) {
      body_ += fmt::format("<path class=\"grid\" d=\"M{} {:.1f}H{}\"/>\n", kLeftMargin, top(tick),
                           kChartWidth - kRightMargin);
      text(kLeftMargin - 6, top(tick) + 4, "end", axis_number(tick));
    }
    text(kChartWidth - kRightMargin, kChartHeight - 8, "end", chart_.x_name);
    text(4, 14, "start", chart_.y_name);
  }

  void draw_line(std::size_t i) {
    const ChartLine& line = lines_[i];
    std::string path;
    for (const auto& [x, y] : line.points) {
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? 'M' : 'L', left(x), top(y));
    }
    const char* const kind = line.is_expected ? " model" : "";
    if (!chart_.has_points_alone && line.points.size() > 1) {
      body_ += fmt::format("<path class=\"line s{}{}\" d=\"{}\"/>\n", i, kind, path);
    }
    const std::size_t step = 1 + line.points.size() / kMostMarkers;
    for (std::size_t k = 0; k < line.points.size(); k += step) {
      const auto& [x, y] = line.points[k];
      body_ += fmt::format(
          "<circle class=\"s{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"><title>{}: "
          "{}, {}</title></circle>\n",
          i, left(x), top(y), chart_.has_points_alone ? 5 : 3, html_text(line.name), number_text(x),
          number_text(y));
    }
  }

  const Chart& chart_;
  std::vector<ChartLine> lines_;
  ChartAxis x_, y_;
  std::string body_;
};

std::string legend_of(const std::vector<ChartLine>& lines, bool has_points_alone) {
  std::string html = "<ul class=\"legend\">";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    html += fmt::format(
        "<li><svg viewBox=\"0 0 36 12\" width=\"36\" height=\"12\" aria-hidden=\"true\">{}</svg> "
        "{}</li>",
        has_points_alone ? fmt::format("<circle class=\"s{}\" cx=\"18\" cy=\"6\" r=\"5\"/>", i)
                         : fmt::format("<path class=\"line s{}{}\" d=\"M1 6H35\"/>", i,
                                       lines[i].is_expected ? " model" : ""),
        html_text(lines[i].name));
  }
  return html + "</ul>\n";
}

/// A row for each x, or for some of them.
std::string numbers_of(const Chart& chart, const std::vector<ChartLine>& lines) {
  std::map<double, std::vector<std::optional<double>>> rows;
  std::vector<std::string> heads = {chart.x_name};
  for (std::size_t i = 0; i < lines.size(); ++i) {
    heads.push_back(lines[i].name);
    for (const auto& [x, y] : lines[i].points) {
      rows[x].resize(lines.size());
      rows[x][i] = y;
    }
  }
  HtmlTable table(chart.title + ", " + chart.y_name, heads);
  const std::size_t step = 1 + rows.size() / kMostNumberRows;
  std::size_t number = 0;
  for (const auto& [x, values] : rows) {
    if (number++ % step != 0) continue;
    std::vector<std::string> cells = {number_text(x)};
    for (const std::optional<double>& value : values) {
      cells.push_back(value ? number_text(*value) : "");
    }
    table.add_row(cells);
  }
  return html_details(step == 1 ? "Numbers" : "Numbers, some of them", table.html());
}

}  // namespace

std::string draw_bar(const std::vector<BarPart>& parts, double whole, const std::string& label) {
  std::string body;
  double at = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (whole <= 0 || parts[i].value <= 0) continue;
    const double width = 100 * parts[i].value / whole;
    body += fmt::format(
        "<rect class=\"p{}\" x=\"{:.2f}\" width=\"{:.2f}\" height=\"10\"><title>"
        "{}</title></rect>",
        i % kMostLines, at, std::max(0.3, width - 0.3), html_text(parts[i].name));
    at += width;
  }
  return fmt::format(
      "<svg class=\"bar\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" "
      "role=\"img\" aria-label=\"{}\">{}</svg>",
      html_text(label), body);
}

std::string draw_bar_legend(const std::vector<std::string>& names) {
  std::string html = "<ul class=\"legend\">";
  for (std::size_t i = 0; i < names.size(); ++i) {
    html += fmt::format(
        "<li><svg viewBox=\"0 0 14 12\" width=\"14\" height=\"12\" "
        "aria-hidden=\"true\"><rect class=\"p{}\" width=\"14\" height=\"12\"/>"
        "</svg> {}</li>",
        i % kMostLines, html_text(names[i]));
  }
  return html + "</ul>\n";
}

std::string draw_chart(const Chart& chart) {
  std::vector<ChartLine> lines = drawn_lines(chart);
  if (lines.empty()) return "";
  const std::string legend = legend_of(lines, chart.has_points_alone);
  const std::string numbers = numbers_of(chart, lines);
  return "<figure><figcaption>" + html_text(chart.title) + "</figcaption>\n" +
         Picture(chart, std::move(lines)).svg() + legend + numbers + "</figure>\n";
}

}  // namespace ringpress::nccl_plugin::command::report
