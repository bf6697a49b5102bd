// Feeds arbitrary bytes to the look at the file of a library: as they are, and with so much of a
// header in front of them that the tables behind it are read.
#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include "nccl_plugin/command/elf_file.h"

namespace {

using namespace ringpress::nccl_plugin::command;

void require(bool holds) {
  if (!holds) std::abort();
}

void check(std::string_view file) {
  const ElfVerdict verdict = check_elf(file);
  require(verdict.bytes == file.size());
  require((verdict.fault == ElfFault::kNone) == fault_text(verdict).empty());
  require((verdict.fault == ElfFault::kCutShort) == (verdict.wanted_bytes > file.size()));
  if (verdict.fault != ElfFault::kNone) return;
  // Without its last byte it has lost the end of a table or section, or one that is of none.
  const ElfFault shorter = check_elf(file.substr(0, file.size() - 1)).fault;
  require(shorter == ElfFault::kNone || shorter == ElfFault::kCutShort);
}

/// What this machine's programs begin with.
ElfW(Ehdr) own_header() {
  ElfW(Ehdr) header = {};
  std::ifstream("/proc/self/exe", std::ios::binary)
      .read(reinterpret_cast<char*>(&header), sizeof header);
  return header;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string file(reinterpret_cast<const char*>(data), size);
  check(file);
  static const ElfW(Ehdr) own = own_header();
  ElfW(Ehdr) header = {};
  if (size < sizeof header) return 0;
  std::memcpy(&header, file.data(), sizeof header);
  std::memcpy(header.e_ident, own.e_ident, sizeof own.e_ident);
  header.e_type = ET_DYN;
  header.e_machine = own.e_machine;
  header.e_phentsize = sizeof(ElfW(Phdr));
  header.e_shentsize = sizeof(ElfW(Shdr));
  std::memcpy(file.data(), &header, sizeof header);
  check(file);
  return 0;
}
