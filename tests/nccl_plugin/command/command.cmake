# The installed command.
add_library(misbehaving_library MODULE command/misbehaving_library.c)
add_executable(command_test command/conflicts_test.cc command/doctor_test.cc command/doors_test.cc
                            command/elf_file_test.cc command/open_library_test.cc
                            command/params_verdict_test.cc)
target_link_libraries(command_test PRIVATE ringpress_command_parts ringpress_session GTest::gtest_main)
target_compile_definitions(command_test PRIVATE
                           MISBEHAVING_LIBRARY="$<TARGET_FILE:misbehaving_library>")
add_dependencies(command_test misbehaving_library)
add_executable(estimate_models_test command/estimate_models_test.cc command/quantities_test.cc)
target_link_libraries(estimate_models_test PRIVATE ringpress_command_parts GTest::gtest_main)
target_compile_definitions(estimate_models_test PRIVATE RESULTS="${PROJECT_SOURCE_DIR}/perf/results")
gtest_discover_tests(estimate_models_test TEST_PREFIX command. DISCOVERY_TIMEOUT 60)
add_executable(explain_decided_test command/decided_test.cc command/explained_calls_test.cc)
target_link_libraries(explain_decided_test PRIVATE
  ringpress_command_parts $<TARGET_OBJECTS:ringpress_interposer> ringpress_session ringpress_gossip ringpress_transport
  ringpress_codecs ringpress_tuner ringpress_firewall GTest::gtest_main Threads::Threads ${CMAKE_DL_LIBS})
add_executable(report_test command/report/page_test.cc command/report/reasons_test.cc)
target_link_libraries(report_test PRIVATE ringpress_command_parts ringpress_tuner GTest::gtest_main)
gtest_discover_tests(report_test TEST_PREFIX command. DISCOVERY_TIMEOUT 60)
gtest_discover_tests(explain_decided_test TEST_PREFIX command. DISCOVERY_TIMEOUT 60)
gtest_discover_tests(command_test TEST_PREFIX command. DISCOVERY_TIMEOUT 60)
add_test(NAME command.run
         COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/command/command_test.py
                 $<TARGET_FILE:ringpress_command> $<TARGET_FILE_DIR:ringpress_plugin>)
set_tests_properties(command.run PROPERTIES TIMEOUT 300)
add_test(NAME command.run_options
         COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/command/run_options_test.py
                 $<TARGET_FILE:ringpress_command> $<TARGET_FILE_DIR:ringpress_plugin>)
set_tests_properties(command.run_options PROPERTIES TIMEOUT 300)
add_test(NAME command.doctor
         COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/command/doctor_test.py
                 $<TARGET_FILE:ringpress_command> $<TARGET_FILE_DIR:ringpress_plugin>)
set_tests_properties(command.doctor PROPERTIES TIMEOUT 300)
add_test(NAME command.explain
         COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/command/explain_test.py
                 $<TARGET_FILE:ringpress_command>)
add_test(NAME command.estimate
         COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/command/estimate_test.py
                 $<TARGET_FILE:ringpress_command>)
set_tests_properties(command.estimate PROPERTIES TIMEOUT 300)
add_test(NAME command.readme
         COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/command/readme_commands_test.py
                 $<TARGET_FILE:ringpress_command> ${PROJECT_SOURCE_DIR})
add_test(NAME command.plan
         COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/command/plan_test.py
                 $<TARGET_FILE:ringpress_command> ${PROJECT_SOURCE_DIR}/perf)
add_test(NAME command.schedule
         COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/command/schedule_test.py
                 $<TARGET_FILE:ringpress_command> ${PROJECT_SOURCE_DIR}/perf)
set_tests_properties(command.schedule PROPERTIES TIMEOUT 300)
add_test(NAME command.report
         COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/command/report/report_test.py
                 $<TARGET_FILE:ringpress_command> ${PROJECT_SOURCE_DIR}/perf)
set_tests_properties(command.report PROPERTIES TIMEOUT 900)
ringpress_begin_early(10 command.plan command.run)
