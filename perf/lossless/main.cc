// lossless_perf: the codec lossless beside zstd -1 and memcpy, on one core and in one run.
//
// For each type and input: what the exponents' entropy allows, the ratios reached, and the speeds
// of compressing and decompressing in GB/s of elements. Each repetition runs all five in turn;
// speeds are medians, of processor time. Each work is done over and over on 8 MB at least, so that
// none is timed while caches, wide vectors and the clock still adapt to it. lossless gets chunks of
// 64 Ki elements, as a collective would hand them over (the entropy is taken over the same chunks);
// zstd gets the whole input at once.
#include <fmt/core.h>
#include <zstd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "compress_kernels/core/element.h"
#include "compress_kernels/factory.h"
#include "nccl_plugin/command/terminal/standard_output.h"
#include "perf/all_reduce/npy.h"

namespace ringpress::perf {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 16;

struct Options {
  std::vector<std::string> inputs;
  std::vector<std::string> dtypes = {"bfloat16", "float16", "float32"};
  std::size_t elements = std::size_t{1} << 20;
  int repetitions = 11;
  double scale = 1;
};

using Bytes = std::vector<std::byte>;

DType parse_dtype(const std::string& name) {
  for (const DType dtype : {DType::kBfloat16, DType::kFloat16, DType::kFloat32}) {
    if (name == dtype_name(dtype)) return dtype;
  }
  throw std::invalid_argument("--dtype " + name + ": must be bfloat16, float16 or float32");
}

Bytes to_elements(const std::vector<float>& floats, DType dtype, double scale) {
  Bytes bytes(floats.size() * dtype_size(dtype));
  compress_kernels::core::visit_compressible(dtype, [&](auto tag) {
    for (std::size_t i = 0; i < floats.size(); ++i) {
      compress_kernels::core::store_wide<typename decltype(tag)::type>(
          bytes.data(), i, floats[i] * static_cast<float>(scale));
    }
  });
  return bytes;
}

/// The `count` elements of an input, repeated if it has fewer.
std::vector<float> read_input(const std::string& name, std::size_t count) {
  std::vector<float> values;
  if (name == "gaussian") {
    std::mt19937 engine(1);
    std::normal_distribution<float> normal(0, 1e-3f);
    values.resize(count);
    for (float& value : values) value = normal(engine);
    return values;
  }
  values = read_npy(name);
  if (values.empty()) throw std::invalid_argument(name + " is empty");
  return values;
}

std::size_t exponent_of(const Bytes& elements, DType dtype, std::size_t index) {
  if (dtype == DType::kFloat32) {
    return compress_kernels::core::load_element<std::uint32_t>(elements.data(), index) >> 23 & 255;
  }
  const auto bits = compress_kernels::core::load_element<std::uint16_t>(elements.data(), index);
  return dtype == DType::kFloat16 ? bits >> 10 & 31 : bits >> 7 & 255;
}

/// Bits per exponent that no code of single exponents goes below, chunk by chunk.
double exponent_entropy(const Bytes& elements, DType dtype) {
  const std::size_t count = elements.size() / dtype_size(dtype);
  double bits = 0;
  for (std::size_t first = 0; first < count; first += kChunk) {
    const std::size_t length = std::min(kChunk, count - first);
    std::vector<double> seen(256);
    for (std::size_t i = 0; i < length; ++i) ++seen[exponent_of(elements, dtype, first + i)];
    for (const double n : seen) {
      if (n > 0) bits -= n * std::log2(n / static_cast<double>(length));
    }
  }
  return bits / static_cast<double>(count);
}

double floor_ratio(const Bytes& elements, DType dtype) {
  const int exponent_bits = dtype == DType::kFloat16 ? 5 : 8;
  const double bits = 8.0 * static_cast<double>(dtype_size(dtype));
  return bits / (bits - exponent_bits + exponent_entropy(elements, dtype));
}

/// lossless on an array, chunk by chunk.
class Lossless {
 public:
  Lossless(DType dtype, std::size_t count) : count_(count) {
    auto made = compress_kernels::make_codec("lossless", dtype, ReduceOp::kSum);
    if (!made.is_ok()) throw std::runtime_error(made.status().message());
    codec_ = std::move(made).value();
    for (std::size_t first = 0; first < count; first += kChunk) {
      wires_.emplace_back(codec_->wire_bytes(std::min(kChunk, count - first)));
    }
    sizes_.resize(wires_.size());
  }
  /// Returns the bytes of all wires.
  std::size_t compress(const Bytes& elements) {
    std::size_t all = 0;
    for (std::size_t c = 0; c < wires_.size(); ++c) {
      EncodeArgs args;
      args.values = elements.data() + c * kChunk * dtype_size(codec_->dtype());
      args.count = std::min(kChunk, count_ - c * kChunk);
      args.wire = wires_[c].data();
      all += sizes_[c] = codec_->encode(args);
    }
    return all;
  }
  void decompress(Bytes& elements) const {
    for (std::size_t c = 0; c < wires_.size(); ++c) {
      DecodeArgs args;
      args.wire = wires_[c].data();
      args.wire_size = sizes_[c];
      args.count = std::min(kChunk, count_ - c * kChunk);
      args.values = elements.data() + c * kChunk * dtype_size(codec_->dtype());
      codec_->decode(args);
    }
  }

 private:
  std::unique_ptr<Codec> codec_;
  std::size_t count_;
  std::vector<Bytes> wires_;
  std::vector<std::size_t> sizes_;
};

/// zstd at level 1 with contexts that live as long as it does.
class Zstd {
 public:
  explicit Zstd(std::size_t bytes)
      : compressor_(ZSTD_createCCtx()),
        decompressor_(ZSTD_createDCtx()),
        wire_(ZSTD_compressBound(bytes)) {}
  ~Zstd() {
    ZSTD_freeCCtx(compressor_);
    ZSTD_freeDCtx(decompressor_);
  }
  Zstd(const Zstd&) = delete;
  Zstd& operator=(const Zstd&) = delete;

  std::size_t compress(const Bytes& elements) {
    size_ = checked(ZSTD_compressCCtx(compressor_, wire_.data(), wire_.size(), elements.data(),
                                      elements.size(), 1));
    return size_;
  }
  void decompress(Bytes& elements) {
    checked(
        ZSTD_decompressDCtx(decompressor_, elements.data(), elements.size(), wire_.data(), size_));
  }

 private:
  static std::size_t checked(std::size_t result) {
    if (ZSTD_isError(result)) throw std::runtime_error(ZSTD_getErrorName(result));
    return result;
  }

  ZSTD_CCtx* compressor_;
  ZSTD_DCtx* decompressor_;
  Bytes wire_;
  std::size_t size_ = 0;
};

/// What this thread has had of a processor: others may run on the same core meanwhile, and would
/// slow down the slow.
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Per time that the work is done on `bytes` bytes.
template <typename Work>
double seconds_of(std::size_t bytes, Work&& work) {
  constexpr std::size_t kTimedBytes = std::size_t{8} << 20;
  const std::size_t times = std::max<std::size_t>(1, kTimedBytes / bytes);
  const double start = processor_seconds();
  for (std::size_t i = 0; i < times; ++i) work();
  return (processor_seconds() - start) / static_cast<double>(times);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Seconds of all repetitions, by what was done.
using Times = std::map<std::string, std::vector<double>>;

double ratio_of(const Times& times, const std::string& slow, const std::string& fast) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < times.at(slow).size(); ++i) {
    ratios.push_back(times.at(slow)[i] / times.at(fast)[i]);
  }
  return median(ratios);
}

void print_row(const std::string& input, DType dtype, const Bytes& elements, std::size_t bytes,
               std::size_t zstd_bytes, const Times& times) {
  const auto size = static_cast<double>(elements.size());
  const auto speed = [&](const char* what) { return size / median(times.at(what)) / 1e9; };
  const std::string name = input.substr(input.rfind('/') + 1);
  const double reached = size / static_cast<double>(bytes);
  const double floor = floor_ratio(elements, dtype);
  fmt::print(
      "{:<34} {:<9} {:6.3f} {:6.3f} {:+7.1f}% {:6.3f} {:8.2f} {:8.2f} {:8.2f} {:8.2f} "
      "{:8.2f} {:7.1f}x {:7.1f}x\n",
      name, dtype_name(dtype), floor, reached, 100 * (floor / reached - 1),
      size / static_cast<double>(zstd_bytes), speed("memcpy"), speed("encode"), speed("decode"),
      speed("zstd c"), speed("zstd d"), ratio_of(times, "zstd c", "encode"),
      ratio_of(times, "zstd d", "decode"));
}

void measure(const std::string& input, DType dtype, const Options& options) {
  const Bytes elements = to_elements(read_input(input, options.elements), dtype, options.scale);
  Lossless lossless(dtype, elements.size() / dtype_size(dtype));
  Zstd zstd(elements.size());
  Bytes output(elements.size());
  const std::size_t size = elements.size();
  Times times;
  std::size_t bytes = 0;
  std::size_t zstd_bytes = 0;
  for (int i = -1; i < options.repetitions; ++i) {
    Times once;
    once["memcpy"] = {seconds_of(size, [&] { std::memcpy(output.data(), elements.data(), size); })};
    once["encode"] = {seconds_of(size, [&] { bytes = lossless.compress(elements); })};
    std::memset(output.data(), 0, output.size());
    once["decode"] = {seconds_of(size, [&] { lossless.decompress(output); })};
    if (output != elements) throw std::logic_error("lossless lost something");
    once["zstd c"] = {seconds_of(size, [&] { zstd_bytes = zstd.compress(elements); })};
    once["zstd d"] = {seconds_of(size, [&] { zstd.decompress(output); })};
    if (i < 0) continue;  // Warms caches and tables.
    for (const auto& [what, seconds] : once) times[what].push_back(seconds[0]);
  }
  print_row(input, dtype, elements, bytes, zstd_bytes, times);
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("The codec lossless beside zstd -1 and memcpy.");
  app.add_option("--input", options.inputs, "float32 .npy files, or \"gaussian\" (the default)");
  app.add_option("--dtype", options.dtypes, "Types to convert the input to");
  app.add_option("--elements", options.elements, "Of generated input")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--scale", options.scale, "Multiplies the input first, as a loss scale does");
  app.add_option("--reps", options.repetitions, "Repetitions")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  if (options.inputs.empty()) options.inputs = {"gaussian"};
  fmt::print("{:<34} {:<9} {:>6} {:>6} {:>8} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}\n",
             "input", "type", "floor", "ratio", "above", "zstd", "memcpy", "encode", "decode",
             "zstd c", "zstd d", "encode", "decode");
  for (const std::string& dtype : options.dtypes) {
    for (const std::string& input : options.inputs) measure(input, parse_dtype(dtype), options);
  }
  return 0;
}

}  // namespace
}  // namespace ringpress::perf

int main(int argc, char** argv) {
  return ringpress::terminal::run_to_end("lossless_perf",
                                         [&] { return ringpress::perf::run(argc, argv); });
}
