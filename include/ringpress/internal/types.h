// The vocabulary that every folder shares: element types, reductions, collectives, algorithms.
#ifndef RINGPRESS_INTERNAL_TYPES_H_
#define RINGPRESS_INTERNAL_TYPES_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace ringpress {

/// Element types; the order and the values are NCCL's.
enum class DType : std::uint8_t {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8e4m3 = 10,
  kFloat8e5m2 = 11,
};
inline constexpr int kDTypeCount = 12;

/// Reductions; the order and the values are NCCL's. kAvg is a sum divided by the number of ranks
/// at the end (integer division for integers). A pre-multiplied sum is kSum with an input scale.
enum class ReduceOp : std::uint8_t { kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAvg = 4 };
inline constexpr int kReduceOpCount = 5;

enum class CollectiveKind : std::uint8_t {
  kAllReduce = 0,
  kReduceScatter = 1,
  kAllGather = 2,
  kBroadcast = 3,
  kReduce = 4,
  kSendRecv = 5,
};
inline constexpr int kCollectiveKindCount = 6;

/// What each does and costs: ringpress/internal/algorithms.h.
enum class Algorithm : std::uint8_t {
  kRing = 0,  // Neighbours only; requantises at every hop.
  kSra = 1,   // Scatter-reduce-allgather; two quantisations whatever the number of ranks.
  kHier = 2,  // Exact inside a host, sra between hosts. Door A only.
};
inline constexpr int kAlgorithmCount = static_cast<int>(Algorithm::kHier) + 1;  // The last one.

/// Bytes of one element.
inline std::size_t dtype_size(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
    case DType::kUint8:
    case DType::kFloat8e4m3:
    case DType::kFloat8e5m2:
      return 1;
    case DType::kFloat16:
    case DType::kBfloat16:
      return 2;
    case DType::kInt32:
    case DType::kUint32:
    case DType::kFloat32:
      return 4;
    case DType::kInt64:
    case DType::kUint64:
    case DType::kFloat64:
      return 8;
  }
  return 0;
}

/// What codecs compress: these types, of these collectives, where it is a sum. Whether a call may
/// be lossy is for why_never_lossy() (tuner/factory.h) to say.
inline constexpr std::array kCompressibleTypes = {DType::kFloat32, DType::kFloat16,
                                                  DType::kBfloat16};
inline constexpr std::array kCompressibleKinds = {
    CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter, CollectiveKind::kAllGather};

constexpr bool is_compressible(DType dtype) {
  constexpr auto kAll = kCompressibleTypes;
  static_assert(kAll.size() == 3);
  return dtype == kAll[0] || dtype == kAll[1] || dtype == kAll[2];
}
constexpr bool is_compressible(CollectiveKind kind) {
  constexpr auto kAll = kCompressibleKinds;
  static_assert(kAll.size() == 3);
  return kind == kAll[0] || kind == kAll[1] || kind == kAll[2];
}
constexpr bool is_sum(ReduceOp op) {
  return op == ReduceOp::kSum || op == ReduceOp::kAvg;
}

/// Lower-case names for messages and tables. Never null.
inline const char* dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return "int8";
    case DType::kUint8:
      return "uint8";
    case DType::kInt32:
      return "int32";
    case DType::kUint32:
      return "uint32";
    case DType::kInt64:
      return "int64";
    case DType::kUint64:
      return "uint64";
    case DType::kFloat16:
      return "float16";
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    case DType::kBfloat16:
      return "bfloat16";
    case DType::kFloat8e4m3:
      return "float8e4m3";
    case DType::kFloat8e5m2:
      return "float8e5m2";
  }
  return "unknown type";
}

inline const char* reduce_op_name(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kProd:
      return "prod";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kAvg:
      return "avg";
  }
  return "unknown op";
}

inline const char* collective_name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "all_reduce";
    case CollectiveKind::kReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::kAllGather:
      return "all_gather";
    case CollectiveKind::kBroadcast:
      return "broadcast";
    case CollectiveKind::kReduce:
      return "reduce";
    case CollectiveKind::kSendRecv:
      return "send/recv";
  }
  return "unknown collective";
}

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_TYPES_H_
