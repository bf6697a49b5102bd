# libFuzzer: the text of RINGPRESS_RULES. Clang only.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_executable(rules_fuzz
    ${CMAKE_CURRENT_SOURCE_DIR}/rules_fuzz.cc
    ${PROJECT_SOURCE_DIR}/nccl_plugin/session/rules/rules.cc
    ${PROJECT_SOURCE_DIR}/nccl_plugin/session/rules/rules_file.cc
    ${PROJECT_SOURCE_DIR}/nccl_plugin/session/settings/setting_file.cc
    ${PROJECT_SOURCE_DIR}/nccl_plugin/session/settings/environment.cc
    ${PROJECT_SOURCE_DIR}/nccl_plugin/session/settings/nccl_variables.cc
    ${PROJECT_SOURCE_DIR}/nccl_plugin/session/settings/budget_error.cc
    ${PROJECT_SOURCE_DIR}/nccl_plugin/session/settings/comm_name.cc
    ${PROJECT_SOURCE_DIR}/nccl_plugin/session/settings/settings.cc
    ${PROJECT_SOURCE_DIR}/tuner/decision_text.cc
    ${PROJECT_SOURCE_DIR}/tuner/planner.cc
  )
  target_include_directories(rules_fuzz PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(rules_fuzz SYSTEM PRIVATE ${XXHASH_INCLUDE})
  target_link_libraries(rules_fuzz PRIVATE ringpress_include)
  target_compile_options(rules_fuzz PRIVATE -fsanitize=fuzzer,address,undefined
                         -fno-sanitize-recover=all)
  target_link_options(rules_fuzz PRIVATE -fsanitize=fuzzer,address,undefined)
endif()
