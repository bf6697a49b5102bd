// What a device does with models beside what the functions for host memory make of them. Knows
// nothing of GoogleTest.
#ifndef TESTS_COMPRESS_KERNELS_MODEL_COMPARISON_H_
#define TESTS_COMPRESS_KERNELS_MODEL_COMPARISON_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "compress_kernels/factory.h"
#include "ringpress/internal/device.h"
#include "tests/compress_kernels/codec_data.h"
#include "tests/support/narrow_values.h"

namespace ringpress::compress_kernels::testing {

struct ModelCase {
  DType dtype = DType::kFloat32;
  std::size_t count = 1;
  std::size_t offset = 0;  // Elements in front of each array: 16 bytes need not divide that.
  std::uint32_t seed = 1;
  bool has_lost = false;  // Differences that are not finite.
};

/// An array on the device, and what it should hold.
template <typename T>
class ComparedArray {
 public:
  ComparedArray(Device& device, std::vector<T> values, std::size_t offset)
      : expected(std::move(values)), device_(device), offset_(offset) {
    auto memory = device.allocate((expected.size() + offset) * sizeof(T) + sizeof(double));
    status_ = memory.is_ok() ? Status::ok() : memory.status();
    if (!memory.is_ok()) return;
    memory_ = static_cast<T*>(memory.value());
    status_ = device.copy(nullptr, data(), expected.data(), expected.size() * sizeof(T));
    if (status_.is_ok()) status_ = device.synchronize(nullptr);
  }
  ~ComparedArray() {
    if (memory_ != nullptr) device_.free(memory_);
  }
  ComparedArray(const ComparedArray&) = delete;
  ComparedArray& operator=(const ComparedArray&) = delete;

  T* data() const { return memory_ + offset_; }
  const Status& status() const { return status_; }
  std::vector<T> read() {
    std::vector<T> found(expected.size());
    status_ = device_.copy(nullptr, found.data(), data(), found.size() * sizeof(T));
    if (status_.is_ok()) status_ = device_.synchronize(nullptr);
    return found;
  }

  std::vector<T> expected;

 private:
  Device& device_;
  const std::size_t offset_;
  T* memory_ = nullptr;
  Status status_ = Status::ok();
};

/// Compares what `kernels` make of one case.
template <typename T>
class ModelComparison {
 public:
  ModelComparison(Device& device, DeviceModels& kernels, const ModelCase& c)
      : case_(c),
        kernels_(kernels),
        model_(device, draw(1), c.offset),
        other_(device, draw(2), c.offset),
        own_(device, draw_differences(3), c.offset),
        theirs_(device, draw_differences(4), c.offset),
        wide_(device, std::vector<double>(c.count), 0),
        parts_(device, std::vector<ChangePart>(kChangeParts, {-1, -1}), 0),
        lengths_(device, std::vector<LengthPart>(kChangeParts, {-1, -1}), 0),
        word_(device, {0}, 0) {}

  /// "" or what differs.
  std::string run() {
    for (const Status& status :
         {model_.status(), other_.status(), own_.status(), theirs_.status(), wide_.status(),
          parts_.status(), lengths_.status(), word_.status()}) {
      if (!status.is_ok()) return status.message();
    }
    for (const auto step :
         {&ModelComparison::measure, &ModelComparison::average,
          &ModelComparison::add_half_difference, &ModelComparison::take_difference,
          &ModelComparison::take_mean, &ModelComparison::measure_lengths,
          &ModelComparison::add_values, &ModelComparison::write_total}) {
      const std::string wrong = (this->*step)();
      if (!wrong.empty()) return wrong + ", " + std::to_string(case_.count) + " elements";
    }
    return "";
  }

 private:
  std::vector<T> draw(std::uint32_t salt) const {
    const std::vector<float> values = draw_floats(case_.count, Values::kNormal, case_.seed + salt);
    std::vector<T> elements(case_.count);
    narrow_values(values.data(), values.size(), case_.dtype, elements.data());
    return elements;
  }
  std::vector<float> draw_differences(std::uint32_t salt) const {
    std::vector<float> values = draw_floats(case_.count, Values::kNormal, case_.seed + salt);
    const float bad = salt % 2 == 0 ? std::numeric_limits<float>::quiet_NaN()
                                    : -std::numeric_limits<float>::infinity();
    if (case_.has_lost) values[case_.seed % case_.count] = bad;
    return values;
  }
  GradientSpan gradient() const { return {model_.data(), case_.count, case_.dtype}; }
  ModelSpan span() const { return {model_.data(), case_.count, case_.dtype}; }

  std::string measure() {
    Status status = kernels_.measure_change(nullptr, span(), other_.data(), parts_.data());
    Change sum;
    for (const ChangePart& part : parts_.read()) {
      sum.difference_squares += part.difference_squares;
      sum.reference_squares += part.reference_squares;
    }
    const Change wanted =
        measure_change(model_.expected.data(), other_.expected.data(), case_.count, case_.dtype);
    if (!status.is_ok()) return status.message();
    const auto differ = [](double a, double b) { return !(std::fabs(a - b) <= 1e-5 * b); };
    return differ(sum.difference_squares, wanted.difference_squares) ||
                   differ(sum.reference_squares, wanted.reference_squares)
               ? "another change"
               : "";
  }
  /// Of gradients with a sum, and without. Doubles are added in another order.
  std::string measure_lengths() {
    for (const bool has_sum : {true, false}) {
      const Status status = kernels_.measure_lengths(
          nullptr, gradient(), has_sum ? own_.data() : nullptr, lengths_.data());
      if (!status.is_ok()) return status.message();
      LengthPart sum;
      for (const LengthPart& part : lengths_.read()) {
        sum.value_squares += part.value_squares;
        sum.total_squares += part.total_squares;
      }
      const LengthPart wanted = compress_kernels::measure_lengths(
          model_.expected.data(), has_sum ? own_.expected.data() : nullptr, case_.count,
          case_.dtype);
      const auto differ = [](double a, double b) {
        return std::isfinite(b) ? !(std::fabs(a - b) <= 1e-12 * b) : std::isfinite(a);
      };
      if (differ(sum.value_squares, wanted.value_squares) ||
          differ(sum.total_squares, wanted.total_squares)) {
        return "other lengths";
      }
    }
    return "";
  }
  std::string add_values() {
    const Status status = kernels_.add_values(nullptr, gradient(), own_.data());
    compress_kernels::add_values(model_.expected.data(), case_.count, case_.dtype,
                                 own_.expected.data());
    return compare(status, own_, "another sum");
  }
  /// In their own place, and in another one.
  std::string write_total() {
    for (ComparedArray<T>* to : {&other_, &model_}) {
      const Status status = kernels_.write_total(nullptr, gradient(), own_.data(), to->data());
      compress_kernels::write_total(model_.expected.data(), own_.expected.data(), case_.count,
                                    case_.dtype, to->expected.data());
      const std::string wrong = compare(status, *to, "another total");
      if (!wrong.empty()) return wrong;
    }
    return "";
  }
  std::string average() {
    const Status status = kernels_.average(nullptr, span(), other_.data());
    average_models(model_.expected.data(), other_.expected.data(), case_.count, case_.dtype);
    return compare(status, model_, "another mean");
  }
  std::string add_half_difference() {
    const Status status = kernels_.add_half_difference(nullptr, span(), own_.data(), theirs_.data(),
                                                       {word_.data(), 3});
    const bool are_finite =
        compress_kernels::add_half_difference(model_.expected.data(), own_.expected.data(),
                                              theirs_.expected.data(), case_.count, case_.dtype);
    word_.expected[0] = are_finite ? 0 : 3;
    const std::string wrong = compare(status, word_, "another word of what is lost");
    return wrong.empty() ? compare(status, model_, "another half of the difference") : wrong;
  }
  /// From what one array holds, in its own place.
  std::string take_difference() {
    std::vector<float> wanted(case_.count);
    compress_kernels::take_difference(model_.expected.data(), theirs_.expected.data(), case_.count,
                                      case_.dtype, wanted.data());
    const Status status = kernels_.take_difference(nullptr, span(), theirs_.data(), theirs_.data());
    theirs_.expected = wanted;
    return compare(status, theirs_, "another difference");
  }

  /// Of three such models.
  std::string take_mean() {
    Status status = kernels_.widen(nullptr, span(), wide_.data());
    widen_values(model_.expected.data(), case_.count, case_.dtype, wide_.expected.data());
    const std::string wrong = compare(status, wide_, "another double");
    if (!wrong.empty()) return wrong;
    status = kernels_.take_mean(nullptr, wide_.data(), 3, span());
    compress_kernels::take_mean(wide_.expected.data(), 3, case_.count, case_.dtype,
                                model_.expected.data());
    return compare(status, model_, "another mean of a sum");
  }

  /// Whatever its bits: arithmetic on a GPU makes all of them the same, and a processor keeps them.
  template <typename U>
  bool is_nan(const U& value) const {
    if constexpr (std::is_floating_point_v<U>) {
      return std::isnan(value);
    } else if constexpr (std::is_same_v<U, T>) {
      double wide = 0;
      widen_values(&value, 1, case_.dtype, &wide);
      return std::isnan(wide);
    } else {
      return false;
    }
  }
  template <typename U>
  std::string compare(const Status& status, ComparedArray<U>& array, const char* what) const {
    if (!status.is_ok()) return status.message();
    const std::vector<U> found = array.read();
    if (!array.status().is_ok()) return array.status().message();
    for (std::size_t i = 0; i < found.size(); ++i) {
      const U& wanted = array.expected[i];
      const bool is_same = std::memcmp(&found[i], &wanted, sizeof(U)) == 0;
      if (!is_same && !(is_nan(found[i]) && is_nan(wanted))) return what;
    }
    return "";
  }

  const ModelCase case_;
  DeviceModels& kernels_;
  ComparedArray<T> model_, other_;
  ComparedArray<float> own_, theirs_;
  ComparedArray<double> wide_;
  ComparedArray<ChangePart> parts_;
  ComparedArray<LengthPart> lengths_;
  ComparedArray<std::uint32_t> word_;
};

/// "" or what differs, and where.
inline std::string compare_models(const ModelCase& c, Device& device) {
  auto kernels = device.make_models();
  if (!kernels.is_ok()) return kernels.status().message();
  if (c.dtype == DType::kFloat32) {
    return ModelComparison<float>(device, *kernels.value(), c).run();
  }
  return ModelComparison<std::uint16_t>(device, *kernels.value(), c).run();
}

inline ModelCase random_model_case(std::size_t most, std::mt19937& engine) {
  constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};
  ModelCase c;
  c.dtype = kTypes[engine() % 3];
  c.count = 1 + engine() % most;
  c.offset = engine() % 9;
  c.seed = static_cast<std::uint32_t>(engine());
  c.has_lost = engine() % 4 == 0;
  return c;
}

}  // namespace ringpress::compress_kernels::testing

#endif  // TESTS_COMPRESS_KERNELS_MODEL_COMPARISON_H_
