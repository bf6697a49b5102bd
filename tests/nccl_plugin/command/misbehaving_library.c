/* A library that does, as it is loaded, what MISBEHAVIOUR says. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((constructor)) static void misbehave(void) {
  const char* how = getenv("MISBEHAVIOUR");
  if (how == NULL) return;
  if (strcmp(how, "hang") == 0) {
    for (;;) pause();
  }
  if (strcmp(how, "crash") == 0) abort();
  if (strcmp(how, "exit") == 0) exit(3);
  if (strcmp(how, "print") == 0) {
    const ssize_t written = write(STDOUT_FILENO, "noise\n", 6);
    (void)written;
  }
}

__attribute__((visibility("default"))) const char* const ncclNetPlugin_v8[] = {"misbehaving"};
