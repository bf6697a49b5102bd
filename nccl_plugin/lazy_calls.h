// RINGPRESS_LAZY: all-reduces of gradients that are put off until enough has come together.
//
// Each rank adds a tensor's gradients up, call by call, and votes: how long the sum has become,
// over the mean length of the single gradients in it. (Gradients that agree grow with their number,
// noise with its root.) The largest vote of all ranks decides (lazy_votes.h), so that they all do
// the same:
//
//   below RINGPRESS_LAZY   the result of the call is zeros, and what was added up stays
//   else                   what has been added up is all-reduced in its place, and begins anew
//
// Also where a rank does not know the tensor or has no place for a sum, and in every
// RINGPRESS_LAZY_CALLS-th call of a tensor. Values that are not finite on some rank are sent by
// themselves: the program will throw that result away. (A rank that has begun to send its sum
// before it hears of them keeps what was added up before the call.) Nothing of float16 is put off:
// sums might not fit it, and what is trained in it is multiplied by a scale that changes. This is
// an algorithm of its own, near those that aggregate gradients lazily (Chen et al., LAG, 2018); the
// program's optimizer sees fewer and larger steps.
//
// When the sequence of calls breaks, what has been added up is an orphan until a call of its tensor
// comes, with which it is sent. Where calls are otherwise the same, that is the call at its place
// in the step, if its buffer is a new one: one that had another place before may be another
// tensor's turn, or memory that is used again, and what cannot be told is not mixed. Where the
// calls differ it is the next one of the same buffer, if no other tensor was of its shape. Orphans
// that wait for more than RINGPRESS_LAZY_CALLS steps are given up, and counted as unsent.
#ifndef NCCL_PLUGIN_LAZY_CALLS_H_
#define NCCL_PLUGIN_LAZY_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <vector>

#include "nccl_plugin/error_feedback.h"
#include "nccl_plugin/lazy_votes.h"
#include "ringpress/communicator.h"
#include "ringpress/mesh.h"
#include "ringpress/settings.h"

namespace ringpress::nccl_plugin {

/// Of one communicator. One thread at a time.
class LazyCalls {
 public:
  /// `mesh` and `sequence`, of the communicator's calls, outlive this.
  LazyCalls(const Settings& settings, Mesh& mesh, std::uint64_t& sequence);

  static bool is_wanted(const Settings& settings) {
    return settings.lazy > 0 && (settings.mode == "on" || settings.mode == "lossless");
  }
  /// The same on all ranks.
  bool takes(std::size_t count, DType dtype, const Reduction& reduction) const;

  struct Decision {
    bool is_put_off = false;
    bool has_sum = false;  // What take_sum() gives is to be sent instead of the values.
  };
  /// Adds the values of a call to what there is of its tensor. Collective. An error ends the
  /// communicator. A call that is not put off is to be sent now, and then concluded.
  Result<Decision> decide(const TensorCall& call, const void* values);
  /// Writes the sum of the last decision to `to`, of the tensor's count and type, which may be the
  /// values decide() was given: what there was before them is kept until conclude().
  void take_sum(const void* values, void* to);
  /// The call has been sent: its sum begins anew, unless a rank had values that are not finite.
  /// Collective. An error ends the communicator.
  Status conclude();

  /// This rank votes to send the next call of every tensor that is known now, which is enough.
  void flush();

  struct Unsent {
    std::size_t tensors = 0;
    std::size_t elements = 0;  // Of these tensors.
    double norm = 0;           // l2, of all sums together.
  };
  /// What this rank has put off and not sent, what was given up included. Reads all of it.
  Unsent measure_unsent() const;

  /// Memory held, in bytes.
  std::size_t bytes() const { return bytes_; }

 private:
  struct Sum {
    TensorCall call;
    std::optional<std::size_t> place;  // In shapes_, if no other tensor has it.
    std::vector<float> values;
    std::size_t steps_missed = 0;  // By an orphan.
    std::size_t calls = 0;
    double norms = 0;         // Of the single gradients, added up.
    double most_length = 0;   // That `values` may have.
    bool is_flushed = false;  // The next call is to be sent.
  };
  /// A tensor of an earlier sequence.
  struct Former {
    TensorCall call;
    std::optional<std::size_t> place;  // As in Sum.
  };
  /// The sum that is being sent instead of a call's values, whose norm is in its norms.
  struct Sending {
    Sum* sum = nullptr;
    double norm = 0;
  };

  static std::size_t bytes_of(const Sum& sum) { return sum.values.size() * sizeof(float); }
  static double length_of(const Sum& sum);
  static void count_unsent(const Sum& sum, Unsent* unsent);
  void observe(const TensorCall& call);
  void forget_places();
  void orphan_sums();
  void end_step();
  void give_up(std::list<Sum>::iterator orphan);
  void remember(const Sum& sum);
  bool stood_elsewhere(const TensorCall& call) const;
  bool has_likeness(const TensorCall& call) const;
  Sum* find_orphan(const TensorCall& call);
  Sum* find_sum(const TensorCall& call);
  bool is_repeated(const TensorCall& call);
  bool is_due(const Sum& sum) const;
  bool add(Sum* sum, const void* values, double norm) const;
  void take_back(Sum* sum, const void* values, double norm) const;
  void begin_anew(Sum* sum);

  const double threshold_;
  const std::size_t most_calls_;
  const std::size_t minimum_bytes_;
  const std::size_t limit_bytes_;  // 0: none.
  const int rank_;
  const int size_;
  LazyVotes votes_;
  CallPattern pattern_;
  CallPattern shapes_;                       // Of the calls without their addresses.
  std::optional<std::size_t> position_;      // Of the last call in pattern_,
  std::optional<std::size_t> place_;         // in shapes_,
  std::optional<std::size_t> place_of_sum_;  // and there, if no other tensor has it.
  std::map<std::size_t, Sum> sums_;          // By position.
  std::list<Sum> orphans_;                   // Whose position is no more.
  std::vector<Former> formers_;              // While there are orphans.
  std::vector<TensorCall> repeated_;         // Of this sequence.
  Unsent given_up_;
  Sending sending_;
  std::size_t bytes_ = 0;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_LAZY_CALLS_H_
