# What is installed besides programs and libraries, how it is removed, and the Debian package. Included
# after all that is installed.
include(CMakePackageConfigHelpers)
set(package ${PROJECT_BINARY_DIR}/package)
set(libraries ${CMAKE_INSTALL_LIBDIR})

# Dangling here; where it is installed the library lies two folders above.
file(MAKE_DIRECTORY ${package})
set(own_name libringpress.so.${PROJECT_VERSION_MAJOR})
foreach(name libnccl.so.2 ${own_name})
  file(CREATE_LINK ../../${own_name} ${package}/${name} SYMBOLIC)
  install(FILES ${package}/${name} DESTINATION ${RINGPRESS_PRIVATE_FOLDER}/host COMPONENT runtime)
endforeach()

set(headers ${PROJECT_SOURCE_DIR}/include/ringpress)
install(FILES ${headers}/nccl.h ${headers}/nccl_device.h ${headers}/nccl_types.h ${headers}/ringpress.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ringpress COMPONENT development)

# find_package(ringpress) gives ringpress::ringpress.
install(EXPORT ringpress FILE ringpressConfig.cmake NAMESPACE ringpress::
        DESTINATION ${libraries}/cmake/ringpress COMPONENT development)
write_basic_package_version_file(${package}/ringpressConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${package}/ringpressConfigVersion.cmake DESTINATION ${libraries}/cmake/ringpress
        COMPONENT development)

set(pc_folder ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH prefix_from_pc ${pc_folder} ${CMAKE_INSTALL_PREFIX})
file(RELATIVE_PATH libraries_from_pc ${pc_folder} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH headers_from_pc ${pc_folder} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(${CMAKE_CURRENT_LIST_DIR}/ringpress.pc.in ${package}/ringpress.pc @ONLY)
install(FILES ${package}/ringpress.pc DESTINATION ${libraries}/pkgconfig COMPONENT development)

# Pages for users, in folders as here, so that their links to each other lead somewhere.
set(pages
  README.md
  compress_kernels/codecs.md
  nccl_plugin/command/README.md
  nccl_plugin/gossip/using.md
  nccl_plugin/host/using.md
  nccl_plugin/package/README.md
  nccl_plugin/plugin/using.md
  nccl_plugin/preload/using.md
  nccl_plugin/python/using.md
  nccl_plugin/promises.md
  nccl_plugin/session/automatic.md
  nccl_plugin/session/calls/compressed.md
  nccl_plugin/session/lazy/using.md
  nccl_plugin/session/live/using.md
  nccl_plugin/session/settings/settings.md
  nccl_plugin/session/state/checkpoints.md
  perf/measured.md
  perf/missed.md
  perf/programs.md
)
set(documents ${CMAKE_INSTALL_DATADIR}/doc/ringpress)
foreach(page ${pages})
  get_filename_component(folder ${page} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/${page} DESTINATION ${documents}/${folder} COMPONENT documentation)
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${documents} COMPONENT documentation)

if(PROJECT_IS_TOP_LEVEL)
  add_custom_target(uninstall
    COMMAND ${CMAKE_COMMAND} -DBUILD=${PROJECT_BINARY_DIR} -P ${CMAKE_CURRENT_LIST_DIR}/uninstall.cmake
    VERBATIM COMMENT "Removing what was installed from here")
  include(${CMAKE_CURRENT_LIST_DIR}/debian.cmake)
endif()
