// How long an all-reduce, reduce-scatter or all-gather takes, from the latency and rate of
// links and the speeds of codecs: what the tuner compares and `ringpress explain` prints. The usual
// alpha-beta formulas (Thakur, Rabenseifner and Gropp, 2005) with a third term for codecs, whose
// work overlaps with the wire as far as a call has several chunks. Pure: nothing here measures.
// Times are in seconds, rates in bytes a second, of one rank.
#ifndef RINGPRESS_INTERNAL_COST_MODEL_H_
#define RINGPRESS_INTERNAL_COST_MODEL_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress {

/// What lies between ranks: a rank sends and receives at this rate at the same time.
struct LinkSpeed {
  double latency_seconds =
      0;  // From a rank's call to what another one can use, of an empty message.
  double bytes_per_second = 0;
};

/// Links by class.
struct Links {
  LinkSpeed between;  // Of a host's network card, which its ranks share.
  LinkSpeed inside;   // Of a rank, to those of its host. Not looked at where each rank is alone.
};

/// One operation of a codec: start_seconds + seconds_per_byte * bytes of values, uncompressed.
struct OperationCost {
  double start_seconds = 0;
  double seconds_per_byte = 0;
};

/// What ranks tell each other before they encode (ringpress/internal/agreement.h). Most codecs:
/// nothing.
struct AgreementCost {
  std::size_t tensor_bytes = 0;  // Of a summary of the whole tensor, which all ranks exchange.
  int rounds = 0;                // Of each chunk.
  double ratio = 0;              // Bytes of the summaries of all rounds over those of the values.
  OperationCost summarise = {};  // All rounds.
};

/// What is all-reduced instead of the tensor (ringpress/internal/projection.h), in one exact or
/// encoded all-reduce after the other. Most codecs: the tensor itself.
struct ProjectionCost {
  int rounds = 0;  // 0: it does not project.
  // Bytes of all rounds together, for s bytes of values: share * s + of_root * sqrt(s), at most
  // most * s.
  double share = 1;
  double of_root = 0;
  double most = 1;

  double bytes(double of_values) const {
    return std::min(most * of_values, share * of_values + of_root * std::sqrt(of_values));
  }
};

struct CodecSpeed {
  std::string codec;  // Specification.
  double ratio = 1;   // Encoded bytes over those of the values: of one rank's values.
  double error = 0;   // Of one encoding, relative: l2 norm of the loss over that of the values.
  OperationCost encode;
  OperationCost decode;
  OperationCost hop;  // Decode one part, add own values, encode; more parts: as `decode` besides.
  // Of the whole tensor, once a call, while nothing else is done. Most codecs: nothing.
  OperationCost look = {};
  AgreementCost agreement = {};
  // What all of the above but `look` is of.
  ProjectionCost projection = {};
  // Sums of encoded values lose nothing more, as codes are added that are.
  bool sums_exactly = false;
  // As `ratio`; 0: the same. Of the partial sums that a ring sends, in the mean, and of the whole
  // sum, among so many ranks as were asked about: sums of codes take more bits than codes.
  double partial_sum_ratio = 0;
  double sum_ratio = 0;
  double hosts_sum_ratio = 0;  // Of a sum of so many hosts as were asked about, as hier has it.
  double alone_ratio = 0;      // Of values that are not summed, as an all-gather sends them.

  /// Of each part after the first in a hop. Where decoding is no work, adding is, and no more than
  /// a hop.
  const OperationCost& further_part() const { return decode.seconds_per_byte > 0 ? decode : hop; }
  /// Sums are encoded anew, and lose something each time.
  bool requantises() const { return error > 0 && !sums_exactly; }
  /// What a ring or sra sends of s bytes of values in its second half, over s.
  double gathered_ratio(double of_values) const {
    const double first = sent_ratio(of_values);
    return sum_ratio > 0 ? first / ratio * sum_ratio : first;
  }
  /// What is encoded of s bytes of values over s, of one rank's.
  double sent_ratio(double of_values) const {
    return of_values > 0 ? ratio * projection.bytes(of_values) / of_values : ratio;
  }
};

struct CallShape {
  std::size_t bytes = 0;   // Of the whole tensor: of all shards of a reduce-scatter or all-gather.
  int world = 0;           // Ranks.
  int ranks_per_host = 1;  // As many on every host; neighbours in a ring.
  CollectiveKind kind = CollectiveKind::kAllReduce;  // kReduceScatter or kAllGather.
};

/// What a call of such a shape would take.
struct CallCost {
  std::string codec;
  Algorithm algorithm = Algorithm::kSra;
  std::size_t chunks = 1;  // That each shard is cut into.
  double seconds = 0;      // Of the call: not the sum of what follows.
  double latency_seconds = 0;
  double wire_seconds = 0;    // Of the class of links that takes longer; hier: between hosts.
  double inside_seconds = 0;  // hier: the exact sums within hosts. Else nothing.
  double codec_seconds = 0;
  double error = 0;  // As CodecSpeed::error; what requantising in a ring adds is not in it.
  std::size_t wire_bytes = 0;  // That one rank sends.
};

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_COST_MODEL_H_
