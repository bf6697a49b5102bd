// Pictures of the page, as SVG within HTML. Their colours are those of the page's style, light and
// dark.
#ifndef NCCL_PLUGIN_COMMAND_REPORT_CHARTS_H_
#define NCCL_PLUGIN_COMMAND_REPORT_CHARTS_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace ringpress::nccl_plugin::command::report {

/// Parts of a bar; the colour is that of the place of a part.
struct BarPart {
  std::string name;
  double value = 0;
};

/// A bar for a cell of a table, `whole` long at most. What it shows is said in words, as `label`.
std::string draw_bar(const std::vector<BarPart>& parts, double whole, const std::string& label);

/// What the colours of bars mean.
std::string draw_bar_legend(const std::vector<std::string>& names);

struct ChartLine {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x grows.
  bool is_expected = false;                       // Of a model, not measured: drawn thin.
};

struct Chart {
  std::string title, x_name, y_name;
  std::vector<ChartLine> lines;  // At most kMostLines are drawn.
  bool has_logarithmic_x = false;
  bool has_logarithmic_y = false;  // Values of 0 are then left out.
  bool has_points_alone = false;   // No line between them.
};

inline constexpr std::size_t kMostLines = 8;

/// With a legend, and with the same numbers in a table that opens. Lines differ in colour, dashes
/// and width, so that those that coincide are seen. Empty, if there is nothing to draw.
std::string draw_chart(const Chart& chart);

}  // namespace ringpress::nccl_plugin::command::report

#endif  // NCCL_PLUGIN_COMMAND_REPORT_CHARTS_H_
