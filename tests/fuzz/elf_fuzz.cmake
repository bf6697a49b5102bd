# libFuzzer: the file of a library. Clang only.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_executable(elf_fuzz
    ${CMAKE_CURRENT_SOURCE_DIR}/elf_fuzz.cc
    ${PROJECT_SOURCE_DIR}/nccl_plugin/command/elf_file.cc
  )
  target_include_directories(elf_fuzz PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(elf_fuzz PRIVATE -fsanitize=fuzzer,address,undefined
                         -fno-sanitize-recover=all)
  target_link_options(elf_fuzz PRIVATE -fsanitize=fuzzer,address,undefined)
endif()
