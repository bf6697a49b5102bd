// Marks the few symbols that libringpress.so shows to the program around it.
#ifndef RINGPRESS_INTERNAL_EXPORT_H_
#define RINGPRESS_INTERNAL_EXPORT_H_

#define RINGPRESS_EXPORT __attribute__((visibility("default")))

#endif  // RINGPRESS_INTERNAL_EXPORT_H_
