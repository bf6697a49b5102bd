# The codec fuzz target: with libFuzzer where the compiler is clang (codec_fuzz, not built by
# default), and on pseudo-random inputs everywhere.
add_executable(codec_fuzz_random ${CMAKE_CURRENT_LIST_DIR}/codec_fuzz.cc
                                 ${CMAKE_CURRENT_LIST_DIR}/codec_fuzz_random.cc)
target_link_libraries(codec_fuzz_random PRIVATE ringpress_codec_data)
add_test(NAME fuzz.codec_random COMMAND codec_fuzz_random)

if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_executable(codec_fuzz EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/codec_fuzz.cc
                                             ${PROJECT_SOURCE_DIR}/tests/compress_kernels/codec_data.cc)
  target_link_libraries(codec_fuzz PRIVATE fuzzed_codecs)
endif()
