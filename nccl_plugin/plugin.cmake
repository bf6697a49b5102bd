# Door B: the plugins that NCCL itself loads, all in one library. It shows nothing but the tables in
# plugin.map, brings its own C++ runtime and is never unmapped: NCCL closes plugins while their
# threads may still run.
add_library(ringpress_plugins OBJECT
  plugin/device.cc
  plugin/report.cc
)
target_include_directories(ringpress_plugins PUBLIC ${PROJECT_SOURCE_DIR})
target_link_libraries(ringpress_plugins PUBLIC ringpress_include ringpress_firewall Threads::Threads)
