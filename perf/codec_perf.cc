// codec_perf: the speed of each codec, type, operation and instruction set on one core, beside
// memcpy of the same values in the same run.
//
// Each repetition times memcpy, then the operation, on the same buffers (A/B/A/B). The table has
// the medians, in GB/s of uncompressed values, and the median of the ratios of neighbours, which is
// what to look at on a noisy machine.
#include <fmt/core.h>
#include <sys/mman.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "compress_kernels/factory.h"
#include "nccl_plugin/command/terminal/standard_output.h"
#include "perf/accuracy/local_agreement.h"
#include "perf/codec_values.h"

namespace ringpress::perf {
namespace {

using compress_kernels::make_codec;

struct Options {
  std::size_t bytes = std::size_t{64} << 20;  // Of uncompressed values.
  std::size_t chunk_elements = 0;             // Elements per call; 0: all of them.
  std::size_t world = 1;                      // Ranks; 1: forms that stand alone.
  std::vector<std::string> codecs;
  std::vector<std::string> dtypes = {"float32"};
  std::vector<std::string> isas;
  std::vector<std::string> operations;
  int repetitions = 5;
  std::string json_file;
};

// "agree" is what a rank does before it can encode in a larger world: its own summaries. Some
// codecs go by a summary of the rank's own tensor alone. For these, "select" is all that a rank
// does with a tensor before it sends: the summary and the encoding. So is "encode_ef", with a
// residual; all others go by a summary made before.
const std::vector<std::string> kOperations = {"agree",  "select",     "encode", "encode_ef",
                                              "decode", "decode_add", "hop"};

/// Zeroed pages, touched, so that no repetition pays for page faults.
class Pages {
 public:
  explicit Pages(std::size_t bytes) : bytes_(bytes) {
    memory_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    madvise(memory_, bytes, MADV_HUGEPAGE);
    std::memset(memory_, 0, bytes);
  }
  ~Pages() { munmap(memory_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(memory_); }

 private:
  void* memory_;
  std::size_t bytes_;
};

/// All memory of a run.
struct Buffers {
  explicit Buffers(std::size_t bytes)
      : values(bytes),
        output(bytes),
        residual(2 * bytes),
        sum(2 * bytes),
        wire(2 * bytes),
        part(2 * bytes) {}
  Pages values;
  Pages output;
  Pages residual;  // float32 for each element, whatever its type.
  Pages sum;
  Pages wire;
  Pages part;
};

/// One codec at work on the buffers, chunk by chunk. All ranks of its world hold the same values.
class Bench {
 public:
  Bench(const Codec& codec, const Buffers& buffers, const Options& options)
      : codec_(codec),
        buffers_(buffers),
        count_(options.bytes / dtype_size(codec.dtype())),
        chunk_(options.chunk_elements == 0 ? count_ : options.chunk_elements),
        world_(goes_by_own_summary() ? std::max<std::size_t>(2, options.world) : options.world),
        sizes_((count_ + chunk_ - 1) / chunk_) {}

  /// True if each rank first looks at the whole of its own tensor, and nothing of that travels.
  bool goes_by_own_summary() const {
    const Agreement* agreement = codec_.agreement();
    return agreement != nullptr && agreement->tensor_bytes() > 0 && !agreement->tensor_is_shared();
  }

  /// Makes what the operation reads: contributions of one rank, or complete ones to decode.
  void prepare(const std::string& operation) {
    if (world_ > 1) agree(nullptr);
    summed_ = operation == "decode" ? world_ : 1;
    run("encode");
    std::memcpy(buffers_.part.data(), buffers_.wire.data(), 2 * count_ * element());
    std::memset(buffers_.residual.data(), 0, count_ * sizeof(float));
    summed_ = 1;
  }

  void run(const std::string& operation) {
    if (operation == "agree") return agree(nullptr);
    if (operation == "select") agree(nullptr);
    // With the residual of the repetition before, which makes another summary.
    if (operation == "encode_ef" && goes_by_own_summary()) agree(residual());
    std::size_t wire_offset = 0;
    for (std::size_t first = 0; first < count_; first += chunk_) {
      const std::size_t count = std::min(chunk_, count_ - first);
      run_chunk(operation, first, count, wire_offset);
      wire_offset += std::max(codec_.wire_bytes(count, {1, world_}),
                              codec_.wire_bytes(count, {world_, world_}));
    }
  }

 private:
  float* residual() const { return reinterpret_cast<float*>(buffers_.residual.data()); }

  std::size_t element() const { return dtype_size(codec_.dtype()); }

  void agree(const float* added) {
    const perf::RankValues all{buffers_.values.data(), added};
    tensor_.assign(1, perf::LocalAgreement::of_tensor(codec_, {all}, 0, count_));
    chunks_.clear();
    for (std::size_t first = 0; first < count_; first += chunk_) {
      const perf::RankValues values{buffers_.values.data() + first * element()};
      chunks_.push_back(perf::LocalAgreement::of_chunk(
          codec_, {values}, std::min(chunk_, count_ - first), tensor_[0]));
    }
  }

  void run_chunk(const std::string& operation, std::size_t first, std::size_t count,
                 std::size_t wire_offset) {
    const std::byte* values = buffers_.values.data() + first * element();
    std::byte* wire = buffers_.wire.data() + wire_offset;
    const std::byte* part = buffers_.part.data() + wire_offset;
    const std::size_t size = sizes_[first / chunk_];
    const Agreed agreed =
        world_ == 1 ? Agreed{} : perf::LocalAgreement::agreed(tensor_[0], chunks_[first / chunk_]);
    if (operation == "decode") {
      DecodeArgs args;
      args.wire = part;
      args.wire_size = size;
      args.count = count;
      args.values = buffers_.output.data() + first * element();
      args.form = {world_, world_};
      args.agreed = agreed;
      codec_.decode(args);
    } else if (operation == "decode_add") {
      DecodeAddArgs args;
      args.wire = part;
      args.wire_size = size;
      args.count = count;
      args.sum = buffers_.sum.data() + first * sum_element();
      args.form = {1, world_};
      args.agreed = agreed;
      codec_.decode_add(args);
    } else if (operation == "hop") {
      DecodeAddEncodeArgs args;
      args.wires = {&part, 1};
      args.wire_sizes = {&size, 1};
      args.own_position = 1;
      args.values = values;
      args.count = count;
      args.wire = wire;
      args.random.first_element = first;
      args.form = {std::min<std::size_t>(2, world_), world_};
      args.agreed = agreed;
      codec_.decode_add_encode(args);
    } else {
      EncodeArgs args;
      args.values = values;
      args.count = count;
      args.wire = wire;
      if (operation == "encode_ef") args.residual = residual() + first;
      args.random.first_element = first;
      args.form = {summed_, world_};
      args.agreed = agreed;
      sizes_[first / chunk_] = codec_.encode(args);
    }
  }

  std::size_t sum_element() const { return is_compressible(codec_.dtype()) ? 4 : element(); }

  const Codec& codec_;
  const Buffers& buffers_;
  std::size_t count_;
  std::size_t chunk_;
  std::size_t world_;
  std::size_t summed_ = 1;                    // Contributions that an encode makes room for.
  std::vector<std::size_t> sizes_;            // Of each chunk on the wire, in bytes.
  std::vector<perf::LocalAgreement> tensor_;  // One.
  std::vector<perf::LocalAgreement> chunks_;
};

template <typename Work>
double seconds_of(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Row {
  std::string requested;  // The codec's specification as it was given, and
  std::string codec;      // in full.
  std::string dtype;
  std::string operation;
  std::string isa;
  double gigabytes_per_second = 0;
  double memcpy_gigabytes_per_second = 0;
  double ratio = 0;
};

Row measure(Bench& bench, const Buffers& buffers, const Options& options, Row row) {
  std::vector<double> times;
  std::vector<double> copies;
  std::vector<double> ratios;
  bench.prepare(row.operation);
  for (int i = -1; i < options.repetitions; ++i) {
    const double copy = seconds_of(
        [&] { std::memcpy(buffers.output.data(), buffers.values.data(), options.bytes); });
    const double time = seconds_of([&] { bench.run(row.operation); });
    if (i < 0) continue;  // Warm-up.
    times.push_back(time);
    copies.push_back(copy);
    ratios.push_back(copy / time);
  }
  const double gigabytes = static_cast<double>(options.bytes) * 1e-9;
  row.gigabytes_per_second = gigabytes / median(times);
  row.memcpy_gigabytes_per_second = gigabytes / median(copies);
  row.ratio = median(ratios);
  return row;
}

void print_header() {
  fmt::print("{:<44} {:<9} {:<11} {:<7} {:>8} {:>8} {:>8}\n", "codec", "type", "operation", "isa",
             "GB/s", "memcpy", "x memcpy");
}

void print_row(const Row& row) {
  fmt::print("{:<44} {:<9} {:<11} {:<7} {:>8.2f} {:>8.2f} {:>8.2f}\n", row.codec, row.dtype,
             row.operation, row.isa, row.gigabytes_per_second, row.memcpy_gigabytes_per_second,
             row.ratio);
  std::fflush(stdout);
}

void write_json(const Options& options, const std::vector<Row>& rows) {
  nlohmann::json document;
  document["bytes"] = options.bytes;
  document["chunk_elements"] = options.chunk_elements;
  document["world"] = options.world;
  document["repetitions"] = options.repetitions;
  for (const Row& row : rows) {
    document["rows"].push_back({{"requested", row.requested},
                                {"codec", row.codec},
                                {"dtype", row.dtype},
                                {"operation", row.operation},
                                {"isa", row.isa},
                                {"gigabytes_per_second", row.gigabytes_per_second},
                                {"memcpy_gigabytes_per_second", row.memcpy_gigabytes_per_second},
                                {"ratio", row.ratio}});
  }
  std::ofstream file(options.json_file);
  file << document.dump(1) << '\n';
  if (!file) throw std::runtime_error("cannot write " + options.json_file);
}

std::vector<Row> measure_codec(const std::string& specification, const std::string& isa,
                               DType dtype, const Buffers& buffers, const Options& options) {
  if (const Status status = compress_kernels::force_isa(isa); !status.is_ok()) {
    throw std::invalid_argument(status.message());
  }
  auto codec = make_codec(specification, dtype, ReduceOp::kSum);
  if (!codec.is_ok()) throw std::invalid_argument(codec.status().message());
  const Codec& made = *codec.value();
  Bench bench(made, buffers, options);
  std::vector<Row> rows;
  for (const std::string& operation : options.operations) {
    if (operation == "encode_ef" && made.traits().lossless) continue;
    if (operation == "select" && !bench.goes_by_own_summary()) continue;
    if (operation == "agree" && (options.world == 1 || made.agreement() == nullptr)) continue;
    Row row{specification, made.specification(), dtype_name(dtype), operation, isa};
    rows.push_back(measure(bench, buffers, options, row));
    print_row(rows.back());
  }
  return rows;
}

void run(const Options& options) {
  const Buffers buffers(options.bytes);
  std::vector<Row> rows;
  print_header();
  for (const std::string& dtype_text : options.dtypes) {
    const DType dtype = parse_dtype(dtype_text);
    fill_values(dtype, options.bytes / dtype_size(dtype), buffers.values.data());
    for (const std::string& isa : options.isas) {
      for (const std::string& codec : options.codecs) {
        const auto more = measure_codec(codec, isa, dtype, buffers, options);
        rows.insert(rows.end(), more.begin(), more.end());
      }
    }
  }
  if (!options.json_file.empty()) write_json(options, rows);
}

int parse_and_run(int argc, char** argv) {
  Options options;
  CLI::App app{"Speed of each codec, type, operation and instruction set, beside memcpy"};
  app.add_option("--bytes", options.bytes, "uncompressed bytes, e.g. 256M")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::size_t{4096}, std::size_t{1} << 36));
  app.add_option("--chunk", options.chunk_elements, "elements per call; 0: one call");
  app.add_option("--world", options.world, "ranks that agree and add; 1: forms that stand alone")
      ->check(CLI::Range(1, 1024));
  app.add_option("--codec", options.codecs, "specifications; default: every codec")->delimiter(';');
  app.add_option("--dtype", options.dtypes, "element types")->delimiter(',');
  app.add_option("--isa", options.isas, "instruction sets; default: the widest")->delimiter(',');
  app.add_option("--op", options.operations, "operations; default: all")
      ->delimiter(',')
      ->check(CLI::IsMember(kOperations));
  app.add_option("--reps", options.repetitions, "repetitions")->check(CLI::Range(1, 10000));
  app.add_option("--json", options.json_file, "also write the rows to this file");
  CLI11_PARSE(app, argc, argv);
  if (options.codecs.empty()) {
    for (const auto name : compress_kernels::codec_names()) options.codecs.emplace_back(name);
  }
  if (options.isas.empty()) options.isas = {compress_kernels::available_isas().back()};
  if (options.operations.empty()) options.operations = kOperations;
  run(options);
  return 0;
}

}  // namespace
}  // namespace ringpress::perf

int main(int argc, char** argv) {
  return ringpress::terminal::run_to_end(
      "codec_perf", [&] { return ringpress::perf::parse_and_run(argc, argv); });
}
