// Coordinate scales of a communicator's tensors (compress_kernels/scales/scales.h): learnt from the
// results of their calls, and used where they help. On host memory; for calls in streams,
// nccl_plugin/interposer/stream/stream_scales.h keeps the same of the same calls on the device.
//
// Ranks encode and decode with the same codes, so all that is decided here goes by what is equal on
// all ranks: the order and the shapes of calls, the settings, and the results, which all ranks have
// bit for bit alike. No byte is sent for it. Addresses are not looked at: a tensor is its place in
// the sequence of shapes that the calls repeat. While a call has no such place it goes without
// scales. Two tensors of one shape that are taken for one another are both learnt from: then scales
// do not help, which is measured, and it goes without them. Frames carry a hash of the codes:
// should ranks ever have different ones, the call fails and no value is wrong.
//
// The first 31 calls of a tensor are learnt from, then each 2nd, 4th and so on up to each 32nd, by
// as many as there have been: learning takes about as long as encoding does. After its calls 2, 4,
// 8 to 64 and then each 64th it is measured on the result, by the codes that the call had or would
// have had, whether encoding that loses less with scales. The results' encoding is where most is
// lost.
#ifndef NCCL_PLUGIN_SESSION_CALLS_COORDINATE_SCALES_H_
#define NCCL_PLUGIN_SESSION_CALLS_COORDINATE_SCALES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nccl_plugin/session/calls/call_sequence.h"
#include "nccl_plugin/session/calls/placed_tensors.h"
#include "nccl_plugin/session/state/state_bytes.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin {

/// Whether all-reduces may have coordinate scales where RINGPRESS_EF=scales; if not, why.
enum class ScalesAnswer : std::uint8_t { kYes, kPutOff, kHasLevels, kNotByCodec };
ScalesAnswer may_have_scales(const CallSettings& settings, const std::string& codec);
/// For people: why calls with this codec have none; empty: they may have some.
std::string to_text(ScalesAnswer answer, const std::string& codec);

/// Of one communicator. One thread at a time.
class CoordinateScales {
  struct Tensor;

 public:
  /// What a call is encoded with, and what its result is learnt for. The same on all ranks. Until
  /// the next choose().
  struct Chosen {
    const std::uint8_t* codes = nullptr;  // Null: none.
    std::uint64_t hash = 0;               // Of the codes.
    Tensor* tensor = nullptr;             // Null: nothing is learnt.
  };

  /// Whether any call may have scales (Decision::has_scales): not together with levels or with
  /// calls that are put off, which make other results of the same values.
  static bool may_be_wanted(const CallSettings& settings);

  CoordinateScales(std::shared_ptr<CallSequence> sequence, std::size_t limit_bytes)
      : sequence_(std::move(sequence)), tensors_(limit_bytes) {}

  /// For the next call of those that CallUser::kScales is told of. `block`: of its codec; 0: that
  /// has no scales. Throws where there is no memory.
  Chosen choose(const TensorCall& call, std::size_t block);
  /// Of the call that they were chosen for, once it has ended well.
  static void learn(const Chosen& chosen, const void* result);

  /// Memory held.
  std::size_t bytes() const { return tensors_.bytes(); }

  /// All that is kept is equal on all ranks; and so is its hash.
  std::uint64_t hash() const;
  void save(StateWriter& to) const;
  /// For one that has seen no call, with the sequence of that state. Of what `from` fails at,
  /// nothing is to be used.
  void load(StateReader& from);
  /// Goes on with what `loaded` has.
  void adopt(CoordinateScales&& loaded) { tensors_.adopt(std::move(loaded.tensors_)); }

 private:
  struct Tensor {
    DType dtype = DType::kFloat32;
    std::uint64_t calls = 0;
    std::size_t block = 0;
    bool is_helped = false;
    std::vector<float> squares;
    std::vector<std::uint8_t> codes;  // By these squares and the block.
    std::uint64_t codes_hash = 0;

    std::size_t bytes() const { return squares.size() * (sizeof(float) + 1); }
  };

  Tensor* tensor_at(const CallPlaces& places, const TensorCall& call);
  static void find_codes(Tensor* tensor);

  const std::shared_ptr<CallSequence> sequence_;
  PlacedTensors<Tensor> tensors_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_COORDINATE_SCALES_H_
