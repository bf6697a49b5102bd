# libFuzzer: what a checkpoint has of tensors. Clang only.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_executable(state_fuzz ${CMAKE_CURRENT_SOURCE_DIR}/state_fuzz.cc)
  target_link_libraries(state_fuzz PRIVATE fuzzed_session)
endif()
