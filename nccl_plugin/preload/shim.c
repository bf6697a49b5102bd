/* The preloaded library. Every function of NCCL is a jump through a slot (generate.py). A slot
 * first leads to ringpress_preload_resolve(), which looks the function up in the real library and
 * puts it there: from then on a call costs one load and a jump. In the slots of the functions that
 * the engine takes part in stand the hooks below instead.
 *
 * What holds whatever happens: without the engine everything goes to the real library; a call that
 * the real library, or the engine, makes to one of these functions is not looked at again; after a
 * fork the child is left alone; in secure execution the engine is never opened. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#include "nccl_plugin/preload/engine.h"
#include "nccl_plugin/preload/find_nccl.h"

enum Absent { kNumber, kText };

static const struct {
  const char* name;
  enum Absent absent;
} kFunctions[] = {
#define RINGPRESS_FUNCTION(name, absent) {#name, absent},
#include "functions.inc"
#undef RINGPRESS_FUNCTION
};

/* One for each of kFunctions; in trampolines.S. */
extern void* ringpress_preload_slots[];
__attribute__((visibility("hidden"))) void* ringpress_preload_resolve(size_t index);

static void* real_library;
static ringpressRealNccl real;
static ringpressEngine engine;
static int has_engine; /* Written before any hook is entered. */
static volatile int is_forked;
static __thread int is_inside __attribute__((tls_model("initial-exec")));

static int enter(void) {
  if (is_inside || is_forked) return 0;
  is_inside = 1;
  return 1;
}
static void leave(void) {
  is_inside = 0;
}

#include "hooks.inc"

static void after_fork(void) {
  is_forked = 1;
}

static ncclResult_t absent_number(void) {
  return ncclSystemError;
}
static const char* absent_text(void) {
  return "ringpress: the NCCL library was not found, or has no such function";
}

static void find_library(void) {
  real_library = ringpress_find_nccl();
  if (real_library == NULL) {
    ringpress_preload_warn("no NCCL library found: set RINGPRESS_REAL_NCCL to its absolute path");
  }
}

static void* real_function(const char* name) {
  return real_library != NULL ? dlsym(real_library, name) : NULL;
}

static void fill_real(void) {
  real.size = sizeof real;
  real.version = RINGPRESS_ENGINE_VERSION;
#define RINGPRESS_FIND(name) *(void**)&real.name = real_function("nccl" #name);
  RINGPRESS_INTERCEPTED(RINGPRESS_FIND)
  RINGPRESS_CALLED(RINGPRESS_FIND)
#undef RINGPRESS_FIND
}

/* The engine lies in the shim's own folder, or in the one above. */
static void* open_engine_library(void) {
  static const char* const kPlaces[] = {"", "../"};
  char path[4096];
  Dl_info self;
  if (dladdr((void*)&kFunctions, &self) == 0) return NULL;
  const char* slash = strrchr(self.dli_fname, '/');
  const int folder = slash != NULL ? (int)(slash - self.dli_fname) + 1 : 0;
  void* handle = NULL;
  for (size_t i = 0; i < 2 && handle == NULL; ++i) {
    snprintf(path, sizeof path, "%.*s%s" RINGPRESS_ENGINE_FILE, folder, self.dli_fname, kPlaces[i]);
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  }
  if (handle == NULL) {
    ringpress_preload_warn("nothing is compressed: the engine cannot be loaded: %s", dlerror());
  }
  return handle;
}

static void open_engine(void) {
  if (getauxval(AT_SECURE) != 0 || real_library == NULL) return;
  fill_real();
  void* library = open_engine_library();
  if (library == NULL) return;
  /* The program may use ringpress's own NCCL API on host memory: that has all of this inside. */
  if (dlsym(library, "ncclGetVersion") == (void*)real.GetVersion) return;
  ringpressOpenEngine_t* open_it = NULL;
  *(void**)&open_it = dlsym(library, "ringpressOpenEngine");
  if (open_it == NULL) {
    ringpress_preload_warn("nothing is compressed: %s is of another version",
                           RINGPRESS_ENGINE_FILE);
    return;
  }
  engine.size = sizeof engine;
  engine.version = RINGPRESS_ENGINE_VERSION;
  if (open_it(&real, &engine) != 0) return;
  has_engine = pthread_atfork(NULL, NULL, after_fork) == 0;
}

/* The hook of an intercepted function, else null. */
static void* hook_of(const char* name) {
#define RINGPRESS_HOOK(short_name) \
  if (strcmp(name, "nccl" #short_name) == 0) return (void*)hook_##short_name;
  RINGPRESS_INTERCEPTED(RINGPRESS_HOOK)
#undef RINGPRESS_HOOK
  return NULL;
}

/* Called by the trampolines with a function's number; returns where the call goes. */
void* ringpress_preload_resolve(size_t index) {
  static pthread_once_t library_once = PTHREAD_ONCE_INIT;
  static pthread_once_t engine_once = PTHREAD_ONCE_INIT;
  const char* name = kFunctions[index].name;
  pthread_once(&library_once, find_library);
  void* target = real_function(name);
  if (target == NULL) {
    ringpress_preload_warn("%s was called, which %s", name,
                           real_library == NULL ? "needs the real NCCL" : "this NCCL lacks");
    target = kFunctions[index].absent == kText ? (void*)absent_text : (void*)absent_number;
  } else {
    void* hook = hook_of(name);
    /* While the engine is being opened nobody else's first call comes through here: not this
     * thread's, for it is inside. */
    if (hook != NULL && !is_inside && !is_forked) {
      is_inside = 1;
      pthread_once(&engine_once, open_engine);
      is_inside = 0;
      if (has_engine) target = hook;
    } else if (hook != NULL) {
      return target; /* The slot is left for a call from outside. */
    }
  }
  __atomic_store_n(&ringpress_preload_slots[index], target, __ATOMIC_RELEASE);
  return target;
}
