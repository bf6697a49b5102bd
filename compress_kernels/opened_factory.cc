// factory.h for a program that has no codecs of its own: those of libringpress.so, which lies in
// the same tree. It is opened when the first function is called, by its path, so that no other
// library of that name is taken.
#include <dlfcn.h>

#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "compress_kernels/factory_table.h"

namespace ringpress::compress_kernels {
namespace {

namespace fs = std::filesystem;

/// Where it is installed, and in a build tree.
constexpr const char* kFolders[] = {RINGPRESS_LIBRARY_FOLDER, "../lib"};

[[noreturn]] void fail(const std::string& text) {
  throw std::runtime_error(text + "; install the programs and libraries of one build together");
}

/// The folder of this program.
fs::path own_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) fail("/proc/self/exe cannot be read (" + error.message() + ")");
  return program.parent_path();
}

fs::path find_library() {
  const fs::path folder = own_folder();
  for (const char* const place : kFolders) {
    fs::path path = (folder / place / RINGPRESS_LIBRARY_FILE).lexically_normal();
    std::error_code error;
    if (fs::exists(path, error)) return path;
  }
  fail("the codecs are in " RINGPRESS_LIBRARY_FILE ", which is not in " +
       (folder / kFolders[0]).lexically_normal().string());
}

/// The library stays open until the program ends.
const FactoryTable& open_table() {
  const std::string path = find_library().string();
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const message = dlerror();
    fail(message == nullptr ? path + " cannot be opened" : message);
  }
  const auto entry = reinterpret_cast<FactoryEntry>(dlsym(library, kFactoryEntry));
  const FactoryTable* const table =
      entry == nullptr ? nullptr : entry(RINGPRESS_VERSION, kFactoryLayout);
  if (table == nullptr) fail(path + " is of another build than this program");
  return *table;
}

const FactoryTable& table() {
  static const FactoryTable& opened = open_table();
  return opened;
}

}  // namespace

Result<std::unique_ptr<Codec>> make_codec(const std::string& specification, DType dtype,
                                          ReduceOp op) {
  return table().make_codec(specification, dtype, op);
}

Result<std::size_t> block_of_scales(const std::string& specification) {
  return table().block_of_scales(specification);
}

Result<std::unique_ptr<Codec>> make_scaled_codec(const std::string& specification, DType dtype,
                                                 ReduceOp op) {
  return table().make_scaled_codec(specification, dtype, op);
}

void learn_scales(const void* result, std::size_t count, DType dtype, float weight,
                  float* squares) {
  return table().learn_scales(result, count, dtype, weight, squares);
}

void find_scales(const float* squares, std::size_t count, std::size_t block, std::uint8_t* codes) {
  return table().find_scales(squares, count, block, codes);
}

ScaleErrors measure_scales(const void* values, std::size_t count, DType dtype,
                           const std::uint8_t* codes, std::size_t block) {
  return table().measure_scales(values, count, dtype, codes, block);
}

bool do_scales_help(const ScaleErrors& errors) {
  return table().do_scales_help(errors);
}

std::unique_ptr<DeviceScales> make_host_scales() {
  return table().make_host_scales();
}

Result<std::unique_ptr<DeviceCodec>> make_scaled_device_codec(Device& device,
                                                              const std::string& specification,
                                                              DType dtype, ReduceOp op) {
  return table().make_scaled_device_codec(device, specification, dtype, op);
}

bool projects(const std::string& specification) {
  return table().projects(specification);
}

Result<std::unique_ptr<DeviceProjection>> make_host_projection(const std::string& specification,
                                                               DType dtype, ReduceOp op) {
  return table().make_host_projection(specification, dtype, op);
}

std::unique_ptr<DeviceAgreement> make_host_agreement(const Agreement& agreement) {
  return table().make_host_agreement(agreement);
}

Result<std::string> normalize_specification(const std::string& specification) {
  return table().normalize_specification(specification);
}

Result<std::string> unbiased_specification(const std::string& specification) {
  return table().unbiased_specification(specification);
}

std::string stream_specification(const std::string& specification) {
  return table().stream_specification(specification);
}

Result<bool> takes_error_feedback(const std::string& specification) {
  return table().takes_error_feedback(specification);
}

Result<FeedbackNeed> feedback_need(const std::string& specification) {
  return table().feedback_need(specification);
}

std::string kernel_library_problem(void* library) {
  return table().kernel_library_problem(library);
}

std::vector<std::string_view> codec_names() {
  return table().codec_names();
}

std::vector<std::string> available_isas() {
  return table().available_isas();
}

Status force_isa(const std::string& name) {
  return table().force_isa(name);
}

Result<std::vector<double>> measure_bit_errors(const MeasuredTensor& tensor, std::size_t block,
                                               std::span<const int> bits) {
  return table().measure_bit_errors(tensor, block, bits);
}

Result<std::vector<double>> measure_density_errors(const MeasuredTensor& tensor,
                                                   std::span<const double> densities) {
  return table().measure_density_errors(tensor, densities);
}

double measure_norm(const MeasuredTensor& tensor) {
  return table().measure_norm(tensor);
}

bool are_finite(const void* values, std::size_t count, DType dtype, std::size_t step) {
  return table().are_finite(values, count, dtype, step);
}

LengthPart measure_lengths(const void* values, const float* sum, std::size_t count, DType dtype) {
  return table().measure_lengths(values, sum, count, dtype);
}

Change measure_change(const void* values, const void* reference, std::size_t count, DType dtype) {
  return table().measure_change(values, reference, count, dtype);
}

void average_models(void* values, const void* theirs, std::size_t count, DType dtype) {
  return table().average_models(values, theirs, count, dtype);
}

void add_values(const void* values, std::size_t count, DType dtype, float* sum) {
  return table().add_values(values, count, dtype, sum);
}

void write_total(const void* values, const float* sum, std::size_t count, DType dtype, void* to) {
  return table().write_total(values, sum, count, dtype, to);
}

void take_difference(const void* values, const float* base, std::size_t count, DType dtype,
                     float* difference) {
  return table().take_difference(values, base, count, dtype, difference);
}

bool add_half_difference(void* values, const float* own, const float* theirs, std::size_t count,
                         DType dtype) {
  return table().add_half_difference(values, own, theirs, count, dtype);
}

void widen_values(const void* values, std::size_t count, DType dtype, double* wide) {
  return table().widen_values(values, count, dtype, wide);
}

void take_mean(const double* sums, double divisor, std::size_t count, DType dtype, void* values) {
  return table().take_mean(sums, divisor, count, dtype, values);
}

Result<std::vector<double>> measure_rank_errors(const MeasuredTensor& tensor,
                                                const MeasuredMatrix& shape,
                                                std::span<const std::size_t> ranks) {
  return table().measure_rank_errors(tensor, shape, ranks);
}

Result<CodecSpeed> measure_codec(const std::string& specification, DType dtype,
                                 const MeasuredFor& use) {
  return table().measure_codec(specification, dtype, use);
}

Result<double> measure_codec_error(const std::string& specification, DType dtype, ErrorOf values) {
  return table().measure_codec_error(specification, dtype, values);
}

Result<std::unique_ptr<Device>> make_cuda_device(int ordinal) {
  return table().make_cuda_device(ordinal);
}

}  // namespace ringpress::compress_kernels
