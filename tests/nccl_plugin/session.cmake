# Tests of the session: settings, error feedback, statistics, communicator.
add_executable(session_test communicator_test.cc error_feedback_test.cc settings_test.cc)
target_link_libraries(session_test PRIVATE ringpress_session GTest::gtest_main rapidcheck
                      Threads::Threads)
gtest_discover_tests(session_test DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600)
