// Values over time, in so few spans that a picture can show them, whatever their number and order.
#ifndef NCCL_PLUGIN_COMMAND_REPORT_TIME_BUCKETS_H_
#define NCCL_PLUGIN_COMMAND_REPORT_TIME_BUCKETS_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>

namespace ringpress::nccl_plugin::command::report {

/// Spans are equally long: an eighth of a second at first, twice as long whenever they become too
/// many. `Value` has add(const Value&).
template <typename Value>
class TimeBuckets {
 public:
  static constexpr std::int64_t kMostSpans = 120;

  /// Times that are no number of seconds between -2^40 and 2^40 are left out.
  void add(double seconds, const Value& value) {
    if (!(std::abs(seconds) < std::ldexp(1.0, 40))) return;
    spans_[place_of(seconds)].add(value);
    while (spans_.rbegin()->first - spans_.begin()->first >= kMostSpans) widen();
  }

  bool empty() const { return spans_.empty(); }
  double span_seconds() const { return width_; }
  double begin() const {
    return spans_.empty() ? 0 : width_ * static_cast<double>(spans_.begin()->first);
  }
  /// By number: span i begins at i * span_seconds(). Spans without values are not there.
  const std::map<std::int64_t, Value>& spans() const { return spans_; }

 private:
  std::int64_t place_of(double seconds) const {
    return static_cast<std::int64_t>(std::floor(seconds / width_));
  }

  void widen() {
    width_ *= 2;
    std::map<std::int64_t, Value> wider;
    for (const auto& [place, value] : spans_) wider[place >> 1].add(value);
    spans_.swap(wider);
  }

  double width_ = 0.125;
  std::map<std::int64_t, Value> spans_;
};

}  // namespace ringpress::nccl_plugin::command::report

#endif  // NCCL_PLUGIN_COMMAND_REPORT_TIME_BUCKETS_H_
