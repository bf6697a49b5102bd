// What can be said of a shared library from the bytes of its file, before anything is loaded. The
// dynamic linker looks at what it maps only: a library that has lost its end, where information for
// debuggers lies, loads as if it were whole.
#ifndef NCCL_PLUGIN_COMMAND_ELF_FILE_H_
#define NCCL_PLUGIN_COMMAND_ELF_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace ringpress::nccl_plugin::command {

enum class ElfFault {
  kNone,
  kEmpty,
  kNotElf,
  kOtherClass,    // Of 32 bits where programs have 64, or the other way round.
  kOtherMachine,  // Of another processor, or with its order of bytes.
  kNotShared,     // A program, an object file or a core.
  kCutShort,      // Its tables speak of more bytes than it has.
  kDamaged,       // Its tables contradict each other.
};

struct ElfVerdict {
  ElfFault fault = ElfFault::kNone;
  std::uint64_t bytes = 0;  // That the file has.
  std::uint64_t wanted_bytes =
      0;                 // kCutShort: that it has at least, says the first table that does.
  unsigned machine = 0;  // kOtherMachine: as ELF numbers them.
};

/// Trusts no field: reads within `file` only, in time that grows with the file at most. A library
/// without section headers is a whole one, and so is one whose symbols have been stripped.
ElfVerdict check_elf(std::string_view file);

/// For a person, to follow the file's name: "is cut short: ..."; empty if nothing is wrong.
std::string fault_text(const ElfVerdict& verdict);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_ELF_FILE_H_
