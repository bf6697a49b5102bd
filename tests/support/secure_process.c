/* Preloaded, it makes a process believe that it runs with more rights than its user has. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stddef.h>

__attribute__((visibility("default"))) unsigned long getauxval(unsigned long type) {
  static unsigned long (*real)(unsigned long);
  if (type == AT_SECURE) return 1;
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "getauxval");
  return real(type);
}
