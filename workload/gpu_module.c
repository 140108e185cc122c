/* Finding and loading the module that knows CUDA. */
#include "config.h"

#include "gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME  "adltrain_cuda.so"
#define PATH_BYTES 4096

/* In a build tree the module lies beside the program, in .libs; otherwise where it is installed. */
static bool find_module(char path[PATH_BYTES])
{
    ssize_t n = readlink("/proc/self/exe", path, PATH_BYTES - sizeof "/" FILE_NAME - 1);
    char *slash;

    if (n > 0) {
        path[n] = '\0';
        slash = strrchr(path, '/');
        if (slash != NULL && slash - path >= 6 && strncmp(slash - 6, "/.libs", 6) == 0) {
            (void)strcpy(slash, "/" FILE_NAME);
            if (access(path, R_OK) == 0)
                return true;
        }
    }
    return snprintf(path, PATH_BYTES, "%s/%s", ADL_PKGLIBDIR, FILE_NAME) < PATH_BYTES &&
           access(path, R_OK) == 0;
}

static struct gpu *refuse(const struct gpu_owner *owner, const char *what, const char *detail)
{
    char sentence[GPU_ERROR_MAX];

    (void)snprintf(sentence, sizeof sentence, "--gpu=cuda: %s%.300s; use --gpu=emulated", what,
                   detail);
    owner->complain(sentence);
    return NULL;
}

struct gpu *gpu_cuda_open(const struct gpu_work *work, const struct gpu_owner *owner)
{
    const struct gpu_module *module;
    char path[PATH_BYTES];
    void *library;

    if (!find_module(path))
        return refuse(owner, "adltrain was built without CUDA, there is no ",
                      ADL_PKGLIBDIR "/" FILE_NAME);
    /* never closed: CUDA's own threads and handlers outlive any use of it */
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return refuse(owner, "the module cannot be loaded: ", dlerror());
    module = dlsym(library, GPU_MODULE_SYMBOL);
    if (module == NULL || module->version != GPU_MODULE_VERSION)
        return refuse(owner, "the module is of another version of adltrain: ", path);
    return module->open(work, owner);
}
