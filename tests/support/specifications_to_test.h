// The specifications that tests hold to the contract.
#ifndef TESTS_SUPPORT_SPECIFICATIONS_TO_TEST_H_
#define TESTS_SUPPORT_SPECIFICATIONS_TO_TEST_H_

#include <string>
#include <vector>

#include "compress_kernels/codec_family.h"
#include "compress_kernels/specification.h"

namespace ringpress::compress_kernels {

/// The defaults and the variants of each codec, and what only some of a family have.
inline std::vector<std::string> specifications_to_test() {
  std::vector<std::string> all;
  for (const CodecEntry& entry : codec_list()) {
    const std::string name(entry.name);
    all.push_back(name);
    for (const std::string& variant : entry.family->variants) all.push_back(name + ":" + variant);
  }
  all.insert(all.end(), {"q2:block=32,scale=largest", "q4:scale=largest"});
  return all;
}

}  // namespace ringpress::compress_kernels

#endif  // TESTS_SUPPORT_SPECIFICATIONS_TO_TEST_H_
