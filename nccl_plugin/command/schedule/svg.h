// Pictures as SVG text, and charts of lines.
#ifndef NCCL_PLUGIN_COMMAND_SCHEDULE_SVG_H_
#define NCCL_PLUGIN_COMMAND_SCHEDULE_SVG_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace ringpress::nccl_plugin::command {

/// Elements are drawn over those before them. Lengths are in pixels from the upper left.
class Svg {
 public:
  void text(double x, double y, const std::string& what, const char* anchor = "start");
  void line(double x1, double y1, double x2, double y2, const std::string& colour);
  void polyline(const std::vector<std::pair<double, double>>& points, const std::string& colour);
  /// `name` is shown when pointed at.
  void box(double x, double y, double width, double height, const std::string& colour,
           const std::string& name);
  /// The whole file.
  std::string finish(double width, double height) const;

 private:
  std::string body_;
};

/// One of twelve colours that are told apart, again from the first after the last.
std::string colour_of(std::size_t number);

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x grows.
};

struct LineChart {
  std::string title, x_name, y_name;
  std::vector<Series> series;
  bool is_logarithmic = false;  // Both axes; all values must be above 0.
};

/// Axes begin at 0, or are logarithmic.
std::string draw_lines(const LineChart& chart);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_SCHEDULE_SVG_H_
