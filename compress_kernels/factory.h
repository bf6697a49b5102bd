// The only header of compress_kernels/ that other folders include.
#ifndef COMPRESS_KERNELS_FACTORY_H_
#define COMPRESS_KERNELS_FACTORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringpress/internal/codec.h"
#include "ringpress/internal/cost_model.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/error_tables.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels {

/// Makes the codec that `specification` names ("q4", "q4:block=64,round=stochastic", "fp16",
/// "none") for one element type and reduction. Runs on the widest instruction set of this CPU, or
/// on the one that force_isa() named.
/// kInvalidArgument: unknown name (with the nearest one) or parameter, value out of range.
/// kUnsupported: a lossy codec with a type that is not compressible or an op other than sum or avg.
Result<std::unique_ptr<Codec>> make_codec(const std::string& specification, DType dtype,
                                          ReduceOp op);

/// Elements that share a step in a codec that can have coordinate scales (scales/scales.h); 0: it
/// cannot.
Result<std::size_t> block_of_scales(const std::string& specification);
/// Such a codec with coordinate scales: its operations need `scales`, and its bytes are as many as
/// without (with grid=lloyd at most a hundredth more). Errors are those of make_codec(), and
/// kUnsupported for one that cannot have them.
Result<std::unique_ptr<Codec>> make_scaled_codec(const std::string& specification, DType dtype,
                                                 ReduceOp op);

/// squares += (result^2 - squares) * weight, coordinate by coordinate; a square that is not finite
/// changes nothing. `result`: of a compressible type, any alignment.
void learn_scales(const void* result, std::size_t count, DType dtype, float weight, float* squares);
/// Codes by such means of squares; `block`: of the codec.
void find_scales(const float* squares, std::size_t count, std::size_t block, std::uint8_t* codes);

/// What an encoding of values would lose without scales and with them, in arbitrary units: squares
/// of errors, each divided by its coordinate's scale. So an error counts by half for its size
/// (which is what plain gradient descent feels) and by half relative to its coordinate's values
/// (as optimizers do that divide by their root mean square). One pass.
struct ScaleErrors {
  double plain = 0;
  double scaled = 0;
};
ScaleErrors measure_scales(const void* values, std::size_t count, DType dtype,
                           const std::uint8_t* codes, std::size_t block);
/// Whether so much less is lost with them that they are worth having.
bool do_scales_help(const ScaleErrors& errors);

/// The functions above as those of a device whose memory is the host's and where work is done at
/// once.
std::unique_ptr<DeviceScales> make_host_scales();
/// A codec with coordinate scales on a device, of those that make_scaled_codec() makes: the
/// device's own for float32, between divisions and multiplications in scratch memory. Its forms are
/// whole, not cut into groups as the host's are: values are the host's but where a form draws
/// random bits for itself (grid=lloyd, and partial sums of q2). With codes that are all 0 its bytes
/// and results are those of the codec without scales. Its codec() is that one, for sizes. `device`
/// may end before it does.
Result<std::unique_ptr<DeviceCodec>> make_scaled_device_codec(Device& device,
                                                              const std::string& specification,
                                                              DType dtype, ReduceOp op);

/// True for codecs that do not encode tensors but project them, which only all-reduces can do.
/// False for what is no specification.
bool projects(const std::string& specification);

/// The projection of such a codec as a device's whose memory is the host's and where work is done
/// at once. kUnsupported: a codec that projects nothing.
Result<std::unique_ptr<DeviceProjection>> make_host_projection(const std::string& specification,
                                                               DType dtype, ReduceOp op);

/// An agreement as one of such a device. `agreement` outlives it.
std::unique_ptr<DeviceAgreement> make_host_agreement(const Agreement& agreement);

/// Checks a specification without type or op and returns it with every parameter spelled out.
Result<std::string> normalize_specification(const std::string& specification);

/// The same codec in the form whose errors have mean zero over repeated calls, with every parameter
/// spelled out: `round=stochastic` where there is such a choice. Empty: it has no such form.
Result<std::string> unbiased_specification(const std::string& specification);

/// What streams of a device take for a specification. Where that leaves open what they have to
/// decide, the same codec in the form that they can do, with every parameter spelled out: for
/// "topk" with `select=chunk`. All others, and what is no specification, as they are.
std::string stream_specification(const std::string& specification);

/// False if a codec makes no use of error feedback, or would be worse with it: it is unbiased
/// without, and one encoding may lose as much as it was given, so that what is kept is large or
/// even grows from call to call.
Result<bool> takes_error_feedback(const std::string& specification);

/// Whether what a codec loses in each call is too much unless a later call makes up for it.
enum class FeedbackNeed { kNone, kAdvised, kNeeded };
Result<FeedbackNeed> feedback_need(const std::string& specification);

/// CUDA's kernels are in a library of their own.
inline constexpr const char* kKernelLibrary = "libringpress-cuda.so";
/// Why a library that dlopen() gave does not serve this build, to follow its name; empty: it does.
std::string kernel_library_problem(void* library);

/// Names of all codecs, in the order of codecs.inc.
std::vector<std::string_view> codec_names();

/// "scalar", then the SIMD targets that this build and this CPU have, narrowest first.
std::vector<std::string> available_isas();

/// Codecs made from now on use this instruction set (tests, benchmarks); "" goes back to the
/// widest. Not for use while codecs run. kInvalidArgument if it is not available.
Status force_isa(const std::string& name);

/// What `qB:block=N` would lose of a tensor, for each B of `bits`, 2 to 8; `block`: N. One pass
/// over the values. kInvalidArgument names what is not allowed.
Result<std::vector<double>> measure_bit_errors(const MeasuredTensor& tensor, std::size_t block,
                                               std::span<const int> bits);

/// What a tensor loses if only its largest values are kept, for each share of them, above 0 and at
/// most 1. One pass; within a thousandth of what sorting would give. As above.
Result<std::vector<double>> measure_density_errors(const MeasuredTensor& tensor,
                                                   std::span<const double> densities);

/// The l2 norm of a tensor with its residual; infinity where it is not finite.
double measure_norm(const MeasuredTensor& tensor);

/// Whether the values are finite numbers: each `step`-th, from the first on. Of a compressible
/// type, any alignment.
bool are_finite(const void* values, std::size_t count, DType dtype, std::size_t step = 1);

/// What gradients are to a sum of former ones, in one pass: sums of squares, in doubles. Of a
/// compressible type, any alignment; without a sum (null) the total is 0. Not finite where a value
/// is not.
LengthPart measure_lengths(const void* values, const float* sum, std::size_t count, DType dtype);

/// How far values are from a reference: sums of squares, in one pass over both.
struct Change {
  double difference_squares = 0;
  double reference_squares = 0;
  std::size_t first_non_finite = 0;  // Of the values; their number if there is none.
};
/// Of `count` elements of a compressible type each, aligned to their type. The sums are the same
/// for the same values on every machine; they are not finite where a square is none.
Change measure_change(const void* values, const void* reference, std::size_t count, DType dtype);

/// values = (values + theirs) / 2, rounded once to the type: the same whichever of the two is
/// whose.
void average_models(void* values, const void* theirs, std::size_t count, DType dtype);
/// sum += values.
void add_values(const void* values, std::size_t count, DType dtype, float* sum);
/// to = sum + values, rounded once to the type; `to` may be the values.
void write_total(const void* values, const float* sum, std::size_t count, DType dtype, void* to);
/// difference = values - base.
void take_difference(const void* values, const float* base, std::size_t count, DType dtype,
                     float* difference);
/// values += (theirs - own) / 2, rounded once to the type, where both are finite. False if some are
/// not: such values stay as they are.
bool add_half_difference(void* values, const float* own, const float* theirs, std::size_t count,
                         DType dtype);

/// wide = values.
void widen_values(const void* values, std::size_t count, DType dtype, double* wide);
/// values = sums / divisor, rounded to float32 and then to the type.
void take_mean(const double* sums, double divisor, std::size_t count, DType dtype, void* values);

/// What the best approximation of a matrix loses at each rank, 1 to 64, from one decomposition at
/// the largest: ten times the work of projecting it at that rank. As above, and for a shape that is
/// not the tensor's.
Result<std::vector<double>> measure_rank_errors(const MeasuredTensor& tensor,
                                                const MeasuredMatrix& shape,
                                                std::span<const std::size_t> ranks);

/// Where values are that a codec's speed is measured on: in a cache, as those of tensors of up to
/// some 100 KB may be, or in memory, which takes some ten times as long.
enum class ValuesIn { kCache, kMemory };

/// What a codec's speed is to be of, where what is sent depends on that.
struct MeasuredFor {
  int world = 2;  // Ranks; two at least.
  int hosts = 1;  // Those of several ranks.
  ValuesIn where = ValuesIn::kCache;
};

/// How fast a codec is on this machine, on normally distributed values, by one core and within a
/// few milliseconds; with error feedback where that would be on. kInvalidArgument: fewer than two
/// ranks. Other errors are those of make_codec().
Result<CodecSpeed> measure_codec(const std::string& specification, DType dtype,
                                 const MeasuredFor& use = {});

/// CodecSpeed::error alone, of values as of measure_codec() or of ones with heavy tails, as
/// gradients have: Student's t with three degrees of freedom.
enum class ErrorOf { kNormalValues, kHeavyTails };
Result<double> measure_codec_error(const std::string& specification, DType dtype,
                                   ErrorOf values = ErrorOf::kNormalValues);

/// The CUDA device with this number, which stays its user's to choose and to keep: no function of
/// it changes the current device of a thread. Its kernels are in libringpress-cuda.so, which is
/// looked for beside the library that calls this. kUnsupported: it is not there; kSystem: CUDA
/// refuses.
Result<std::unique_ptr<Device>> make_cuda_device(int ordinal);

}  // namespace ringpress::compress_kernels

#endif  // COMPRESS_KERNELS_FACTORY_H_
