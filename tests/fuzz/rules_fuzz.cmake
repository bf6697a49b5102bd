# libFuzzer: the text of RINGPRESS_RULES. Clang only.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_executable(rules_fuzz ${CMAKE_CURRENT_SOURCE_DIR}/rules_fuzz.cc)
  target_link_libraries(rules_fuzz PRIVATE fuzzed_session)
endif()
