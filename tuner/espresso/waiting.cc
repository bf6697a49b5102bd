#include "tuner/espresso/waiting.h"

#include <algorithm>
#include <numeric>

#include "tuner/espresso/cost.h"

namespace ringpress::espresso {
namespace {

constexpr double kNoDifference = 1e-11;  // What sums of times may be off by.

void check_options(const std::vector<Option>& options) {
  for (const Option& option : options) {
    const bool is_call = option.steps.size() == 1 && option.steps[0].operation == Operation::kCall;
    RINGPRESS_EXPECTS(is_call, "only calls as a whole can be waited for");
  }
}

double seconds_of(const Job& job, const std::vector<Option>& options, std::size_t tensor,
                  const Choice& choice) {
  return price(options.at(choice.option), choice.device, job.tensors[tensor], job).total();
}

/// What becomes of a step, call by call.
class Clocks {
 public:
  explicit Clocks(const Job& job) : job_(job), computed_(job.forward_seconds) {}

  /// The next tensor, whose call takes so long.
  void add(double call_seconds, std::vector<Box>* boxes = nullptr) {
    const Tensor& tensor = job_.tensors[next_];
    compute(tensor.backward_seconds, boxes);
    if (next_ > 0 && tensor.after_seconds) {
      computed_ = std::max(computed_, called_);
      compute(*tensor.after_seconds, boxes);
    }
    const double begin = std::max(computed_, called_);
    called_ = begin + call_seconds;
    if (boxes != nullptr && call_seconds > 0) {
      boxes->push_back({Resource::kWire, next_, 0, begin, called_});
    }
    ++next_;
  }

  double seconds() const { return std::max(computed_, called_); }

 private:
  void compute(double seconds, std::vector<Box>* boxes) {
    if (boxes != nullptr && seconds > 0) {
      boxes->push_back({Resource::kCompute, next_, 0, computed_, computed_ + seconds});
    }
    computed_ += seconds;
  }

  const Job& job_;
  std::size_t next_ = 0;
  double computed_;    // When the compute so far has ended.
  double called_ = 0;  // When the calls so far have ended.
};

double step_seconds(const Job& job, const std::vector<double>& calls) {
  Clocks step(job);
  for (const double seconds : calls) step.add(seconds);
  return step.seconds();
}

/// The options that compress and those that do not, of which one each is there.
struct Ways {
  std::vector<double> seconds;  // Of each option.
  std::size_t exact = 0;        // The option that takes least of those that do not compress.
  std::size_t least = 0;        // The option that takes least of all.
};

Ways ways_of(const Job& job, const std::vector<Option>& options, std::size_t tensor) {
  Ways ways;
  bool has_exact = false;
  for (std::size_t i = 0; i < options.size(); ++i) {
    ways.seconds.push_back(seconds_of(job, options, tensor, {i}));
    if (ways.seconds[i] < ways.seconds[ways.least]) ways.least = i;
    if (options[i].compresses()) continue;
    if (!has_exact || ways.seconds[i] < ways.seconds[ways.exact]) ways.exact = i;
    has_exact = true;
  }
  RINGPRESS_EXPECTS(has_exact, "there must be an option that does not compress");
  return ways;
}

std::vector<std::size_t> smallest_first(const Job& job) {
  std::vector<std::size_t> order(job.tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return job.tensors[a].bytes < job.tensors[b].bytes;
  });
  return order;
}

}  // namespace

bool waits(const Job& job) {
  return std::any_of(job.tensors.begin(), job.tensors.end(),
                     [](const Tensor& tensor) { return tensor.after_seconds.has_value(); });
}

Timeline predict_waiting(const Job& job, const std::vector<Option>& options,
                         const std::vector<Choice>& choices) {
  check_options(options);
  Timeline timeline;
  Clocks step(job);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    step.add(seconds_of(job, options, i, choices[i]), &timeline.boxes);
  }
  timeline.seconds = step.seconds();
  std::stable_sort(timeline.boxes.begin(), timeline.boxes.end(),
                   [](const Box& a, const Box& b) { return a.resource < b.resource; });
  return timeline;
}

Plan plan_waiting(const Job& job, const std::vector<Option>& options) {
  check_options(options);
  Plan plan;
  std::vector<Ways> ways;
  std::vector<double> calls;
  for (std::size_t i = 0; i < job.tensors.size(); ++i) {
    ways.push_back(ways_of(job, options, i));
    plan.choices.push_back({ways[i].least});
    calls.push_back(ways[i].seconds[ways[i].least]);
  }
  const double limit = step_seconds(job, calls) * (1 + kNoDifference);
  for (const std::size_t i : smallest_first(job)) {
    const Ways& own = ways[i];
    if (own.least == own.exact) continue;
    calls[i] = own.seconds[own.exact];
    const bool makes_no_difference = step_seconds(job, calls) <= limit;
    if (makes_no_difference) plan.choices[i] = {own.exact};
    if (!makes_no_difference) calls[i] = own.seconds[own.least];
  }
  plan.seconds = step_seconds(job, calls);
  return plan;
}

}  // namespace ringpress::espresso
