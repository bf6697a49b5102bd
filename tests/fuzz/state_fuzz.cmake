# libFuzzer: what a checkpoint has of tensors. Clang only.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_executable(state_fuzz
    ${CMAKE_CURRENT_SOURCE_DIR}/state_fuzz.cc
    ${PROJECT_SOURCE_DIR}/nccl_plugin/session/calls/buffer_names.cc
    ${PROJECT_SOURCE_DIR}/nccl_plugin/session/calls/call_pattern.cc
    ${PROJECT_SOURCE_DIR}/nccl_plugin/session/calls/call_sequence.cc
    ${PROJECT_SOURCE_DIR}/nccl_plugin/session/calls/error_feedback.cc
    ${PROJECT_SOURCE_DIR}/nccl_plugin/session/calls/slice_turns.cc
    ${PROJECT_SOURCE_DIR}/nccl_plugin/session/calls/tensor_call.cc
    ${PROJECT_SOURCE_DIR}/tuner/decision_text.cc
    ${PROJECT_SOURCE_DIR}/tuner/planner.cc
  )
  target_include_directories(state_fuzz PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(state_fuzz PRIVATE ringpress_include)
  target_compile_options(state_fuzz PRIVATE -fsanitize=fuzzer,address,undefined
                         -fno-sanitize-recover=all)
  target_link_options(state_fuzz PRIVATE -fsanitize=fuzzer,address,undefined)
endif()
