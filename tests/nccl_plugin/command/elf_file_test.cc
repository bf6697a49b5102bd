// A look at a library's file, with files that are whole, cut, mutilated or something else.
#include "nccl_plugin/command/elf_file.h"

#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>
#include <link.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace ringpress::nccl_plugin::command {
namespace {

/// A library with one segment, followed by a section of names and the table of sections.
struct TinyLibrary {
  ElfW(Ehdr) header = {};
  ElfW(Phdr) segment = {};
  ElfW(Shdr) sections[3] = {};
  static constexpr std::size_t kNames = sizeof(header) + sizeof(segment);
  static constexpr std::size_t kNameBytes = 16;
  static constexpr std::size_t kTable = kNames + kNameBytes;

  TinyLibrary() {
    std::memcpy(&header, own_header().data(), sizeof header);
    header.e_type = ET_DYN;
    header.e_phoff = sizeof header;
    header.e_phnum = 1;
    header.e_shoff = kTable;
    header.e_shnum = 3;
    header.e_shentsize = sizeof sections[0];
    header.e_shstrndx = 1;
    segment.p_type = PT_LOAD;
    segment.p_filesz = kNames;
    sections[1].sh_type = SHT_STRTAB;
    sections[1].sh_offset = kNames;
    sections[1].sh_size = kNameBytes;
    sections[2].sh_type = SHT_NOBITS;  // As .bss is: not in the file, however large.
    sections[2].sh_size = 1 << 30;
  }

  /// What this machine's programs begin with.
  static std::string own_header() {
    std::ifstream file("/proc/self/exe", std::ios::binary);
    std::string bytes(sizeof(ElfW(Ehdr)), '\0');
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return bytes;
  }

  std::string bytes() const {
    std::string text(reinterpret_cast<const char*>(&header), sizeof header);
    text.append(reinterpret_cast<const char*>(&segment), sizeof segment);
    text.append(kNameBytes, 'n');
    text.append(reinterpret_cast<const char*>(sections), sizeof sections);
    return text;
  }
};

ElfFault fault_of(const TinyLibrary& library) {
  return check_elf(library.bytes()).fault;
}

/// The C library's file.
std::string real_library() {
  Dl_info info = {};
  EXPECT_NE(dladdr(reinterpret_cast<void*>(&std::puts), &info), 0);
  std::ifstream file(info.dli_fname, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

TEST(ElfFile, AWholeLibraryHasNoFault) {
  EXPECT_EQ(fault_of(TinyLibrary()), ElfFault::kNone);
  const std::string real = real_library();
  ASSERT_GT(real.size(), 100000U);
  EXPECT_EQ(check_elf(real).fault, ElfFault::kNone);
  EXPECT_EQ(fault_text(check_elf(real)), "");
}

TEST(ElfFile, ACutOneIsCutShortWhereverItEnds) {
  const std::string tiny = TinyLibrary().bytes();
  EXPECT_EQ(check_elf("").fault, ElfFault::kEmpty);
  for (std::size_t bytes = 1; bytes < tiny.size(); ++bytes) {
    const ElfVerdict verdict = check_elf(std::string_view(tiny).substr(0, bytes));
    EXPECT_EQ(verdict.fault, ElfFault::kCutShort) << bytes;
    EXPECT_EQ(verdict.bytes, bytes);
    EXPECT_GT(verdict.wanted_bytes, bytes);
    EXPECT_LE(verdict.wanted_bytes, tiny.size());
  }
  const std::string real = real_library();
  for (const std::size_t percent : {25, 50, 90}) {
    const auto part = std::string_view(real).substr(0, real.size() * percent / 100);
    EXPECT_EQ(check_elf(part).fault, ElfFault::kCutShort) << percent;
  }
}

TEST(ElfFile, OneWithoutSectionsIsWhole) {
  TinyLibrary library;
  library.header.e_shoff = library.header.e_shnum = library.header.e_shstrndx = 0;
  EXPECT_EQ(fault_of(library), ElfFault::kNone);
  library.segment.p_filesz = 100000;
  EXPECT_EQ(fault_of(library), ElfFault::kCutShort);
}

TEST(ElfFile, ACopyThatWasGivenItsSizeAndBrokenOffIsDamaged) {
  std::string bytes = TinyLibrary().bytes();
  std::fill(bytes.begin() + TinyLibrary::kTable, bytes.end(), '\0');
  EXPECT_EQ(check_elf(bytes).fault, ElfFault::kDamaged);
}

TEST(ElfFile, SomethingElseIsNamed) {
  EXPECT_EQ(check_elf("not a library\n").fault, ElfFault::kNotElf);
  EXPECT_EQ(check_elf("#!").fault, ElfFault::kNotElf);
  TinyLibrary library;
  library.header.e_ident[EI_CLASS] ^= ELFCLASS32 ^ ELFCLASS64;
  EXPECT_EQ(fault_of(library), ElfFault::kOtherClass);
  EXPECT_EQ(check_elf(library.bytes().substr(0, 52)).fault, ElfFault::kOtherClass);
  library = TinyLibrary();
  library.header.e_machine = EM_S390;
  EXPECT_EQ(fault_of(library), ElfFault::kOtherMachine);
  EXPECT_NE(fault_text(check_elf(library.bytes())).find("ELF machine 22,"), std::string::npos);
  library.header.e_ident[EI_DATA] ^= ELFDATA2LSB ^ ELFDATA2MSB;
  library.header.e_machine = __builtin_bswap16(EM_S390);
  EXPECT_NE(fault_text(check_elf(library.bytes())).find("ELF machine 22,"), std::string::npos);
  for (const int type : {ET_REL, ET_EXEC, ET_CORE}) {
    library = TinyLibrary();
    library.header.e_type = static_cast<ElfW(Half)>(type);
    EXPECT_EQ(fault_of(library), ElfFault::kNotShared) << type;
  }
}

TEST(ElfFile, NoFieldIsTrusted) {
  constexpr auto kHuge = std::numeric_limits<ElfW(Off)>::max();
  for (const ElfW(Off) offset : {kHuge, kHuge - 1, kHuge / 2, kHuge - sizeof(ElfW(Phdr))}) {
    TinyLibrary library;
    library.header.e_phoff = offset;
    EXPECT_NE(fault_of(library), ElfFault::kNone);
    library = TinyLibrary();
    library.header.e_shoff = offset;
    EXPECT_NE(fault_of(library), ElfFault::kNone);
    library = TinyLibrary();
    library.segment.p_offset = offset;
    EXPECT_NE(fault_of(library), ElfFault::kNone);
    library = TinyLibrary();
    library.sections[1].sh_size = offset;
    EXPECT_NE(fault_of(library), ElfFault::kNone);
  }
  TinyLibrary library;
  library.header.e_shnum = 0;  // Then the first section holds the number.
  library.sections[0].sh_size = 3;
  EXPECT_EQ(fault_of(library), ElfFault::kNone);
  library.sections[0].sh_size = kHuge;
  EXPECT_NE(fault_of(library), ElfFault::kNone);
  library = TinyLibrary();
  library.header.e_shstrndx = SHN_XINDEX;
  library.sections[0].sh_link = 1;
  EXPECT_EQ(fault_of(library), ElfFault::kNone);
  library.sections[0].sh_link = 3;
  EXPECT_EQ(fault_of(library), ElfFault::kDamaged);
  library = TinyLibrary();
  library.header.e_phnum = 0;
  EXPECT_EQ(fault_of(library), ElfFault::kDamaged);
}

// tests/fuzz/elf_fuzz.cc does so with sanitizers, which see every byte that is read outside.
TEST(ElfFile, RandomChangesAreJudgedWithinTheFile) {
  std::mt19937 random(7);
  const std::string whole = TinyLibrary().bytes();
  for (int round = 0; round < 20000; ++round) {
    std::string changed = whole.substr(0, random() % (whole.size() + 1));
    for (unsigned changes = random() % 8; changes > 0 && !changed.empty(); --changes) {
      changed[random() % changed.size()] = static_cast<char>(random());
    }
    const std::vector<char> exact(changed.begin(), changed.end());
    const ElfVerdict verdict = check_elf(std::string_view(exact.data(), exact.size()));
    EXPECT_EQ(verdict.fault == ElfFault::kNone, fault_text(verdict).empty());
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin::command
