// ringpress explain: what the cost model says of a call, with the numbers behind it.
#ifndef NCCL_PLUGIN_COMMAND_EXPLAIN_EXPLAIN_H_
#define NCCL_PLUGIN_COMMAND_EXPLAIN_EXPLAIN_H_

#include <string>

namespace ringpress::nccl_plugin::command {

/// As on the command line.
struct ExplainOptions {
  std::string size;               // 64M; all: a table of sizes.
  std::string dtype = "float32";  // float32, float16, bfloat16.
  int ranks = 0;
  std::string collective = "all_reduce";  // reduce_scatter, all_gather.
  std::string rate = "1gbit";             // Of a host's link, as tc writes it.
  std::string latency = "50us";
  int ranks_per_host = 1;
  std::string inside_rate = "100gbit";  // Of each rank within its host.
  std::string inside_latency = "5us";
  std::string budget;  // A codec whose error is not to be exceeded; empty: RINGPRESS_BUDGET's.
  std::string codecs;  // That are compared; empty: what automatic mode chooses from.
  bool json = false;
  bool csv = false;  // Of the table.
};

/// Needs no GPU, no network and no peers: codecs are measured here, links are as given. Throws
/// terminal::Error for a mistake in the options.
int explain(const ExplainOptions& options);

/// Bytes a second of a rate such as 1gbit, 100mbit or 25gbit. Throws terminal::Error.
double parse_rate(const std::string& text);
/// Seconds of a time such as 50us, 1.5ms or 2s. Throws terminal::Error.
double parse_seconds(const std::string& text);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_EXPLAIN_EXPLAIN_H_
