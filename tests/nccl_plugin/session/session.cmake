# Tests of the session: settings, error feedback, statistics, communicator.
set(session_tests
  calls/call_numbers_test.cc
  calls/slice_programs_test.cc
  calls/slice_turns_test.cc
  calls/call_sequence_test.cc
  calls/communicator_feedback_test.cc
  calls/error_feedback_test.cc
  calls/feedback_adoption_test.cc
  calls/feedback_identity_test.cc
  calls/recurrences_test.cc
  calls/savings_test.cc
  communicator_pieces_test.cc
  communicator_test.cc
  lazy/lazy_calls_test.cc
  lazy/lazy_orders_test.cc
  ring_topology_test.cc
  start_line_test.cc
  rules/rules_test.cc
  settings/settings_test.cc
  state/state_file_test.cc
  state/state_parts_test.cc
  steps/step_model_test.cc
  steps/step_planner_test.cc
  steps/step_prices_test.cc
  steps/step_programs_test.cc
  steps/step_recorder_test.cc
  tuning/automatic_processes_test.cc
  tuning/automatic_test.cc
  tuning/guarded_class_test.cc
  tuning/level_family_test.cc
  tuning/level_trials_test.cc
  tuning/leveled_budget_test.cc
  tuning/leveled_calls_test.cc
  tuning/step_levels_test.cc
  tuning/scale_trial_test.cc
  tuning/tuning_test.cc
  calls/call_classes_test.cc
  calls/call_evidence_test.cc
  calls/class_ballot_test.cc
  calls/class_vote_test.cc
  calls/coordinate_scales_test.cc
  calls/error_guard_test.cc
  loss_scaling_test.cc
  calls/by_shape_test.cc
  steps/training_steps_test.cc
  steps/warm_up_test.cc
  calls/feedback_limit_test.cc
  random_programs_test.cc
  calls/residual_spike_test.cc
  calls/tensor_names_test.cc
  calls/value_sample_test.cc
)
if(RINGPRESS_SANITIZE STREQUAL "thread")
  # What ranks decide, in threads that other tests use in the same way (as those with the label not_tsan).
  list(REMOVE_ITEM session_tests lazy/lazy_orders_test.cc steps/step_planner_test.cc
                                 tuning/automatic_processes_test.cc tuning/guarded_class_test.cc
                                 tuning/leveled_budget_test.cc tuning/leveled_calls_test.cc
                                 tuning/step_levels_test.cc)
endif()
list(TRANSFORM session_tests PREPEND session/)
add_executable(session_test ${session_tests} gossip/gossip_test.cc)
target_include_directories(session_test SYSTEM PRIVATE ${XXHASH_INCLUDE})
target_link_libraries(session_test PRIVATE ringpress_session ringpress_gossip ringpress_test_tensors
                      GTest::gtest_main rapidcheck Threads::Threads)
gtest_discover_tests(session_test DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600)
ringpress_label(session_test
  not_asan Automatic.Hosts* Automatic.Links* Calibrate.IsTheSame*
           LazyCalls.Another* LazyCalls.Error* LazyCalls.WhatHas*
           CallClasses.TakeGradients* LeveledBudget.* LeveledCalls.ARing* LeveledCalls.Densities*
           LeveledCalls.RanksAgree* LeveledCalls.Residuals* LeveledCalls.SendFewer* LeveledCalls.TheSteps*
           LevelTrials.Say* */TracedPrograms.*
           StepLevels.BothGrids* StepLevels.RanksNever* StepLevels.RowsOf* StepPlan.RanksAgree* StepPlanner.RanksNever* TunedCalls.AllRanksSwitch*
  not_tsan Automatic.Determ* Automatic.Hosts* Automatic.Links* Automatic.Pieces* Automatic.Resid*
           CallClasses.TakeGradients* */TracedPrograms.*
           Calibrate.* CalibrationFile.* Communicator.ALogged* Communicator.ProjectsMatrices*
           Communicator.WhatErrorFeedback* CommunicatorPieces.AreUnbiased* Gossip.ACodec* LazyCalls.*
           LevelFamily.* LevelTrials.* Matching.* Trigger.* TunedCalls.* TuningLog.*)

# Counts calls by standing in for the C library's functions, which sanitizers do too.
if(NOT RINGPRESS_SANITIZE)
  add_executable(steady_state_test session/calls/steady_state_test.cc ../support/call_counter.cc)
  target_link_libraries(steady_state_test PRIVATE ringpress_session ringpress_transport
                        ringpress_test_tensors GTest::gtest_main Threads::Threads ${CMAKE_DL_LIBS})
  # The libraries, too, are to find the functions that count.
  set_target_properties(steady_state_test PROPERTIES ENABLE_EXPORTS ON)
  gtest_discover_tests(steady_state_test DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 120)
endif()

# A tool that shows ranges of NVTX.
if(RINGPRESS_HAVE_NVTX)
  add_library(nvtx_recorder SHARED ../support/nvtx_recorder.cc)
  target_include_directories(nvtx_recorder SYSTEM PRIVATE ${RINGPRESS_NVTX_INCLUDE})
  target_compile_options(nvtx_recorder PRIVATE -fno-sanitize=all)
  target_link_options(nvtx_recorder PRIVATE -fno-sanitize=all)
endif()
if(RINGPRESS_HAVE_NVTX AND TARGET steady_state_test)
  target_compile_definitions(steady_state_test PRIVATE NVTX_RECORDER="$<TARGET_FILE:nvtx_recorder>")
  add_dependencies(steady_state_test nvtx_recorder)
endif()

# What is written while programs run: by a thread that their processes keep, so by no other test's.
find_package(nlohmann_json REQUIRED)
add_executable(live_test session/live/live_files_test.cc session/live/live_test.cc
                         session/live/promtool_test.cc)
target_link_libraries(live_test PRIVATE ringpress_session ringpress_test_tensors
                      nlohmann_json::nlohmann_json GTest::gtest_main Threads::Threads)
gtest_discover_tests(live_test DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 120)

add_executable(end_report_test session/end_report_test.cc)
target_link_libraries(end_report_test PRIVATE ringpress_firewall GTest::gtest_main Threads::Threads)
gtest_discover_tests(end_report_test DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 60)
