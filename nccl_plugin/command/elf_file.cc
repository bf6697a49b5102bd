#include "nccl_plugin/command/elf_file.h"

#include <elf.h>
#include <link.h>

#include <bit>
#include <cstring>
#include <optional>

namespace ringpress::nccl_plugin::command {
namespace {

using Header = ElfW(Ehdr);
using Segment = ElfW(Phdr);
using Section = ElfW(Shdr);

constexpr unsigned char kOwnClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
constexpr unsigned char kOwnOrder =
    std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
#if defined(__x86_64__)
constexpr unsigned kOwnMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr unsigned kOwnMachine = EM_AARCH64;
#else
constexpr unsigned kOwnMachine = EM_NONE;  // Unknown: the dynamic linker says what it cannot load.
#endif

/// The end of a part of a file; nothing if no number holds it.
std::optional<std::uint64_t> end_of(std::uint64_t offset, std::uint64_t bytes) {
  std::uint64_t end = 0;
  if (__builtin_add_overflow(offset, bytes, &end)) return std::nullopt;
  return end;
}

std::optional<std::uint64_t> end_of_table(std::uint64_t offset, std::uint64_t rows,
                                          std::uint64_t row_bytes) {
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(rows, row_bytes, &bytes)) return std::nullopt;
  return end_of(offset, bytes);
}

class ElfReader {
 public:
  explicit ElfReader(std::string_view file) : file_(file) { verdict_.bytes = file.size(); }

  ElfVerdict verdict() {
    if (read_header() && check_segments()) check_sections();
    return verdict_;
  }

 private:
  bool fail(ElfFault fault) {
    verdict_.fault = fault;
    return false;
  }

  /// False, with the verdict, if the file does not reach to there.
  bool holds(std::optional<std::uint64_t> end) {
    if (!end) return fail(ElfFault::kDamaged);
    if (*end <= file_.size()) return true;
    verdict_.wanted_bytes = *end;
    return fail(ElfFault::kCutShort);
  }

  /// Of a place that holds() has been asked about.
  template <typename Row>
  Row row(std::uint64_t offset) const {
    Row copy;
    std::memcpy(&copy, file_.data() + offset, sizeof copy);
    return copy;
  }

  bool read_header() {
    if (file_.empty()) return fail(ElfFault::kEmpty);
    const std::string_view magic(ELFMAG, SELFMAG);
    if (file_.substr(0, SELFMAG) != magic.substr(0, file_.size())) return fail(ElfFault::kNotElf);
    if (!holds(EI_NIDENT)) return false;
    if (static_cast<unsigned char>(file_[EI_CLASS]) != kOwnClass) {
      return fail(ElfFault::kOtherClass);
    }
    if (!holds(sizeof header_)) return false;
    header_ = row<Header>(0);
    const bool is_own_order = header_.e_ident[EI_DATA] == kOwnOrder;
    if (!is_own_order || (kOwnMachine != EM_NONE && header_.e_machine != kOwnMachine)) {
      verdict_.machine = is_own_order ? header_.e_machine : __builtin_bswap16(header_.e_machine);
      return fail(ElfFault::kOtherMachine);
    }
    return header_.e_type == ET_DYN || fail(ElfFault::kNotShared);
  }

  bool check_segments() {
    if (header_.e_phnum == 0 || header_.e_phentsize != sizeof(Segment)) {
      return fail(ElfFault::kDamaged);
    }
    if (!holds(end_of_table(header_.e_phoff, header_.e_phnum, sizeof(Segment)))) return false;
    bool is_loadable = false;
    for (std::uint64_t i = 0; i < header_.e_phnum; ++i) {
      const Segment segment = row<Segment>(header_.e_phoff + i * sizeof(Segment));
      if (segment.p_type != PT_LOAD) continue;
      is_loadable = true;
      if (!holds(end_of(segment.p_offset, segment.p_filesz))) return false;
    }
    return is_loadable || fail(ElfFault::kDamaged);
  }

  /// Most linkers write this table last: of a file that was cut it is gone.
  bool check_sections() {
    if (header_.e_shoff == 0) return true;
    if (header_.e_shentsize != sizeof(Section)) return fail(ElfFault::kDamaged);
    if (!holds(end_of(header_.e_shoff, sizeof(Section)))) return false;
    const Section first = row<Section>(header_.e_shoff);  // Holds numbers too large for the header.
    const std::uint64_t count = header_.e_shnum != 0 ? header_.e_shnum : first.sh_size;
    if (!holds(end_of_table(header_.e_shoff, count, sizeof(Section)))) return false;
    for (std::uint64_t i = 0; i < count; ++i) {
      const Section section = row<Section>(header_.e_shoff + i * sizeof(Section));
      if (section.sh_type == SHT_NULL || section.sh_type == SHT_NOBITS) continue;
      if (!holds(end_of(section.sh_offset, section.sh_size))) return false;
    }
    const std::uint64_t names =
        header_.e_shstrndx == SHN_XINDEX ? first.sh_link : header_.e_shstrndx;
    if (names == SHN_UNDEF) return true;
    // Of a copy that was given its full size at once and then broken off, the rest is zeros.
    const bool has_names =
        names < count &&
        row<Section>(header_.e_shoff + names * sizeof(Section)).sh_type == SHT_STRTAB;
    return has_names || fail(ElfFault::kDamaged);
  }

  std::string_view file_;
  Header header_ = {};
  ElfVerdict verdict_;
};

}  // namespace

ElfVerdict check_elf(std::string_view file) {
  return ElfReader(file).verdict();
}

std::string fault_text(const ElfVerdict& verdict) {
  switch (verdict.fault) {
    case ElfFault::kNone:
      return "";
    case ElfFault::kEmpty:
      return "is empty";
    case ElfFault::kNotElf:
      return "is no library: it does not begin with an ELF header";
    case ElfFault::kOtherClass:
      return kOwnClass == ELFCLASS64 ? "is a library of 32 bits, and programs here have 64"
                                     : "is a library of 64 bits, and programs here have 32";
    case ElfFault::kOtherMachine:
      return "is for another processor (ELF machine " + std::to_string(verdict.machine) +
             ", and this is " + std::to_string(kOwnMachine) + ")";
    case ElfFault::kNotShared:
      return "is no shared library, but another kind of ELF file";
    case ElfFault::kCutShort:
      return "is cut short: it has " + std::to_string(verdict.bytes) +
             " bytes, and its headers speak of " + std::to_string(verdict.wanted_bytes) +
             " at least";
    case ElfFault::kDamaged:
      return "is damaged: its ELF headers contradict each other";
  }
  return "";
}

}  // namespace ringpress::nccl_plugin::command
