/* Loads the plugin library and closes it again, as a program that only looks does: no thread, no
 * descriptor and no environment variable more than before, nothing on standard output. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern char** environ;

static int entries(const char* folder) {
  DIR* directory = opendir(folder);
  int count = 0;
  if (directory == NULL) return -1;
  while (readdir(directory) != NULL) ++count;
  closedir(directory);
  return count;
}

static int variables(void) {
  int count = 0;
  while (environ[count] != NULL) ++count;
  return count;
}

static int failed(const char* what) {
  fprintf(stderr, "%s\n", what);
  return 1;
}

int main(int argc, char** argv) {
  int round;
  for (round = 0; round < 3; ++round) {
    const int threads = entries("/proc/self/task");
    const int descriptors = entries("/proc/self/fd");
    const int settings = variables();
    void* library;
    if (argc != 2) return failed("usage: plugin_load LIBRARY");
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return failed(dlerror());
    if (dlsym(library, "ncclNetPlugin_v12") == NULL) return failed("no network table");
    if (entries("/proc/self/task") != threads) return failed("loading starts a thread");
    if (entries("/proc/self/fd") != descriptors) return failed("loading opens a descriptor");
    if (dlclose(library) != 0) return failed(dlerror());
    if (entries("/proc/self/task") != threads) return failed("a thread is left");
    if (entries("/proc/self/fd") != descriptors) return failed("a descriptor is left");
    if (variables() != settings) return failed("the environment has changed");
  }
  return 0;
}
