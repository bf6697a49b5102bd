# What the session parses with, once more, instrumented. The linker takes what a target needs of it.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  get_target_property(session_sources ringpress_session SOURCES)
  list(FILTER session_sources INCLUDE REGEX "^session/(calls|rules|settings|state)/")
  list(TRANSFORM session_sources PREPEND ${PROJECT_SOURCE_DIR}/nccl_plugin/)
  add_library(fuzzed_session STATIC EXCLUDE_FROM_ALL
    ${session_sources}
    ${PROJECT_SOURCE_DIR}/nccl_plugin/errors/warn_once.cc
    ${PROJECT_SOURCE_DIR}/tuner/decision_text.cc
    ${PROJECT_SOURCE_DIR}/tuner/planner.cc
  )
  set_target_properties(fuzzed_session PROPERTIES UNITY_BUILD OFF)
  target_include_directories(fuzzed_session SYSTEM PRIVATE ${XXHASH_INCLUDE})
  target_link_libraries(fuzzed_session PUBLIC fuzzed_codecs)
endif()
