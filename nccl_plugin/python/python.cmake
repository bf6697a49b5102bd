# What the Python wheel takes from a build: scikit-build-core configures the tree, builds the target
# ringpress_wheel and installs this component alone.
add_custom_target(ringpress_wheel DEPENDS ringpress ringpress_preload ringpress_plugin)
install(TARGETS ringpress LIBRARY DESTINATION ringpress/lib COMPONENT python NAMELINK_SKIP)
install(TARGETS ringpress_preload ringpress_plugin
        LIBRARY DESTINATION ringpress/lib COMPONENT python)
install(FILES ${PROJECT_SOURCE_DIR}/include/ringpress/nccl.h
              ${PROJECT_SOURCE_DIR}/include/ringpress/nccl_device.h
              ${PROJECT_SOURCE_DIR}/include/ringpress/nccl_types.h
              ${PROJECT_SOURCE_DIR}/include/ringpress/ringpress.h
        DESTINATION ringpress/include/ringpress COMPONENT python)
