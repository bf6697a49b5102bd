/* The preloaded library. Every function of NCCL is a jump through a slot (generate.py). A slot
 * first leads to ringpress_preload_resolve(), which looks the function up in the real library and
 * puts it there: from then on a call costs one load and a jump. In the slots of the functions that
 * the engine takes part in stand the hooks below instead.
 *
 * What holds whatever happens: without the engine everything goes to the real library; the engine
 * is opened by what makes ids and communicators, by nothing else; a call that the real library, or
 * the engine, makes to one of these functions is not looked at again; after a fork the child is
 * left alone, but for a line if it makes communicators; in secure execution the engine is never
 * opened.
 *
 * A function that the real library does not have can still be found here, by the linker and by
 * dlsym(): which library is the real one is not known when names are bound. A call of it is an
 * error, whose text ncclGetLastError() has.
 *
 * NCCL tells a network plugin nothing of encryption that the program asks for. So the shim notes
 * it, and the plugin asks the shim. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

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
static int has_engine;
static volatile int is_forked;
static __thread int is_inside __attribute__((tls_model("initial-exec")));
/* Groups of this thread that were begun before there was an engine. */
static __thread int group_depth __attribute__((tls_model("initial-exec")));
/* Of the last call that the real library has no function for; empty: there was none. */
static char missing_text[512];

/* True if the call is the engine's; it then ends with leave(). */
static int enter(void) {
  if (is_inside || is_forked || !__atomic_load_n(&has_engine, __ATOMIC_ACQUIRE)) return 0;
  is_inside = 1;
  return 1;
}
static void leave(void) {
  is_inside = 0;
}

/* Once in a process that makes communicators after a fork. */
static void tell_of_fork(void) {
  static int is_told;
  if (!is_forked || is_inside || __atomic_exchange_n(&is_told, 1, __ATOMIC_RELAXED)) return;
  ringpress_preload_warn(
      "nothing is compressed: this process was forked from one that had made an "
      "NCCL id or a communicator");
}

#include "hooks.inc"

/* The engine counts groups; until it is there, its first communicator may be made within one. */
static void count_group(int change) {
  if (!is_inside) group_depth += change;
}
static int groups_before_engine(void) {
  return group_depth;
}
static ncclResult_t hook_GroupStart(void) {
  if (!enter()) {
    const ncclResult_t result = real.GroupStart();
    if (result == ncclSuccess) count_group(1);
    return result;
  }
  const ncclResult_t result = engine.GroupStart();
  leave();
  return result;
}
static ncclResult_t hook_GroupEnd(void) {
  if (!enter()) {
    if (group_depth > 0) count_group(-1);
    return real.GroupEnd();
  }
  const ncclResult_t result = engine.GroupEnd();
  leave();
  return result;
}
static ncclResult_t hook_GroupSimulateEnd(ncclSimInfo_t* info) {
  if (!enter()) {
    if (group_depth > 0) count_group(-1);
    return real.GroupSimulateEnd(info);
  }
  const ncclResult_t result = engine.GroupSimulateEnd(info);
  leave();
  return result;
}

/* The engine's text, or else the real library's. Neither knows of a function that is missing. */
static const char* hook_GetLastError(ncclComm_t comm) {
  const char* text = NULL;
  if (enter()) {
    text = engine.GetLastError(comm);
    leave();
  } else {
    text = real.GetLastError(comm);
  }
  return text != NULL && text[0] != '\0' ? text : missing_text;
}

static __typeof__(ncclSetEncryption)* real_set_encryption;
static int is_to_encrypt;

/* What NCCL has taken holds, a forked process's, too. */
static ncclResult_t hook_SetEncryption(const ncclEncryptionConfig_t* config) {
  const ncclResult_t result = __atomic_load_n(&real_set_encryption, __ATOMIC_ACQUIRE)(config);
  if (result != ncclSuccess) return result;
  const int has_mode = config != NULL && config->size >= offsetof(ncclEncryptionConfig_t, psk);
  const int asks = has_mode && config->mode != NCCL_ENCRYPTION_MODE_NONE;
  __atomic_store_n(&is_to_encrypt, asks, __ATOMIC_RELEASE);
  return result;
}

/* 1: by the last ncclSetEncryption() of this process that succeeded, NCCL is to encrypt. */
__attribute__((visibility("default"))) int ringpressNcclEncrypts(void);
int ringpressNcclEncrypts(void) {
  return __atomic_load_n(&is_to_encrypt, __ATOMIC_ACQUIRE);
}

static void after_fork(void) {
  is_forked = 1;
}

static ncclResult_t absent_library(void) {
  return ncclSystemError;
}
static ncclResult_t absent_function(void) {
  return ncclInvalidUsage;
}
static const char* absent_text(void) {
  return missing_text;
}

static void* real_function(const char* name) {
  return real_library != NULL ? dlsym(real_library, name) : NULL;
}

static void find_library(void) {
  real_library = ringpress_find_nccl();
  if (real_library == NULL) {
    ringpress_preload_warn("no NCCL library found: set RINGPRESS_REAL_NCCL to its absolute path");
    return;
  }
  real.size = sizeof real;
  real.version = RINGPRESS_ENGINE_VERSION;
  real.GroupDepth = groups_before_engine;
#define RINGPRESS_FIND(name) *(void**)&real.name = real_function("nccl" #name);
  RINGPRESS_INTERCEPTED(RINGPRESS_FIND)
  RINGPRESS_CALLED(RINGPRESS_FIND)
#undef RINGPRESS_FIND
}

/* Where a call goes that the real library has no function for. One line for each function. */
static void* find_absent(size_t index) {
  static char is_told[sizeof kFunctions / sizeof *kFunctions];
  const char* name = kFunctions[index].name;
  Dl_info library;
  if (kFunctions[index].absent == kText && missing_text[0] != '\0') {
    return (void*)absent_text; /* Asks for the text of an error that was. */
  }
  if (real_library == NULL) {
    snprintf(missing_text, sizeof missing_text,
             "ringpress: %s needs the NCCL library (libnccl.so.2), which was not found: set "
             "RINGPRESS_REAL_NCCL to its absolute path",
             name);
  } else {
    const int is_known = dladdr((void*)real.GetVersion, &library) != 0;
    snprintf(missing_text, sizeof missing_text, "ringpress: there is no %s in the NCCL library %s",
             name, is_known ? library.dli_fname : "");
  }
  if (!__atomic_exchange_n(&is_told[index], 1, __ATOMIC_RELAXED)) {
    ringpress_preload_warn("%s", missing_text + strlen("ringpress: "));
  }
  if (kFunctions[index].absent == kText) return (void*)absent_text;
  return real_library == NULL ? (void*)absent_library : (void*)absent_function;
}

/* The engine lies in the shim's own folder, or in one above: of preload/libnccl.so.2 in the next
 * one where it was built, and in the one after that where it is installed. */
static void* open_engine_library(void) {
  static const char* const kPlaces[] = {"", "../", "../../"};
  char path[4096];
  Dl_info self;
  if (dladdr((void*)&kFunctions, &self) == 0) return NULL;
  const char* slash = strrchr(self.dli_fname, '/');
  const int folder = slash != NULL ? (int)(slash - self.dli_fname) + 1 : 0;
  char why[1024] = "";
  void* handle = NULL;
  for (size_t i = 0; i < sizeof kPlaces / sizeof kPlaces[0] && handle == NULL; ++i) {
    snprintf(path, sizeof path, "%.*s%s" RINGPRESS_ENGINE_FILE, folder, self.dli_fname, kPlaces[i]);
    if (i > 0 && access(path, F_OK) != 0) continue; /* What was wrong with the first one counts. */
    const char* problem = ringpress_why_not_open(path);
    if (problem == NULL) handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (problem != NULL) snprintf(why, sizeof why, "%.*s: %s", (int)sizeof why - 64, path, problem);
    if (problem == NULL && handle == NULL) snprintf(why, sizeof why, "%s", dlerror());
  }
  if (handle == NULL) {
    ringpress_preload_warn("nothing is compressed: the engine cannot be loaded: %s", why);
  }
  return handle;
}

static int is_switched_off(void) {
  const char* mode = secure_getenv("RINGPRESS");
  return mode != NULL && strcmp(mode, "off") == 0;
}

static void open_engine(void) {
  if (getauxval(AT_SECURE) != 0 || real_library == NULL || is_switched_off()) return;
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
  const int is_watched = pthread_atfork(NULL, NULL, after_fork) == 0;
  __atomic_store_n(&has_engine, is_watched, __ATOMIC_RELEASE);
}

/* The hook of an intercepted function, else null. */
static void* hook_of(const char* name) {
#define RINGPRESS_HOOK(short_name) \
  if (strcmp(name, "nccl" #short_name) == 0) return (void*)hook_##short_name;
  RINGPRESS_INTERCEPTED(RINGPRESS_HOOK)
#undef RINGPRESS_HOOK
  return NULL;
}

/* True for what makes ids and communicators. */
static int opens_engine(const char* name) {
  return strcmp(name, "ncclGetUniqueId") == 0 || strcmp(name, "ncclCommGrow") == 0 ||
         strncmp(name, "ncclCommInit", 12) == 0;
}

/* Called by the trampolines with a function's number; returns where the call goes. */
void* ringpress_preload_resolve(size_t index) {
  static pthread_once_t library_once = PTHREAD_ONCE_INIT;
  static pthread_once_t engine_once = PTHREAD_ONCE_INIT;
  const char* name = kFunctions[index].name;
  pthread_once(&library_once, find_library);
  void* target = real_function(name);
  if (target == NULL) return find_absent(index); /* The slot stays: each call says what it was. */
  if (strcmp(name, "ncclSetEncryption") == 0) {
    __atomic_store_n((void**)&real_set_encryption, target, __ATOMIC_RELEASE);
    target = (void*)hook_SetEncryption;
  }
  void* const hook = hook_of(name);
  if (hook != NULL) {
    if (strncmp(name, "ncclCommInit", 12) == 0) tell_of_fork();
    if (is_inside || is_forked) return target; /* The slot is left for a call from outside. */
    /* While the engine is being opened nobody else's first call comes through here: not this
     * thread's, for it is inside. */
    if (opens_engine(name)) {
      is_inside = 1;
      pthread_once(&engine_once, open_engine);
      is_inside = 0;
    }
    target = hook;
  }
  __atomic_store_n(&ringpress_preload_slots[index], target, __ATOMIC_RELEASE);
  return target;
}
