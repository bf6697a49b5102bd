// Whose residual a call gets, in random programs: tensors of equal and of different shapes, steps
// that share tensors, calls that come between, buffers that move or are made anew; or trainings of
// one step, with values that are logged, evaluations and the like. The program knows which tensor
// it is; error feedback sees the calls alone.
#ifndef TESTS_SUPPORT_RANDOM_PROGRAM_H_
#define TESTS_SUPPORT_RANDOM_PROGRAM_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "nccl_plugin/session/calls/error_feedback.h"

namespace ringpress::testing {

/// What a program does with its buffers.
enum class Buffers {
  kKept,     // Each tensor has one of its own.
  kMoved,    // Now and then all tensors get new ones.
  kRebuilt,  // Now and then there are other tensors, some in buffers that held some of other sizes.
  kAnew,     // Each call has a new one. Sizes tell which step it is of.
  kOne,      // All tensors go through one. Sizes tell which step it is of.
};

/// What a program does.
enum class Program {
  kSteps,     // Several steps, each so many times, and calls between.
  kTraining,  // One step, and now and then something else: see RandomProgram::train().
};

struct Residuals {
  std::size_t calls = 0;
  std::size_t found = 0;   // Calls that had one, zero or not.
  std::size_t others = 0;  // That was another tensor's.
  // A new one, though the tensor had one: it has several, or lost it.
  std::size_t anew = 0;
};

class RandomProgram {
 public:
  RandomProgram(Program program, Buffers buffers, std::uint32_t seed)
      : program_(program), buffers_(buffers), dice_(seed) {
    make_tensors();
  }

  Residuals run() {
    switch (program_) {
      case Program::kSteps:
        make_blocks();
        break;
      case Program::kTraining:
        train();
        break;
    }
    return residuals_;
  }

 private:
  static constexpr std::size_t kStrangers = 4;  // Tensors that are in no step.

  struct Tensor {
    float number = 0;  // No other has it.
    nccl_plugin::TensorCall call;
    bool has_residual = false;
  };

  void make_blocks() {
    for (int block = 0; block < 30; ++block) {
      const bool changes = block % 10 == 9;
      if (changes && buffers_ == Buffers::kMoved) move();
      if (changes && buffers_ == Buffers::kRebuilt) make_tensors();
      const std::vector<std::size_t>& step = steps_[below(steps_.size())];
      const std::size_t times = 1 + below(8);
      for (std::size_t i = 0; i < times; ++i) {
        for (const std::size_t tensor : step) {
          if (below(60) == 0) make_call(own_tensors_ + below(kStrangers));
          make_call(tensor);
        }
      }
      if (below(4) == 0) interrupt();
    }
  }

  /// One step of as many tensors as there are. Every few steps a value is logged, in a buffer of
  /// its own or a new one: a small call; every few steps something larger is reduced. Some programs
  /// add up gradients of a varying number of steps before that, some evaluate.
  void train() {
    const std::size_t log_every = 2 + below(8), reduce_every = 2 + below(8);
    const bool logs = below(4) != 0, reduces = below(2) == 0, evaluates = below(2) == 0;
    const bool is_logged_anew = below(2) == 0, is_uneven = below(4) == 0;
    std::size_t until_log = log_every;
    for (std::size_t step = 1; step <= 200; ++step) {
      if (step % 67 == 0 && buffers_ == Buffers::kMoved) move();
      if (step % 67 == 0 && buffers_ == Buffers::kRebuilt) make_tensors();
      for (std::size_t i = 0; i < own_tensors_; ++i) make_call(i);
      const std::size_t first = own_tensors_;  // That is in no step.
      if (logs && --until_log == 0) {
        if (is_logged_anew) tensors_[first].call.address = new_address();
        make_call(first);
        until_log = is_uneven ? 1 + below(log_every) : log_every;
      }
      if (reduces && step % reduce_every == 0) make_call(first + 1);
      if (evaluates && step % 50 == 0) {
        for (std::size_t i = below(20); i > 0; --i) make_call(first + 2 + below(2));
      }
    }
  }

  std::size_t below(std::size_t limit) { return dice_() % limit; }

  void make_tensors() {
    own_tensors_ = 1 + below(12);
    const std::vector<Tensor> before = std::exchange(tensors_, {});
    for (std::size_t i = 0; i < own_tensors_ + kStrangers; ++i) {
      Tensor made;
      made.number = static_cast<float>(++last_number_);
      made.call.count = 4 + below(below(2) == 0 ? 2 : 20);
      if (program_ == Program::kTraining && i != own_tensors_) made.call.count += 100;
      made.call.address = new_address();
      if (!before.empty() && below(2) == 0) use_again(before[below(before.size())], &made);
      had_.insert({made.call.address, made.call.count});
      tensors_.push_back(made);
    }
    if (buffers_ == Buffers::kOne) {
      for (Tensor& tensor : tensors_) tensor.call.address = tensors_[0].call.address;
    }
    if (buffers_ == Buffers::kAnew || buffers_ == Buffers::kOne) {
      make_distinct_steps();
    } else {
      make_steps();
    }
  }

  /// The buffer, if it never held a tensor of this size: calls would show no difference.
  void use_again(const Tensor& before, Tensor* made) {
    const void* const address = before.call.address;
    const bool is_free = std::none_of(tensors_.begin(), tensors_.end(), [&](const Tensor& one) {
      return one.call.address == address;
    });
    if (is_free && had_.count({address, made->call.count}) == 0) made->call.address = address;
  }

  /// Each has tensors, and sizes, of its own, and a last one of which there is no other.
  void make_distinct_steps() {
    steps_.assign(1 + below(own_tensors_), {});
    for (std::size_t i = 0; i < own_tensors_; ++i) {
      const std::size_t step = i % steps_.size();
      tensors_[i].call.count += 100 * step;
      if (i + steps_.size() >= own_tensors_) tensors_[i].call.count += 50;
      steps_[step].push_back(i);
    }
    for (std::size_t i = own_tensors_; i < tensors_.size(); ++i) {
      tensors_[i].call.count += 10000 + 100 * i;
    }
  }

  void make_steps() {
    steps_.assign(1 + below(4), {});
    for (std::vector<std::size_t>& step : steps_) {
      const std::size_t length = 1 + below(10);
      for (std::size_t i = 0; i < length; ++i) step.push_back(below(own_tensors_));
      // The first one in another order.
      if (below(3) != 0 || steps_[0].size() < 2) continue;
      step = steps_[0];
      std::swap(step[below(step.size())], step[below(step.size())]);
    }
  }

  void move() {
    for (Tensor& tensor : tensors_) tensor.call.address = new_address();
  }

  void interrupt() {
    const bool are_distinct = buffers_ == Buffers::kAnew || buffers_ == Buffers::kOne;
    const std::size_t first = are_distinct ? own_tensors_ : 0;
    for (std::size_t i = 1 + below(5); i > 0; --i) {
      make_call(first + below(tensors_.size() - first));
    }
  }

  /// Of which no tensor's memory is a part.
  const void* new_address() { return reinterpret_cast<const void*>(last_address_ += 1 << 20); }

  void make_call(std::size_t index) {
    Tensor& tensor = tensors_[index];
    if (buffers_ == Buffers::kAnew) tensor.call.address = new_address();
    ++residuals_.calls;
    float* const residual = feedback_.find(tensor.call).residual;
    if (residual == nullptr) return;
    ++residuals_.found;
    if (residual[0] != 0 && residual[0] != tensor.number) ++residuals_.others;
    if (residual[0] == 0 && std::exchange(tensor.has_residual, true)) ++residuals_.anew;
    residual[0] = tensor.number;
  }

  const Program program_;
  const Buffers buffers_;
  std::mt19937 dice_;
  nccl_plugin::ErrorFeedback feedback_{0};
  Residuals residuals_;
  std::size_t own_tensors_ = 0;
  std::vector<Tensor> tensors_;
  std::vector<std::vector<std::size_t>> steps_;
  std::set<std::pair<const void*, std::size_t>> had_;  // Buffers, and sizes that they held.
  std::uint32_t last_number_ = 0;
  std::uintptr_t last_address_ = 0;
};

inline Residuals run_programs(Program program, Buffers buffers, std::uint32_t programs) {
  Residuals all;
  for (std::uint32_t seed = 1; seed <= programs; ++seed) {
    const Residuals one = RandomProgram(program, buffers, seed).run();
    all.calls += one.calls;
    all.found += one.found;
    all.others += one.others;
    all.anew += one.anew;
  }
  return all;
}

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_RANDOM_PROGRAM_H_
