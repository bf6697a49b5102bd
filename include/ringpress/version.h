// The library's version, and the only place that states it: CMake reads it here. Protocol versions
// are in wire.h.
#ifndef RINGPRESS_VERSION_H_
#define RINGPRESS_VERSION_H_

#define RINGPRESS_VERSION_MAJOR 0
#define RINGPRESS_VERSION_MINOR 1
#define RINGPRESS_VERSION_PATCH 0

#define RINGPRESS_VERSION_QUOTED(x) #x
#define RINGPRESS_VERSION_TEXT_OF(major, minor, patch) \
  RINGPRESS_VERSION_QUOTED(major)                      \
  "." RINGPRESS_VERSION_QUOTED(minor) "." RINGPRESS_VERSION_QUOTED(patch)
/* A string: "major.minor.patch". */
#define RINGPRESS_VERSION                                                     \
  RINGPRESS_VERSION_TEXT_OF(RINGPRESS_VERSION_MAJOR, RINGPRESS_VERSION_MINOR, \
                            RINGPRESS_VERSION_PATCH)

namespace ringpress {

/// major * 10000 + minor * 100 + patch, as in the hello.
inline constexpr unsigned kLibraryVersion =
    RINGPRESS_VERSION_MAJOR * 10000 + RINGPRESS_VERSION_MINOR * 100 + RINGPRESS_VERSION_PATCH;

}  // namespace ringpress

#endif  // RINGPRESS_VERSION_H_
