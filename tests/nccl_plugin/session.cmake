# Tests of the session: settings, error feedback, statistics, communicator.
set(session_tests automatic_processes_test.cc automatic_test.cc call_numbers_test.cc
                  communicator_feedback_test.cc communicator_pieces_test.cc communicator_test.cc
                  error_feedback_test.cc feedback_identity_test.cc gossip_test.cc guarded_class_test.cc lazy_calls_test.cc
                  lazy_orders_test.cc level_family_test.cc leveled_budget_test.cc leveled_calls_test.cc
                  recurrences_test.cc ring_topology_test.cc rules_test.cc settings_test.cc
                  step_levels_test.cc step_model_test.cc step_planner_test.cc step_prices_test.cc
                  step_programs_test.cc step_recorder_test.cc tuning_test.cc)
if(RINGPRESS_SANITIZE STREQUAL "thread")
  # What ranks decide, in threads that other tests use in the same way (as those with the label not_tsan).
  list(REMOVE_ITEM session_tests automatic_processes_test.cc guarded_class_test.cc lazy_orders_test.cc
                                 leveled_budget_test.cc leveled_calls_test.cc step_levels_test.cc
                                 step_planner_test.cc)
endif()
add_executable(session_test ${session_tests})
target_link_libraries(session_test PRIVATE ringpress_session ringpress_gossip ringpress_test_tensors
                      GTest::gtest_main rapidcheck Threads::Threads)
gtest_discover_tests(session_test DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600)
ringpress_label(session_test
  not_asan Automatic.Hosts* Automatic.Links* Calibrate.IsTheSame*
           LazyCalls.Another* LazyCalls.Error* LazyCalls.WhatHas*
           LeveledCalls.Densities* LeveledCalls.RanksAgree* LeveledCalls.TheSteps*
           StepLevels.RanksNever* StepPlan.RanksAgree* StepPlanner.RanksNever* TunedCalls.AllRanksSwitch*
  not_tsan Automatic.Determ* Automatic.Hosts* Automatic.Links* Automatic.Pieces* Automatic.Resid*
           Calibrate.* CalibrationFile.* Communicator.ProjectsMatrices* CommunicatorPieces.AreUnbiased*
           Gossip.ACodec* LazyCalls.* LevelFamily.* Matching.* Trigger.* TunedCalls.* TuningLog.*)

# Counts calls by standing in for the C library's functions, which sanitizers do too.
if(NOT RINGPRESS_SANITIZE)
  add_executable(steady_state_test steady_state_test.cc ../support/call_counter.cc)
  target_link_libraries(steady_state_test PRIVATE ringpress_session ringpress_transport
                        ringpress_test_tensors GTest::gtest_main Threads::Threads ${CMAKE_DL_LIBS})
  # The libraries, too, are to find the functions that count.
  set_target_properties(steady_state_test PROPERTIES ENABLE_EXPORTS ON)
  gtest_discover_tests(steady_state_test DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 120)
endif()
