// From a specification string to a codec object.
#include <memory>
#include <utility>

#include "compress_kernels/factory.h"
#include "compress_kernels/isa.h"
#include "compress_kernels/specification.h"

namespace ringpress::compress_kernels {
namespace {

Status check_supported(const CodecEntry& codec, DType dtype, ReduceOp op) {
  if (codec.family->takes_everything) return Status::ok();
  const std::string name(codec.name);
  if (!is_compressible(dtype)) {
    return Status(
        Code::kUnsupported,
        "codec " + name + " takes float32, float16 and bfloat16, not " + dtype_name(dtype));
  }
  if (op != ReduceOp::kSum && op != ReduceOp::kAvg) {
    return Status(Code::kUnsupported,
                  "codec " + name + " takes sum and avg, not " + reduce_op_name(op));
  }
  return Status::ok();
}

}  // namespace

Result<std::unique_ptr<Codec>> make_codec(const std::string& specification, DType dtype,
                                          ReduceOp op) {
  RINGPRESS_ASSIGN_OR_RETURN(const Specification parsed, parse_specification(specification));
  RINGPRESS_RETURN_IF_ERROR(check_supported(parsed.codec, dtype, op));
  CodecIdentity identity;
  identity.specification = to_string(parsed);
  identity.dtype = dtype;
  identity.op = op;
  return parsed.codec.family->make(std::move(identity), parsed.codec, parsed.values);
}

Result<std::string> normalize_specification(const std::string& specification) {
  RINGPRESS_ASSIGN_OR_RETURN(const Specification parsed, parse_specification(specification));
  return to_string(parsed);
}

Result<std::string> unbiased_specification(const std::string& specification) {
  RINGPRESS_ASSIGN_OR_RETURN(Specification parsed, parse_specification(specification));
  const CodecFamily& family = *parsed.codec.family;
  if (family.unbiased == nullptr) return std::string();
  const std::string_view parameter = family.unbiased;
  if (!parameter.empty()) {
    const std::size_t equals = parameter.find('=');
    parsed.values.set(parameter.substr(0, equals), parameter.substr(equals + 1));
  }
  const bool fits = family.settle == nullptr || family.settle(parsed.codec, parsed.values).is_ok();
  return fits ? to_string(parsed) : std::string();
}

std::string stream_specification(const std::string& specification) {
  const Result<Specification> asked = parse_specification(specification);
  if (!asked.is_ok()) return specification;
  const char* const parameter = asked.value().codec.family->in_streams;
  if (parameter == nullptr) return specification;
  const char* const separator = specification.find(':') == std::string::npos ? ":" : ",";
  // Refused where it is given already.
  const Result<Specification> chosen = parse_specification(specification + separator + parameter);
  return chosen.is_ok() ? to_string(chosen.value()) : specification;
}

Result<bool> takes_error_feedback(const std::string& specification) {
  RINGPRESS_ASSIGN_OR_RETURN(const Specification parsed, parse_specification(specification));
  const CodecFamily& family = *parsed.codec.family;
  return family.refuses_feedback == nullptr ||
         !family.refuses_feedback(parsed.codec, parsed.values);
}

Result<FeedbackNeed> feedback_need(const std::string& specification) {
  RINGPRESS_ASSIGN_OR_RETURN(const Specification parsed, parse_specification(specification));
  const CodecFamily& family = *parsed.codec.family;
  return family.feedback_need == nullptr ? FeedbackNeed::kNone
                                         : family.feedback_need(parsed.codec, parsed.values);
}

std::vector<std::string_view> codec_names() {
  std::vector<std::string_view> names;
  for (const CodecEntry& codec : codec_list()) names.push_back(codec.name);
  return names;
}

std::vector<std::string> available_isas() {
  std::vector<std::string> names;
  for (const Isa& isa : isa_list()) names.push_back(isa.name);
  return names;
}

Status force_isa(const std::string& name) {
  return select_isa(name);
}

}  // namespace ringpress::compress_kernels
