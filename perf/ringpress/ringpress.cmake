# The command `ringpress`; all of it but main(), for the tests too.
add_library(ringpress_command_parts STATIC
  ringpress/advice.cc
  ringpress/child.cc
  ringpress/doctor.cc
  ringpress/elf_file.cc
  ringpress/explain/decided.cc
  ringpress/explain/explain.cc
  ringpress/explain/explanation.cc
  ringpress/judge.cc
  ringpress/judge_preloading.cc
  ringpress/libraries.cc
  ringpress/open_library.cc
  ringpress/params.cc
  ringpress/plan/job_file.cc
  ringpress/plan/json_reader.cc
  ringpress/plan/json_tree.cc
  ringpress/plan/model_file.cc
  ringpress/plan/plan.cc
  ringpress/plan/text_file.cc
  ringpress/plan/timeline_svg.cc
  ringpress/program_nccl.cc
  ringpress/run.cc
  ringpress/svg_text.cc
  ringpress/schedule/cluster_file.cc
  ringpress/schedule/jobs_file.cc
  ringpress/schedule/launch_files.cc
  ringpress/schedule/placements_svg.cc
  ringpress/schedule/schedule.cc
  ringpress/schedule/svg.cc
)
# What reads files and writes reports takes long to compile, and its speed is not looked at.
target_compile_options(ringpress_command_parts PRIVATE -O0)
ringpress_compile_alone(ringpress/plan/model_file.cc ringpress/schedule/placements_svg.cc
                        ringpress/schedule/svg.cc)
target_include_directories(ringpress_command_parts PUBLIC ${PROJECT_SOURCE_DIR})
target_link_libraries(ringpress_command_parts
                      PUBLIC ringpress_include ringpress_door_variables
                      PRIVATE ringpress_option_values ringpress_firewall ringpress_session ringpress_codecs
                              ringpress_module_layout ringpress_tuner nlohmann_json::nlohmann_json
                              fmt::fmt ${CMAKE_DL_LIBS})

# The linear programme that the fast solver of `schedule` is checked against, where Clp is installed.
pkg_check_modules(CLP QUIET IMPORTED_TARGET clp)
if(CLP_FOUND)
  target_sources(ringpress_command_parts PRIVATE
    ringpress/schedule/lp/ring_pricing.cc
    ringpress/schedule/lp/slot_lp.cc
  )
  set_source_files_properties(ringpress/schedule/lp/ring_pricing.cc ringpress/schedule/lp/slot_lp.cc
                              PROPERTIES COMPILE_OPTIONS -O2)
  target_compile_definitions(ringpress_command_parts PUBLIC RINGPRESS_HAVE_CLP)
  target_link_libraries(ringpress_command_parts PRIVATE PkgConfig::CLP)
endif()

add_executable(ringpress_command ringpress/main.cc)
set_target_properties(ringpress_command PROPERTIES OUTPUT_NAME ringpress)
target_link_libraries(ringpress_command PRIVATE ringpress_command_parts CLI11::CLI11 fmt::fmt)
install(TARGETS ringpress_command)
ringpress_installs(ringpress_command)
