#include "nccl_plugin/command/plan/timeline_svg.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "nccl_plugin/command/svg_text.h"

namespace ringpress::nccl_plugin::command {
namespace {

using espresso::Box;
using espresso::Resource;

constexpr double kLeft = 90, kWidth = 860, kRight = 20;
constexpr double kNarrow = 1.5;
constexpr double kResourceHeight = 18, kResourceGap = 4, kTitleHeight = 24, kAxisHeight = 40;

/// From top to bottom.
constexpr Resource kResources[] = {Resource::kCompute, Resource::kGpu, Resource::kCpu,
                                   Resource::kWire};

const char* resource_name(Resource resource) {
  switch (resource) {
    case Resource::kWire:
      return "wire";
    case Resource::kGpu:
      return "GPU codec";
    case Resource::kCpu:
      return "CPU codec";
    case Resource::kCompute:
      return "backward";
  }
  return "";
}

/// Neighbouring boxes differ in shade.
const char* colour(const Box& box, bool is_compressed) {
  static const char* const kGrey[] = {"#9a9a9a", "#bdbdbd"};
  static const char* const kBlue[] = {"#2f6db3", "#7fa9d6"};
  static const char* const kOrange[] = {"#d9731a", "#f0a864"};
  if (box.resource == Resource::kCompute) return kGrey[box.tensor % 2];
  return is_compressed ? kOrange[box.tensor % 2] : kBlue[box.tensor % 2];
}

class Drawing {
 public:
  explicit Drawing(double seconds) : scale_(seconds > 0 ? kWidth / seconds : 0) {}

  void text(double x, double y, const std::string& what, const char* anchor = "start") {
    body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y,
                         anchor, escaped(what));
  }

  /// Those that are too narrow to be pointed at have no name, and one path for each colour.
  void box(const Box& box, double y, const char* fill, const std::string& name) {
    const double width = scale_ * (box.end_seconds - box.begin_seconds);
    if (width < kNarrow) {
      std::string& path = narrow_[fill];
      const std::string next =
          fmt::format("M{:.1f} {:.1f}h{:.1f}v{}h-{:.1f}z", x(box.begin_seconds), y,
                      std::max(0.2, width), kResourceHeight, std::max(0.2, width));
      if (!path.ends_with(next)) path += next;
      return;
    }
    body_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\">"
        "<title>{}</title></rect>\n",
        x(box.begin_seconds), y, width, kResourceHeight, fill, escaped(name));
  }

  void line(double x1, double y1, double x2, double y2, const char* colour) {
    body_ += fmt::format(
        "<line x1=\"{:.2f}\" y1=\"{:.1f}\" x2=\"{:.2f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1,
        x2, y2, colour);
  }

  double x(double seconds) const { return kLeft + scale_ * seconds; }

  std::string finish(double height) const {
    std::string paths;
    for (const auto& [fill, path] : narrow_) {
      paths += fmt::format("<path d=\"{}\" fill=\"{}\"/>\n", path, fill);
    }
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1:.0f}\" width=\"{0}\" "
        "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{2}{3}</svg>\n",
        kLeft + kWidth + kRight, height, paths, body_);
  }

 private:
  double scale_;
  std::string body_;
  std::map<std::string, std::string> narrow_;  // By colour.
};

/// Returns where the next step begins.
double draw_step(const espresso::Job& job, const DrawnStep& step, double y, Drawing* drawing) {
  drawing->text(kLeft, y + 16, step.title);
  y += kTitleHeight;
  const double top = y;
  for (const Resource resource : kResources) {
    drawing->text(kLeft - 6, y + 13, resource_name(resource), "end");
    if (resource == Resource::kCompute && job.forward_seconds > 0) {
      drawing->box({resource, 0, 0, 0, job.forward_seconds}, y, "#e3e3e3", "forward");
    }
    for (const Box& box : step.timeline.boxes) {
      if (box.resource != resource) continue;
      const espresso::Tensor& tensor = job.tensors[box.tensor];
      const std::string name =
          fmt::format("{}, {} bytes: {:.3f} to {:.3f} ms", tensor.name, tensor.bytes,
                      1e3 * box.begin_seconds, 1e3 * box.end_seconds);
      drawing->box(box, y, colour(box, step.is_compressed[box.tensor]), name);
    }
    y += kResourceHeight + kResourceGap;
  }
  drawing->line(drawing->x(step.timeline.seconds), top, drawing->x(step.timeline.seconds), y,
                "#c00000");
  return y + 10;
}

/// About ten ticks at round numbers of milliseconds.
void draw_axis(double seconds, double y, Drawing* drawing) {
  const double decade = std::pow(10, std::floor(std::log10(1e3 * seconds / 5)));
  double tick = decade;
  for (const double factor : {2.0, 5.0}) {
    if (1e3 * seconds / tick > 12) tick = decade * factor;
  }
  drawing->line(kLeft, y, kLeft + kWidth, y, "#000000");
  for (double at = 0; at <= 1e3 * seconds; at += tick) {
    drawing->line(drawing->x(at / 1e3), y, drawing->x(at / 1e3), y + 4, "#000000");
    drawing->text(drawing->x(at / 1e3), y + 17, fmt::format("{:g}", at), "middle");
  }
  drawing->text(kLeft + kWidth, y + 32, "ms", "end");
}

}  // namespace

std::string draw_steps(const espresso::Job& job, const std::vector<DrawnStep>& steps) {
  double longest = 0;
  for (const DrawnStep& step : steps) longest = std::max(longest, step.timeline.seconds);
  Drawing drawing(longest);
  drawing.text(kLeft, 16, job.name);
  double y = kTitleHeight;
  for (const DrawnStep& step : steps) y = draw_step(job, step, y, &drawing);
  if (longest > 0) draw_axis(longest, y, &drawing);
  return drawing.finish(y + kAxisHeight);
}

}  // namespace ringpress::nccl_plugin::command
