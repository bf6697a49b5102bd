# The command `ringpress`.
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)

# What programs at a terminal share.
add_library(ringpress_terminal STATIC command/terminal/codec_list.cc command/terminal/hint.cc
                                       command/terminal/size.cc)
target_include_directories(ringpress_terminal PUBLIC ${PROJECT_SOURCE_DIR})
target_link_libraries(ringpress_terminal PRIVATE ringpress_include)

# All of it but main(), for the tests too.
add_library(ringpress_command_parts STATIC
  command/advice.cc
  command/child.cc
  command/doctor.cc
  command/doors.cc
  command/elf_file.cc
  command/estimate/estimate.cc
  command/estimate/estimate_text.cc
  command/estimate/gpus.cc
  command/estimate/quantities.cc
  command/estimate/reductions.cc
  command/estimate/step_model.cc
  command/explain/decided.cc
  command/explain/explain.cc
  command/explain/explanation.cc
  command/explain/processors.cc
  command/judge.cc
  command/judge_preloading.cc
  command/libraries.cc
  command/open_library.cc
  command/params.cc
  command/plan/job_file.cc
  command/plan/json_reader.cc
  command/plan/json_tree.cc
  command/plan/model_file.cc
  command/plan/plan.cc
  command/plan/plan_rules.cc
  command/plan/preset_job.cc
  command/plan/presets.cc
  command/plan/templates.cc
  command/plan/text_file.cc
  command/plan/timeline_svg.cc
  command/program_nccl.cc
  command/report/charts.cc
  command/report/headline.cc
  command/report/html.cc
  command/report/input_files.cc
  command/report/job_data.cc
  command/report/numbers.cc
  command/report/page.cc
  command/report/rank_lines.cc
  command/report/reasons.cc
  command/report/report.cc
  command/report/sections_calls.cc
  command/report/sections_measured.cc
  command/report/sections_more.cc
  command/report/suggestions.cc
  command/report/summary.cc
  command/report/summary_text.cc
  command/report/tuning_table.cc
  command/report/whole_files.cc
  command/run.cc
  command/run_report.cc
  command/run_settings.cc
  command/svg_text.cc
  command/schedule/cluster_file.cc
  command/schedule/jobs_file.cc
  command/schedule/launch_files.cc
  command/schedule/placements_svg.cc
  command/schedule/schedule.cc
  command/schedule/svg.cc
)
# The speed of what reads files and writes reports is not looked at, its size is.
target_compile_options(ringpress_command_parts PRIVATE -Os)
ringpress_in_sections(ringpress_command_parts ringpress_terminal)
# Hundreds of thousands of live lines are read.
set_source_files_properties(command/report/input_files.cc command/report/rank_lines.cc
                            PROPERTIES COMPILE_OPTIONS -O2)
ringpress_compile_alone(command/plan/model_file.cc command/schedule/placements_svg.cc
                        command/schedule/svg.cc)
target_include_directories(ringpress_command_parts PUBLIC ${PROJECT_SOURCE_DIR})
target_link_libraries(ringpress_command_parts
                      PUBLIC ringpress_include ringpress_door_variables
                      PRIVATE ringpress_terminal ringpress_firewall ringpress_session ringpress_codecs
                              ringpress_tuner ringpress_gadget_lp nlohmann_json::nlohmann_json fmt::fmt ${CMAKE_DL_LIBS})

if(RINGPRESS_COMMAND)
  add_executable(ringpress_command command/main.cc
                                   command/line/doctor_line.cc
                                   command/line/estimate_line.cc
                                   command/line/explain_line.cc
                                   command/line/plan_line.cc
                                   command/line/report_line.cc
                                   command/line/run_line.cc
                                   command/line/schedule_line.cc)
  target_compile_options(ringpress_command PRIVATE -Os)
  set_target_properties(ringpress_command PROPERTIES OUTPUT_NAME ringpress
                        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/perf)
  target_link_libraries(ringpress_command PRIVATE ringpress_command_parts CLI11::CLI11 fmt::fmt)
  if(NOT RINGPRESS_SANITIZE)
    # Its codecs are those of the library.
    target_sources(ringpress_command PRIVATE $<TARGET_OBJECTS:ringpress_opened_factory>)
    add_dependencies(ringpress_command ringpress)
  endif()
  ringpress_install(ringpress_command ${CMAKE_INSTALL_BINDIR})
endif()
