#include "nccl_plugin/command/schedule/svg.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "nccl_plugin/command/svg_text.h"

namespace ringpress::nccl_plugin::command {
namespace {

constexpr double kLeft = 80, kTop = 40, kWidth = 560, kHeight = 320, kRight = 150, kBottom = 60;

/// From values to pixels, and where its ticks are.
struct Axis {
  double least = 0, most = 1;
  bool is_logarithmic = false;

  double part(double value) const {
    if (!is_logarithmic) return (value - least) / (most - least);
    return std::log(value / least) / std::log(most / least);
  }

  std::vector<double> ticks() const {
    std::vector<double> ticks;
    if (is_logarithmic) {
      const int decades = static_cast<int>(std::lround(std::log10(most / least)));
      for (int i = 0; i <= decades; ++i) ticks.push_back(least * std::pow(10, i));
      return ticks;
    }
    const double decade = std::pow(10, std::floor(std::log10((most - least) / 4)));
    double step = decade;
    for (const double factor : {2.0, 5.0}) {
      if ((most - least) / step > 8) step = decade * factor;
    }
    for (int i = 0; step * i <= most * 1.0001; ++i) ticks.push_back(least + step * i);
    return ticks;
  }
};

Axis axis_of(const LineChart& chart, double (*value)(const std::pair<double, double>&)) {
  double least = 1e300, most = 0;
  for (const Series& series : chart.series) {
    for (const auto& point : series.points) {
      least = std::min(least, value(point));
      most = std::max(most, value(point));
    }
  }
  if (!chart.is_logarithmic) return {0, most > 0 ? 1.05 * most : 1, false};
  return {std::pow(10, std::floor(std::log10(least))), std::pow(10, std::ceil(std::log10(most))),
          true};
}

void draw_axes(const LineChart& chart, const Axis& x, const Axis& y, Svg* svg) {
  for (const double tick : x.ticks()) {
    const double at = kLeft + kWidth * x.part(tick);
    svg->line(at, kTop, at, kTop + kHeight, "#e3e3e3");
    svg->text(at, kTop + kHeight + 18, fmt::format("{:g}", tick), "middle");
  }
  for (const double tick : y.ticks()) {
    const double at = kTop + kHeight * (1 - y.part(tick));
    svg->line(kLeft, at, kLeft + kWidth, at, "#e3e3e3");
    svg->text(kLeft - 6, at + 4, fmt::format("{:g}", tick), "end");
  }
  svg->line(kLeft, kTop + kHeight, kLeft + kWidth, kTop + kHeight, "#000000");
  svg->line(kLeft, kTop, kLeft, kTop + kHeight, "#000000");
  svg->text(kLeft + kWidth / 2, kTop + kHeight + 42, chart.x_name, "middle");
  svg->text(kLeft, kTop - 8, chart.y_name);
  svg->text(kLeft, 16, chart.title);
}

}  // namespace

void Svg::text(double x, double y, const std::string& what, const char* anchor) {
  body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y,
                       anchor, escaped(what));
}

void Svg::line(double x1, double y1, double x2, double y2, const std::string& colour) {
  body_ +=
      fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n",
                  x1, y1, x2, y2, colour);
}

void Svg::polyline(const std::vector<std::pair<double, double>>& points,
                   const std::string& colour) {
  std::string list;
  for (const auto& [x, y] : points) list += fmt::format("{:.1f},{:.1f} ", x, y);
  body_ += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n",
                       list, colour);
}

void Svg::box(double x, double y, double width, double height, const std::string& colour,
              const std::string& name) {
  body_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\">"
      "<title>{}</title></rect>\n",
      x, y, width, height, colour, escaped(name));
}

std::string Svg::finish(double width, double height) const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{2}</svg>\n",
      width, height, body_);
}

std::string colour_of(std::size_t number) {
  static const char* const kColours[] = {"#2f6db3", "#d9731a", "#3a9a4b", "#c23b3b",
                                         "#7d5bb0", "#8a5a44", "#d673b5", "#7f7f7f",
                                         "#b5b32a", "#35b0c4", "#8fb5e0", "#f0b27a"};
  return kColours[number % std::size(kColours)];
}

std::string draw_lines(const LineChart& chart) {
  using Point = std::pair<double, double>;
  const Axis x = axis_of(chart, [](const Point& point) { return point.first; });
  const Axis y = axis_of(chart, [](const Point& point) { return point.second; });
  Svg svg;
  draw_axes(chart, x, y, &svg);
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    std::vector<Point> points;
    for (const auto& [at, value] : chart.series[i].points) {
      points.emplace_back(kLeft + kWidth * x.part(at), kTop + kHeight * (1 - y.part(value)));
    }
    svg.polyline(points, colour_of(i));
    for (std::size_t k = 0; k < points.size(); ++k) {
      const auto& [at, value] = chart.series[i].points[k];
      svg.box(points[k].first - 3, points[k].second - 3, 6, 6, colour_of(i),
              fmt::format("{}: {:g}, {:g}", chart.series[i].name, at, value));
    }
    const double legend = kTop + 10 + 18 * static_cast<double>(i);
    svg.line(kLeft + kWidth + 12, legend, kLeft + kWidth + 32, legend, colour_of(i));
    svg.text(kLeft + kWidth + 38, legend + 4, chart.series[i].name);
  }
  return svg.finish(kLeft + kWidth + kRight, kTop + kHeight + kBottom);
}

}  // namespace ringpress::nccl_plugin::command
