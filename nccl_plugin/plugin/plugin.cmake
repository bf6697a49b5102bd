# Door B: the plugins that NCCL itself loads, all in one library. It shows nothing but the tables in
# plugin/exports.map, brings its own C++ runtime and is never unmapped: NCCL closes plugins while their
# threads may still run.

# For the command `ringpress`, too.
add_library(ringpress_door_variables STATIC plugin/door_variables.cc plugin/function_lists.cc)
target_include_directories(ringpress_door_variables PUBLIC ${PROJECT_SOURCE_DIR})
target_link_libraries(ringpress_door_variables PUBLIC ringpress_include)

add_library(ringpress_plugins OBJECT
  plugin/coll_comm.cc
  plugin/coll_connect.cc
  plugin/coll_decisions.cc
  plugin/coll_worker.cc
  plugin/collnet.cc
  plugin/collnet_policy.cc
  plugin/collnet_tables.cc
  plugin/device.cc
  plugin/env.cc
  plugin/env_tables.cc
  plugin/interfaces.cc
  plugin/net.cc
  plugin/net_tables.cc
  plugin/next_net.cc
  plugin/next_net_devices.cc
  plugin/next_net_steps.cc
  plugin/object.cc
  plugin/pending_connects.cc
  plugin/profiler_tables.cc
  plugin/registered_memory.cc
  plugin/report.cc
  plugin/staging.cc
  plugin/tensor_registry.cc
  plugin/profiled_tensors.cc
  plugin/tuner.cc
  plugin/tuner_tables.cc
  plugin/nccl_encryption.cc
)
ringpress_compile_alone(plugin/next_net_steps.cc)
target_include_directories(ringpress_plugins PUBLIC ${PROJECT_SOURCE_DIR})
target_link_libraries(ringpress_plugins PUBLIC ringpress_include ringpress_firewall Threads::Threads
                      PRIVATE ringpress_door_variables ringpress_session ringpress_tuner
                              ${CMAKE_DL_LIBS})

# The library, under the name by which NCCL_NET_PLUGIN=ringpress finds it, and links to it under the
# names of the other kinds of plugin.
set(plugin_exports ${CMAKE_CURRENT_SOURCE_DIR}/plugin/exports.map)
add_library(ringpress_plugin SHARED $<TARGET_OBJECTS:ringpress_plugins>)
target_link_libraries(ringpress_plugin PRIVATE ringpress_door_variables ringpress_session
                                               ringpress_transport ringpress_tuner
                                               ringpress_firewall Threads::Threads ${CMAKE_DL_LIBS})
set_target_properties(ringpress_plugin PROPERTIES
  OUTPUT_NAME nccl-net-ringpress LINKER_LANGUAGE CXX
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib LINK_DEPENDS ${plugin_exports})
target_link_options(ringpress_plugin PRIVATE
  LINKER:--version-script=${plugin_exports} LINKER:-z,now LINKER:-z,relro LINKER:-z,nodelete
  LINKER:--gc-sections)
if(NOT RINGPRESS_SANITIZE)
  target_link_options(ringpress_plugin PRIVATE
    -static-libstdc++ -static-libgcc LINKER:--exclude-libs,ALL LINKER:-z,defs)
endif()

ringpress_install(ringpress_plugin ${CMAKE_INSTALL_LIBDIR})
foreach(kind tuner profiler env)
  set(link $<TARGET_FILE_DIR:ringpress_plugin>/libnccl-${kind}-ringpress.so)
  add_custom_command(TARGET ringpress_plugin POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E create_symlink $<TARGET_FILE_NAME:ringpress_plugin> ${link})
  install(FILES ${link} DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
endforeach()

# The same names in a folder of their own, for LD_LIBRARY_PATH: nothing else of ours, and nothing that
# somebody has put beside the libraries, takes the place of what a program loads.
set(folder $<TARGET_FILE_DIR:ringpress_plugin>/ringpress)
add_custom_command(TARGET ringpress_plugin POST_BUILD
  COMMAND ${CMAKE_COMMAND} -E make_directory ${folder})
foreach(kind net tuner profiler env)
  set(link ${folder}/libnccl-${kind}-ringpress.so)
  add_custom_command(TARGET ringpress_plugin POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E create_symlink ../$<TARGET_FILE_NAME:ringpress_plugin> ${link})
  install(FILES ${link} DESTINATION ${RINGPRESS_PRIVATE_FOLDER} COMPONENT runtime)
endforeach()
