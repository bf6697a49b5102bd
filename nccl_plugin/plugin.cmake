# Door B: the plugins that NCCL itself loads, all in one library. It shows nothing but the tables in
# plugin.map, brings its own C++ runtime and is never unmapped: NCCL closes plugins while their
# threads may still run.

# For the command `ringpress`, too.
add_library(ringpress_door_variables STATIC plugin/door_variables.cc)
target_include_directories(ringpress_door_variables PUBLIC ${PROJECT_SOURCE_DIR})

add_library(ringpress_plugins OBJECT
  plugin/collnet_policy.cc
  plugin/device.cc
  plugin/env.cc
  plugin/env_tables.cc
  plugin/report.cc
  plugin/tuner.cc
  plugin/tuner_tables.cc
)
target_include_directories(ringpress_plugins PUBLIC ${PROJECT_SOURCE_DIR})
target_link_libraries(ringpress_plugins PUBLIC ringpress_include ringpress_firewall Threads::Threads
                      PRIVATE ringpress_door_variables ringpress_session ringpress_tuner ${CMAKE_DL_LIBS})
