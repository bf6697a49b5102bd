# One row per codec, type, operation and instruction set.
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)

add_executable(codec_perf ${CMAKE_CURRENT_LIST_DIR}/codec_perf.cc)
target_link_libraries(codec_perf PRIVATE ringpress_codecs CLI11::CLI11 nlohmann_json::nlohmann_json
                      fmt::fmt)
set_target_properties(codec_perf PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/perf)
