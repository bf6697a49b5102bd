# What is installed, and the Debian package.
add_test(NAME package.installed
         COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/package/installed_test.py
                 ${CMAKE_COMMAND} ${PROJECT_BINARY_DIR} $<TARGET_FILE:preload_client_dlopen>
                 $<TARGET_FILE:fake_nccl>)
add_test(NAME package.debian
         COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/package/debian_test.py
                 ${CMAKE_COMMAND} ${PROJECT_BINARY_DIR})
# Both install, and write which files that were into the build tree.
set_tests_properties(package.installed package.debian PROPERTIES
                     TIMEOUT 300 RESOURCE_LOCK ringpress_install)
ringpress_begin_early(20 package.installed package.debian)
