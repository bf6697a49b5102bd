// The functions of factory.h as a table that one library hands to a program built with it. So the
// command `ringpress` has no copy of the codecs: libringpress.so shows its own by one name, and
// opened_factory.cc calls them where codecs would be linked.
//
// Both sides are built from one tree: what passes between them has the layout of one compiler. They
// compare their version and the number of their headers, and nothing passes if these differ.
#ifndef COMPRESS_KERNELS_FACTORY_TABLE_H_
#define COMPRESS_KERNELS_FACTORY_TABLE_H_

#include "compress_kernels/factory.h"
#include "ringpress/version.h"
#include "ringpress_module_layout.h"

namespace ringpress::compress_kernels {

// Each function of factory.h.
#define RINGPRESS_FACTORY_FUNCTIONS(FUNCTION) \
  FUNCTION(make_codec)                        \
  FUNCTION(block_of_scales)                   \
  FUNCTION(make_scaled_codec)                 \
  FUNCTION(learn_scales)                      \
  FUNCTION(find_scales)                       \
  FUNCTION(measure_scales)                    \
  FUNCTION(do_scales_help)                    \
  FUNCTION(make_host_scales)                  \
  FUNCTION(make_scaled_device_codec)          \
  FUNCTION(projects)                          \
  FUNCTION(make_host_projection)              \
  FUNCTION(make_host_agreement)               \
  FUNCTION(normalize_specification)           \
  FUNCTION(unbiased_specification)            \
  FUNCTION(stream_specification)              \
  FUNCTION(takes_error_feedback)              \
  FUNCTION(feedback_need)                     \
  FUNCTION(kernel_library_problem)            \
  FUNCTION(codec_names)                       \
  FUNCTION(available_isas)                    \
  FUNCTION(force_isa)                         \
  FUNCTION(measure_bit_errors)                \
  FUNCTION(measure_density_errors)            \
  FUNCTION(measure_norm)                      \
  FUNCTION(are_finite)                        \
  FUNCTION(measure_lengths)                   \
  FUNCTION(measure_change)                    \
  FUNCTION(average_models)                    \
  FUNCTION(add_values)                        \
  FUNCTION(write_total)                       \
  FUNCTION(take_difference)                   \
  FUNCTION(add_half_difference)               \
  FUNCTION(widen_values)                      \
  FUNCTION(take_mean)                         \
  FUNCTION(measure_rank_errors)               \
  FUNCTION(measure_codec)                     \
  FUNCTION(measure_codec_error)               \
  FUNCTION(make_cuda_device)

struct FactoryTable {
#define RINGPRESS_MEMBER(NAME) \
  decltype(&::ringpress::compress_kernels::NAME) NAME;  // NOLINT(bugprone-macro-parentheses)
  RINGPRESS_FACTORY_FUNCTIONS(RINGPRESS_MEMBER)
#undef RINGPRESS_MEMBER
};

/// Says which build a table is of.
inline constexpr unsigned long long kFactoryLayout = RINGPRESS_MODULE_LAYOUT;
inline constexpr const char* kFactoryEntry = "ringpressOpenFactory";
/// The table, or null if the library is of another build.
using FactoryEntry = const FactoryTable* (*)(const char* version, unsigned long long layout);

}  // namespace ringpress::compress_kernels

#endif  // COMPRESS_KERNELS_FACTORY_TABLE_H_
