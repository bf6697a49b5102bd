# `cpack -G DEB` in the build tree. Nothing of it is where libnccl2 has something: what is called
# libnccl.so.2 lies in private folders.
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ringpress)
set(CPACK_PACKAGE_VENDOR ringpress)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGE_DESCRIPTION "ringpress makes the all-reduce of NCCL programs smaller: gradients cross the
network at 1 to 8 bits a value instead of 32 or 16. It is preloaded before
NVIDIA's NCCL, loaded by it as a plugin, or stands in its place on machines
without a GPU. The command ringpress says which of these work.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "The ringpress maintainers <maintainers@ringpress.invalid>" CACHE STRING
    "Who makes the Debian package: NAME <ADDRESS>")
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# all_reduce_perf needs a library that is in the package itself.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
include(CPack)
