// The library's version; protocol versions are in wire.h.
#ifndef RINGPRESS_VERSION_H_
#define RINGPRESS_VERSION_H_

#define RINGPRESS_VERSION_MAJOR 0
#define RINGPRESS_VERSION_MINOR 1
#define RINGPRESS_VERSION_PATCH 0

namespace ringpress {

/// major * 10000 + minor * 100 + patch, as in the hello.
inline constexpr unsigned kLibraryVersion =
    RINGPRESS_VERSION_MAJOR * 10000 + RINGPRESS_VERSION_MINOR * 100 + RINGPRESS_VERSION_PATCH;

}  // namespace ringpress

#endif  // RINGPRESS_VERSION_H_
