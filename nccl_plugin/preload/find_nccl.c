#define _GNU_SOURCE
#include "nccl_plugin/preload/find_nccl.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 4096
/* The text before ncclGetVersion in every shim; see generate.py. */
static const char kMark[16] = "ringpress shim 1";

/* The shim says nothing that is worse than a warning. */
static int is_silent(void) {
  const char* least = secure_getenv("RINGPRESS_DEBUG");
  return least != NULL && strcmp(least, "error") == 0;
}

void ringpress_preload_warn(const char* format, ...) {
  char line[1024];
  if (is_silent()) return;
  int used = snprintf(line, 64, "ringpress [%d] WARN ", (int)getpid());
  va_list arguments;
  va_start(arguments, format);
  const int wanted = vsnprintf(line + used, sizeof line - 80, format, arguments);
  va_end(arguments);
  if (wanted > 0) used += wanted < (int)sizeof line - 81 ? wanted : (int)sizeof line - 81;
  line[used++] = '\n';
  const ssize_t written = write(STDERR_FILENO, line, (size_t)used);
  (void)written;
}

static int is_shim(const void* get_version) {
  return memcmp((const char*)get_version - sizeof kMark, kMark, sizeof kMark) == 0;
}

/* The handle, if it is of an NCCL that is not a shim; else null, and it is closed. */
static void* checked(void* handle) {
  if (handle == NULL) return NULL;
  const void* get_version = dlsym(handle, "ncclGetVersion");
  if (get_version != NULL && !is_shim(get_version)) return handle;
  dlclose(handle);
  return NULL;
}

/* True unless segments of a library of this machine's kind lie behind the end of its file. */
static int holds_its_segments(int file, off_t bytes) {
  ElfW(Ehdr) header;
  if (pread(file, &header, sizeof header, 0) != (ssize_t)sizeof header) return 1;
  const int is_native =
      memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_phentsize == sizeof(ElfW(Phdr));
  for (size_t i = 0; is_native && i < header.e_phnum; ++i) {
    ElfW(Phdr) segment;
    const off_t place = (off_t)(header.e_phoff + i * sizeof segment);
    if (pread(file, &segment, sizeof segment, place) != (ssize_t)sizeof segment) return 0;
    if (segment.p_type != PT_LOAD) continue;
    const ElfW(Off) end = segment.p_offset + segment.p_filesz;
    if (end < segment.p_offset || end > (ElfW(Off))bytes) return 0;
  }
  return 1;
}

/* With what is no file the linker might wait, and of a library that is cut short it maps what is
 * not there. */
const char* ringpress_why_not_open(const char* path) {
  struct stat found;
  if (stat(path, &found) != 0) return NULL;
  if (!S_ISREG(found.st_mode)) return "it is no regular file";
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return NULL;
  const int is_whole = holds_its_segments(file, found.st_size);
  close(file);
  return is_whole ? NULL : "it is cut short";
}

static void* open_file(const char* path) {
  if (access(path, R_OK) != 0 || ringpress_why_not_open(path) != NULL) return NULL;
  return checked(dlopen(path, RTLD_LAZY | RTLD_LOCAL));
}

static void* find_named(void) {
  const char* path = secure_getenv("RINGPRESS_REAL_NCCL");
  if (path == NULL || path[0] == '\0') return NULL;
  if (path[0] != '/') {
    ringpress_preload_warn("RINGPRESS_REAL_NCCL=%s: must be an absolute path", path);
    return NULL;
  }
  void* handle = open_file(path);
  if (handle != NULL) return handle;
  const char* why = dlerror();
  if (why == NULL) why = ringpress_why_not_open(path);
  if (why == NULL) why = "it cannot be read, has no ncclGetVersion, or is ringpress's own";
  ringpress_preload_warn("RINGPRESS_REAL_NCCL=%s is not an NCCL library: %s", path, why);
  return NULL;
}

static void* find_next(void) {
  const void* get_version = dlsym(RTLD_NEXT, "ncclGetVersion");
  Dl_info info;
  if (get_version == NULL || is_shim(get_version)) return NULL;
  if (dladdr(get_version, &info) == 0 || info.dli_fname == NULL) return NULL;
  return checked(dlopen(info.dli_fname, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD));
}

#define MOST_FOUND 8
typedef struct {
  char found[MOST_FOUND][PATH_BYTES];
  int count;
  enum Where {
    kLoaded,  /* Libraries of that name that are loaded. */
    kRpath,   /* In the folders that the program, or who needs it, names in DT_RPATH, ... */
    kRunpath, /* ... or in DT_RUNPATH. */
    kBeside   /* Beside loaded libraries, as wheels lie in site-packages. */
  } where;
  int is_program; /* The next object is the program: it comes first. */
} Search;

static void take_beside(const char* library, int folder, Search* search) {
  static const char* const kFolders[] = {"../../nvidia/nccl/lib", "../nvidia/nccl/lib",
                                         "../../nccl/lib"};
  for (size_t i = 0; i < sizeof kFolders / sizeof *kFolders && search->count < MOST_FOUND; ++i) {
    char* path = search->found[search->count];
    snprintf(path, PATH_BYTES, "%.*s/%s/libnccl.so.2", folder, library, kFolders[i]);
    search->count += access(path, R_OK) == 0;
  }
}

/* The folder of an object, without a slash at its end. */
static void find_origin(const char* object, int is_program, char* origin) {
  snprintf(origin, PATH_BYTES, "%s", object);
  if (is_program) {
    const ssize_t used = readlink("/proc/self/exe", origin, PATH_BYTES - 1);
    origin[used > 0 ? used : 0] = '\0';
  }
  char* slash = strrchr(origin, '/');
  *(slash != NULL ? slash : origin) = '\0';
}

/* Appends to the search what lies in the folders, "one:$ORIGIN/two". */
static void take_folders(const char* folders, const char* origin, Search* search) {
  static const char* const kOrigins[] = {"$ORIGIN", "${ORIGIN}"};
  for (const char* next = folders; *next != '\0' && search->count < MOST_FOUND;) {
    const size_t length = strcspn(next, ":");
    size_t skipped = 0;
    for (size_t i = 0; i < sizeof kOrigins / sizeof *kOrigins; ++i) {
      if (strncmp(next, kOrigins[i], strlen(kOrigins[i])) == 0) skipped = strlen(kOrigins[i]);
    }
    char* path = search->found[search->count];
    const int used = snprintf(path, PATH_BYTES, "%s%.*s/libnccl.so.2", skipped > 0 ? origin : "",
                              (int)(length - skipped), next + skipped);
    search->count += length > 0 && used < PATH_BYTES && access(path, R_OK) == 0;
    next += length + (next[length] != '\0');
  }
}

/* What the linker has read of an object; offsets are into its texts. */
typedef struct {
  const char* texts;
  size_t rpath, runpath; /* 0: it has none. */
  int needs_nccl;
} Dynamic;

static int is_nccl(const char* name) {
  return strncmp(name, "libnccl.so", 10) == 0;
}

static Dynamic read_dynamic(const struct dl_phdr_info* info) {
  Dynamic dynamic = {NULL, 0, 0, 0};
  const ElfW(Dyn)* first = NULL;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* header = &info->dlpi_phdr[i];
    if (header->p_type != PT_DYNAMIC) continue;
    first = (const ElfW(Dyn)*)(info->dlpi_addr + header->p_vaddr);
  }
  for (const ElfW(Dyn)* entry = first; entry != NULL && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_RUNPATH) dynamic.runpath = entry->d_un.d_val;
    if (entry->d_tag == DT_RPATH) dynamic.rpath = entry->d_un.d_val;
    if (entry->d_tag != DT_STRTAB) continue;
    /* The linker has made an address of it, but not on all machines. */
    const int is_address = entry->d_un.d_ptr >= info->dlpi_addr;
    dynamic.texts = (const char*)(entry->d_un.d_ptr + (is_address ? 0 : info->dlpi_addr));
  }
  if (dynamic.texts == NULL) return (Dynamic){NULL, 0, 0, 0};
  for (const ElfW(Dyn)* entry = first; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_NEEDED) dynamic.needs_nccl |= is_nccl(dynamic.texts + entry->d_un.d_val);
  }
  if (dynamic.runpath != 0) dynamic.rpath = 0; /* As the linker does. */
  return dynamic;
}

/* What an object was linked with lies where it says: as the shim stands in for a library of that
   name, the linker has not looked. */
static void take_run_path(const struct dl_phdr_info* info, int is_program, Search* search) {
  char origin[PATH_BYTES];
  const Dynamic dynamic = read_dynamic(info);
  const size_t place = search->where == kRpath ? dynamic.rpath : dynamic.runpath;
  if (place == 0 || !(is_program || dynamic.needs_nccl)) return;
  find_origin(info->dlpi_name, is_program, origin);
  take_folders(dynamic.texts + place, origin, search);
}

/* dl_iterate_phdr() holds a lock of the linker's, so nothing is opened in here. */
static int look_at_loaded(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size;
  Search* search = data;
  const int is_program = search->is_program;
  search->is_program = 0;
  if (search->where == kRpath || search->where == kRunpath) {
    take_run_path(info, is_program, search);
    return search->count == MOST_FOUND;
  }
  const char* slash = strrchr(info->dlpi_name, '/');
  if (slash == NULL || slash - info->dlpi_name > PATH_BYTES - 64) return 0;
  if (search->where == kBeside) {
    take_beside(info->dlpi_name, (int)(slash - info->dlpi_name), search);
  } else if (is_nccl(slash + 1)) {
    snprintf(search->found[search->count++], PATH_BYTES, "%s", info->dlpi_name);
  }
  return search->count == MOST_FOUND;
}

static void* find_among_loaded(enum Where where) {
  Search search = {{""}, 0, where, 1};
  void* handle = NULL;
  dl_iterate_phdr(look_at_loaded, &search);
  for (int i = 0; i < search.count && handle == NULL; ++i) handle = open_file(search.found[i]);
  return handle;
}

static void* find_in_library_path(void) {
  const char* folders = secure_getenv("LD_LIBRARY_PATH");
  char path[PATH_BYTES];
  while (folders != NULL && *folders != '\0') {
    const size_t length = strcspn(folders, ":;");
    if (length > 0 && length < PATH_BYTES - 32) {
      snprintf(path, sizeof path, "%.*s/libnccl.so.2", (int)length, folders);
      void* handle = open_file(path);
      if (handle != NULL) return handle;
    }
    folders += length + (folders[length] != '\0');
  }
  return NULL;
}

static void* find_by_pattern(const char* folder, const char* pattern) {
  char path[PATH_BYTES];
  glob_t found;
  void* handle = NULL;
  if (folder == NULL || folder[0] == '\0') return NULL;
  snprintf(path, sizeof path, pattern, folder);
  if (glob(path, 0, NULL, &found) != 0) return NULL;
  for (size_t i = 0; i < found.gl_pathc && handle == NULL; ++i)
    handle = open_file(found.gl_pathv[i]);
  globfree(&found);
  return handle;
}

static void* find_installed(void) {
  static const char kWheel[] = "%s/lib/python3*/site-packages/nvidia/*/lib/libnccl.so.2";
  static const char kDebian[] = "%s/lib/python3*/dist-packages/nvidia/*/lib/libnccl.so.2";
  static const char kPlain[] = "%s/libnccl.so.2";
  static const char* const kFolders[] = {"/usr/lib/" MACHINE "-linux-gnu", "/usr/lib64",
                                         "/usr/local/lib", "/usr/local/cuda/lib64",
                                         "/opt/nvidia/nccl/lib"};
  const char* const roots[] = {secure_getenv("VIRTUAL_ENV"), secure_getenv("CONDA_PREFIX"),
                               "/usr/local", "/usr"};
  void* handle = find_by_pattern(secure_getenv("CONDA_PREFIX"), "%s/lib/libnccl.so.2");
  for (size_t i = 0; i < 4 && handle == NULL; ++i) {
    handle = find_by_pattern(roots[i], kWheel);
    if (handle == NULL) handle = find_by_pattern(roots[i], kDebian);
  }
  for (size_t i = 0; i < sizeof kFolders / sizeof *kFolders && handle == NULL; ++i) {
    handle = find_by_pattern(kFolders[i], kPlain);
  }
  return handle;
}

/* The linker's order: RPATH, LD_LIBRARY_PATH, RUNPATH. */
void* ringpress_find_nccl(void) {
  void* handle = find_named();
  if (handle == NULL) handle = find_next();
  if (handle == NULL) handle = checked(dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD));
  if (handle == NULL) handle = find_among_loaded(kLoaded);
  if (handle == NULL) handle = find_among_loaded(kRpath);
  if (handle == NULL) handle = find_in_library_path();
  if (handle == NULL) handle = find_among_loaded(kRunpath);
  if (handle == NULL) handle = find_among_loaded(kBeside);
  if (handle == NULL) handle = checked(dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL));
  if (handle == NULL) handle = find_installed();
  return handle;
}
