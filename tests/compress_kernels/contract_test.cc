// Holds every codec of codecs.inc, and the variants of the quantising ones, to the contract.
#include "compress_kernels/specification.h"
#include "tests/compress_kernels/typed_cases.h"
#include "tests/contract/codec_contract.h"
#include "tests/support/specifications_to_test.h"

namespace ringpress::compress_kernels::testing::contract_test {
namespace {

std::string case_name(const ::testing::TestParamInfo<CodecContract::ParamType>& info) {
  std::string name = std::get<0>(info.param) + "_" + dtype_name(std::get<1>(info.param));
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Codecs, CodecContract,
                         ::testing::ValuesIn(with_types(specifications_to_test())), case_name);

}  // namespace
}  // namespace ringpress::compress_kernels::testing::contract_test
