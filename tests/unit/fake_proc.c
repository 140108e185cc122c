/* A /proc tree that a test lays out. See fake_proc.h. */
#include "config.h"

#include "fake_proc.h"

#include <ftw.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[64];

static int drop_entry(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)st, (void)type, (void)where;
    return remove(path);
}

const char *fake_proc_begin(void)
{
    (void)snprintf(root, sizeof root, "/tmp/adl-test-proc-XXXXXX");
    assert_non_null(mkdtemp(root));
    fake_proc_text("/proc/self/mountinfo", "1 1 0:1 / / rw - ext4 /dev/vda rw\n");
    fake_proc_text("/dev/nvidiactl", "");
    return root;
}

void fake_proc_end(void)
{
    (void)nftw(root, drop_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *fake_proc_root(void)
{
    return root;
}

void fake_proc_drop(const char *entry)
{
    char path[128];

    (void)snprintf(path, sizeof path, "%s/proc/%s", root, entry);
    (void)nftw(path, drop_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void put_bytes(const char *path, const char *bytes, size_t length)
{
    char full[512];
    FILE *f;

    (void)snprintf(full, sizeof full, "%s%s", root, path);
    for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = '\0';
        (void)mkdir(full, 0755);
        *p = '/';
    }
    f = fopen(full, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, length, f), length);
    assert_int_equal(fclose(f), 0);
}

void fake_proc_text(const char *path, const char *text)
{
    put_bytes(path, text, strlen(text));
}

/* All fields up to the 28th, where the stack begins, and a few more. */
static void put_stat(const char *directory, const struct fake_task *t)
{
    char path[160], text[1024];

    (void)snprintf(path, sizeof path, "%s/stat", directory);
    (void)snprintf(text, sizeof text,
                   "%d (%s) %c %d 1 1 0 -1 4194304 0 0 0 0 %" PRIu64 " 0 0 0 20 0 %u 0 %" PRIu64
                   " 1000000 500 18446744073709551615 4194304 8388608 %" PRIu64 " 0 0 0 0\n",
                   (int)t->tid, t->comm, t->state != 0 ? t->state : 'S', (int)t->ppid, t->cpu_ticks,
                   t->threads > 0 ? t->threads : 1, t->start_ticks, t->stack);
    fake_proc_text(path, text);
}

static void link_to(const char *path, const char *target)
{
    char full[512];

    (void)snprintf(full, sizeof full, "%s%s", root, path);
    (void)unlink(full);
    assert_int_equal(symlink(target, full), 0);
}

static void put_thread(const struct fake_task *t)
{
    char directory[96], path[160], text[256];

    (void)snprintf(directory, sizeof directory, "/proc/%d/task/%d", (int)t->pid, (int)t->tid);
    put_stat(directory, t);
    (void)snprintf(path, sizeof path, "%s/schedstat", directory);
    (void)snprintf(text, sizeof text, "%" PRIu64 " 0 1\n", t->run_ns);
    fake_proc_text(path, text);
    (void)snprintf(path, sizeof path, "%s/io", directory);
    (void)snprintf(text, sizeof text,
                   "rchar: %" PRIu64 "\nwchar: %" PRIu64 "\nsyscr: 1\nsyscw: 1\nread_bytes: 0\n",
                   t->read_chars, t->written_chars);
    fake_proc_text(path, text);
}

static void put_process(const struct fake_task *t)
{
    char directory[96], path[256], full[512], arguments[512];
    size_t length = strlen(t->arguments);

    (void)snprintf(directory, sizeof directory, "/proc/%d", (int)t->pid);
    put_stat(directory, t);
    (void)snprintf(path, sizeof path, "%s/cgroup", directory);
    fake_proc_text(path, "0::/\n");
    (void)snprintf(arguments, sizeof arguments, "%s", t->arguments);
    for (char *p = arguments; (p = strchr(p, ' ')) != NULL;)
        *p = '\0';
    (void)snprintf(path, sizeof path, "%s/cmdline", directory);
    put_bytes(path, arguments, length + 1);
    (void)snprintf(path, sizeof path, "/bin/%s", t->program);
    fake_proc_text(path, "program");
    (void)snprintf(full, sizeof full, "%s/bin/%s", root, t->program);
    (void)snprintf(path, sizeof path, "%s/exe", directory);
    link_to(path, full);
    if (t->gpu_files > 0) {
        (void)snprintf(path, sizeof path, "%s/fd/0", directory); /* and with it the directory */
        fake_proc_text(path, "");
    }
    for (unsigned i = 0; i < t->gpu_files; i++) {
        (void)snprintf(path, sizeof path, "%s/fd/%u", directory, 8 + i);
        link_to(path, "/dev/nvidia0");
    }
}

void fake_proc_task(const struct fake_task *t)
{
    put_thread(t);
    if (t->tid == t->pid)
        put_process(t);
}
