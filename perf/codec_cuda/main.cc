// codec_perf_cuda: the speed of each codec's kernels on a GPU, by type and operation, beside a copy
// within its memory in the same run.
//
// Each repetition times the copy, then the operation (A/B/A/B), by CUDA's events. The table has the
// medians, in GB/s of all bytes that are read and written, and the median of the ratios of
// neighbours. An operation takes one tensor in one launch, in the form that stands alone; what
// codecs agree on in a larger world is not a part of it.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "compress_kernels/factory.h"
#include "nccl_plugin/command/terminal/standard_output.h"
#include "perf/codec_cuda/gpu_timer.h"
#include "perf/codec_values.h"
#include "ringpress/internal/device.h"

namespace ringpress::perf {
namespace {

struct Options {
  std::size_t bytes = std::size_t{1} << 30;  // Of uncompressed values.
  std::vector<std::string> codecs;
  std::vector<std::string> dtypes = {"float32", "bfloat16"};
  std::vector<std::string> operations;
  int repetitions = 10;
  int device = 0;
  std::string json_file;
};

const std::vector<std::string> kOperations = {"encode", "encode_ef", "decode", "hop"};

void require(const Status& status) {
  if (!status.is_ok()) throw std::runtime_error(status.message());
}
template <typename T>
T require(Result<T> result) {
  require(result.status());
  return std::move(result).value();
}

/// Memory of a device, for as long as this lives.
class Memory {
 public:
  Memory(Device& device, std::size_t bytes)
      : device_(device),
        data_(static_cast<std::byte*>(require(device.allocate(std::max<std::size_t>(bytes, 1))))) {}
  ~Memory() { device_.free(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* data() const { return data_; }
  float* floats() const { return reinterpret_cast<float*>(data_); }

 private:
  Device& device_;
  std::byte* const data_;
};

struct Row {
  std::string codec;
  std::string dtype;
  std::string operation;
  double gigabytes_per_second = 0;
  double copy_gigabytes_per_second = 0;
  double ratio = 0;
};

/// Everything on the device that does not depend on the codec.
struct Arrays {
  Arrays(Device& device, std::size_t bytes)
      : values(device, bytes), output(device, bytes), residual(device, 2 * bytes) {}
  Memory values;
  Memory output;
  Memory residual;  // float32 for each element, which has two bytes at least.
};

/// One codec at work on a tensor.
class Bench {
 public:
  Bench(Device& device, DeviceCodec& codec, const Arrays& arrays, std::size_t count)
      : codec_(codec),
        arrays_(arrays),
        count_(count),
        wire_(device, wire_bytes()),
        part_(device, wire_bytes()),
        scratch_(device, codec.scratch_bytes(1, count)) {}

  Status run(Stream stream, const std::string& operation) {
    if (operation == "decode") return decode(stream);
    if (operation == "hop") return hop(stream);
    return encode(stream, operation == "encode_ef" ? arrays_.residual.floats() : nullptr, wire_);
  }
  /// Makes what the operations read.
  Status prepare(Stream stream) { return encode(stream, nullptr, part_); }
  /// Bytes that an operation reads and writes.
  double bytes_of(const std::string& operation) const {
    const auto raw = static_cast<double>(count_ * dtype_size(codec_.codec().dtype()));
    const auto wire = static_cast<double>(wire_bytes());
    if (operation == "hop") return raw + 2 * wire;
    const double residual = 2.0 * sizeof(float) * static_cast<double>(count_);
    return raw + wire + (operation == "encode_ef" ? residual : 0);
  }

 private:
  std::size_t wire_bytes() const { return codec_.codec().wire_bytes(count_); }

  Status encode(Stream stream, float* residual, const Memory& into) {
    EncodeArgs args;
    args.values = arrays_.values.data();
    args.count = count_;
    args.residual = residual;
    args.wire = into.data();
    return codec_.encode(stream, {&args, 1}, scratch_.data());
  }
  Status decode(Stream stream) {
    DecodeArgs args;
    args.wire = part_.data();
    args.wire_size = wire_bytes();
    args.count = count_;
    args.values = arrays_.output.data();
    return codec_.decode(stream, {&args, 1}, nullptr);
  }
  Status hop(Stream stream) {
    const std::byte* const part = part_.data();
    const std::size_t size = wire_bytes();
    DecodeAddEncodeArgs args;
    args.wires = {&part, 1};
    args.wire_sizes = {&size, 1};
    args.values = arrays_.values.data();
    args.count = count_;
    args.wire = wire_.data();
    return codec_.decode_add_encode(stream, args, scratch_.data());
  }

  DeviceCodec& codec_;
  const Arrays& arrays_;
  const std::size_t count_;
  const Memory wire_;
  const Memory part_;  // What another rank would have sent.
  const Memory scratch_;
};

class Program {
 public:
  explicit Program(const Options& options)
      : options_(options),
        timer_(options.device),
        device_(require(compress_kernels::make_cuda_device(options.device))),
        stream_(require(device_->create_stream())),
        arrays_(*device_, options.bytes) {}
  ~Program() { device_->destroy_stream(stream_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  std::vector<Row> run() {
    std::vector<Row> rows;
    fmt::print("# GB/s of bytes read and written on the GPU; copy: within its memory\n");
    fmt::print("{:<44} {:<9} {:<11} {:>8} {:>8} {:>8}\n", "codec", "type", "operation", "GB/s",
               "copy", "x copy");
    for (const std::string& name : options_.dtypes) {
      const DType dtype = parse_dtype(name);
      fill(dtype);
      for (const std::string& codec : options_.codecs) measure_codec(codec, dtype, &rows);
    }
    return rows;
  }

 private:
  void fill(DType dtype) {
    std::vector<std::byte> values(options_.bytes);
    fill_values(dtype, options_.bytes / dtype_size(dtype), values.data());
    require(device_->copy(stream_, arrays_.values.data(), values.data(), values.size()));
    require(device_->zero(stream_, arrays_.residual.data(), 2 * options_.bytes));
    require(device_->synchronize(stream_));
  }

  void measure_codec(const std::string& specification, DType dtype, std::vector<Row>* rows) {
    auto codec = device_->make_codec(specification, dtype, ReduceOp::kSum);
    if (!codec.is_ok()) {
      fmt::print("# {}\n", codec.status().message());
      return;
    }
    DeviceCodec& made = *codec.value();
    Bench bench(*device_, made, arrays_, options_.bytes / dtype_size(dtype));
    require(bench.prepare(stream_));
    for (const std::string& operation : options_.operations) {
      if (operation == "encode_ef" && made.codec().traits().lossless) continue;
      rows->push_back(measure(bench, {made.codec().specification(), dtype_name(dtype), operation}));
      const Row& row = rows->back();
      fmt::print("{:<44} {:<9} {:<11} {:>8.1f} {:>8.1f} {:>8.2f}\n", row.codec, row.dtype,
                 row.operation, row.gigabytes_per_second, row.copy_gigabytes_per_second, row.ratio);
      std::fflush(stdout);
    }
  }

  Row measure(Bench& bench, Row row) {
    const double copied = 2.0 * static_cast<double>(options_.bytes) * 1e-9;
    const double moved = bench.bytes_of(row.operation) * 1e-9;
    std::vector<double> rates, copies, ratios;
    for (int i = -1; i < options_.repetitions; ++i) {
      const double copy = timer_.seconds(stream_, [&] {
        return device_->copy(stream_, arrays_.output.data(), arrays_.values.data(), options_.bytes);
      });
      const double time =
          timer_.seconds(stream_, [&] { return bench.run(stream_, row.operation); });
      if (i < 0) continue;  // Warm-up.
      rates.push_back(moved / time);
      copies.push_back(copied / copy);
      ratios.push_back(rates.back() / copies.back());
    }
    row.gigabytes_per_second = median(rates);
    row.copy_gigabytes_per_second = median(copies);
    row.ratio = median(ratios);
    return row;
  }

  const Options& options_;
  GpuTimer timer_;
  const std::unique_ptr<Device> device_;
  const Stream stream_;
  const Arrays arrays_;
};

void write_json(const Options& options, const std::vector<Row>& rows) {
  nlohmann::json document;
  document["bytes"] = options.bytes;
  document["repetitions"] = options.repetitions;
  document["rows"] = nlohmann::json::array();
  for (const Row& row : rows) {
    document["rows"].push_back({{"codec", row.codec},
                                {"dtype", row.dtype},
                                {"operation", row.operation},
                                {"gigabytes_per_second", row.gigabytes_per_second},
                                {"copy_gigabytes_per_second", row.copy_gigabytes_per_second},
                                {"ratio", row.ratio}});
  }
  std::ofstream file(options.json_file);
  file << document.dump(1) << '\n';
  if (!file) throw std::runtime_error("cannot write " + options.json_file);
}

int parse_and_run(int argc, char** argv) {
  Options options;
  CLI::App app{"Speed of each codec's kernels on a GPU, beside a copy within its memory"};
  app.add_option("--bytes", options.bytes, "uncompressed bytes, e.g. 256M")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::size_t{4096}, std::size_t{1} << 36));
  app.add_option("--codec", options.codecs, "specifications; default: every codec")->delimiter(';');
  app.add_option("--dtype", options.dtypes, "element types")
      ->delimiter(',')
      ->check(CLI::IsMember({"float32", "float16", "bfloat16"}));
  app.add_option("--op", options.operations, "operations; default: all")
      ->delimiter(',')
      ->check(CLI::IsMember(kOperations));
  app.add_option("--reps", options.repetitions, "repetitions")->check(CLI::Range(1, 10000));
  app.add_option("--device", options.device, "number of the GPU")->check(CLI::Range(0, 1023));
  app.add_option("--json", options.json_file, "also write the rows to this file");
  CLI11_PARSE(app, argc, argv);
  if (options.codecs.empty()) {
    for (const auto name : compress_kernels::codec_names()) options.codecs.emplace_back(name);
  }
  if (options.operations.empty()) options.operations = kOperations;
  const std::vector<Row> rows = Program(options).run();
  if (!options.json_file.empty()) write_json(options, rows);
  return 0;
}

}  // namespace
}  // namespace ringpress::perf

int main(int argc, char** argv) {
  return ringpress::terminal::run_to_end(
      "codec_perf_cuda", [&] { return ringpress::perf::parse_and_run(argc, argv); });
}
