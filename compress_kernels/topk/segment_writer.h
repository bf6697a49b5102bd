// One segment of topk to bytes.
#ifndef COMPRESS_KERNELS_TOPK_SEGMENT_WRITER_H_
#define COMPRESS_KERNELS_TOPK_SEGMENT_WRITER_H_

#include <cstddef>

#include "compress_kernels/topk/kernels.h"

namespace ringpress::compress_kernels::topk {

/// Writes the selected of `elements` elements in the smallest form, and what each decodes to into
/// selection->decoded. Returns the bytes written, at most largest_bytes(value_bits, elements).
/// `upcoming`: memory that will be read next, which is fetched meanwhile; any address.
std::size_t write_segment(const Kernels& kernels, int value_bits, std::size_t elements,
                          Selection* selection, std::byte* wire, const void* upcoming);

}  // namespace ringpress::compress_kernels::topk

#endif  // COMPRESS_KERNELS_TOPK_SEGMENT_WRITER_H_
