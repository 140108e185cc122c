/*
 * Preloaded into slurmstepd or srun: refuses memory, or a thread, to the plugin alone.
 *
 * The file that ADL_NO_MEMORY names says what: "FIRST LAST", the plugin's allocations from the
 * FIRST to the LAST are refused, counted from 1 in each process; or "thread": it gets no thread.
 * Without the file nothing is refused. What an allocation is for is written to that name with
 * ".log", a line each: process, count, refused or given, the offset of the outermost function of
 * the plugin on the stack, and "main" or "thread". What a library allocates for it counts as the
 * plugin's, but for Slurm's own.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static bool active, refuse_thread;
static unsigned first, last;
static char log_path[256];
static atomic_uint count;
static _Atomic uintptr_t low, high; /* of the plugin's code */
static __thread bool looking;

static int find_plugin(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    if (strstr(info->dlpi_name, "spank_adloader.so") == NULL)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X) != 0) {
            high = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
            low = info->dlpi_addr;
        }
    return 1;
}

static bool in_plugin(const void *address)
{
    return low != 0 && (uintptr_t)address >= low && (uintptr_t)address < high;
}

static bool in_slurm(const void *address)
{
    Dl_info info;
    const char *name;

    if (dladdr(address, &info) == 0 || info.dli_fname == NULL)
        return false;
    name = strrchr(info.dli_fname, '/');
    name = name != NULL ? name + 1 : info.dli_fname;
    return strncmp(name, "libslurm", 8) == 0 || strncmp(name, "slurmstepd", 10) == 0 ||
           strncmp(name, "srun", 4) == 0;
}

/* Whether the plugin, or a library that it calls, asks: the offset of its outermost function on the
 * stack, else 0. What Slurm asks for on its behalf is not counted: Slurm ends if it gets nothing.
 */
static uintptr_t plugin_offset(void)
{
    void *frames[48];
    int n = backtrace(frames, 48), i = 0;

    if (low == 0)
        (void)dl_iterate_phdr(find_plugin, NULL);
    while (i < n && !in_plugin(frames[i]) && !in_slurm(frames[i]))
        i++;
    if (i == n || !in_plugin(frames[i]))
        return 0;
    for (i = n; !in_plugin(frames[i - 1]);)
        i--;
    return (uintptr_t)frames[i - 1] - low;
}

static void tell(unsigned n, bool refused, uintptr_t offset)
{
    char line[128];
    int fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int length = snprintf(line, sizeof(line), "%d %u %s %lx %s\n", (int)getpid(), n,
                          refused ? "refused" : "given", (unsigned long)offset,
                          syscall(SYS_gettid) == getpid() ? "main" : "thread");

    if (fd >= 0) {
        if (write(fd, line, (size_t)length) < 0)
            _exit(99);
        (void)close(fd);
    }
}

static bool refused(void)
{
    int error = errno;
    uintptr_t offset;
    unsigned n;
    bool no = false;

    if (!active || looking)
        return false;
    looking = true;
    offset = plugin_offset();
    if (offset != 0) {
        n = ++count;
        no = !refuse_thread && n >= first && n <= last;
        tell(n, no, offset);
    }
    looking = false;
    errno = no ? ENOMEM : error;
    return no;
}

void *malloc(size_t size)
{
    return refused() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return refused() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
    return refused() ? NULL : __libc_realloc(old, size);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *),
                   void *arg)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

    if (active && refuse_thread && !looking && plugin_offset() != 0) {
        tell(0, true, plugin_offset());
        return EAGAIN;
    }
    if (real == NULL)
        real = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(
            RTLD_NEXT, "pthread_create");
    return real(thread, attributes, function, arg);
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("ADL_NO_MEMORY");
    char text[64];
    void *frames[4];
    ssize_t length;
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    if (fd < 0)
        return;
    length = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    if (length <= 0)
        return;
    text[length] = '\0';
    (void)snprintf(log_path, sizeof(log_path), "%s.log", path);
    refuse_thread = strncmp(text, "thread", 6) == 0;
    if (!refuse_thread && sscanf(text, "%u %u", &first, &last) != 2)
        return;
    (void)backtrace(frames, 4); /* has it load what it needs */
    active = true;
}
