/* Files replaced as a whole: what is there already, and what must be left alone. */
#include "config.h"

#include "replacefile.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64], path[96], other[96];

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/adl-replace-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    (void)snprintf(path, sizeof(path), "%s/file", folder);
    (void)snprintf(other, sizeof(other), "%s/other", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    if (unlink(path) != 0)
        (void)rmdir(path);
    (void)unlink(other);
    return rmdir(folder); /* fails if something was left beside them */
}

static void assert_holds(const char *file, const char *text)
{
    char got[32] = "";
    FILE *f = fopen(file, "r");

    assert_non_null(f);
    assert_int_equal(fread(got, 1, sizeof(got) - 1, f), strlen(text));
    (void)fclose(f);
    assert_string_equal(got, text);
}

static void test_new_and_old(void **state)
{
    struct stat st;

    (void)state;
    assert_int_equal(replacefile(path, "one", 3, true), 0);
    assert_holds(path, "one");
    assert_int_equal(replacefile(path, "two", 3, false), 0);
    assert_holds(path, "two");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
}

static void assert_refused(int why, mode_t kind)
{
    struct stat st;

    errno = 0;
    assert_int_equal(replacefile(path, "x", 1, false), -1);
    assert_int_equal(errno, why);
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_mode & S_IFMT, kind);
}

static void test_no_regular_file(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_refused(EEXIST, S_IFIFO);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(replacefile(other, "kept", 4, false), 0);
    assert_int_equal(symlink(other, path), 0);
    assert_refused(EEXIST, S_IFLNK);
    assert_holds(other, "kept");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_refused(EISDIR, S_IFDIR);
}

static void test_device(void **state)
{
    (void)state;
    if (mknod(path, S_IFCHR | 0600, (dev_t)0x103) != 0) /* null: root may make one */
        skip();
    assert_refused(EEXIST, S_IFCHR);
}

static void test_no_room(void **state)
{
    char long_path[5000];

    (void)state;
    memset(long_path, 'a', sizeof(long_path) - 1);
    long_path[sizeof(long_path) - 1] = '\0';
    assert_int_equal(replacefile(long_path, "x", 1, false), -1);
    assert_int_equal(errno, ENAMETOOLONG);
    assert_int_equal(replacefile("/proc/no/such/folder", "x", 1, false), -1);
}

int main(void)
{
#define T(t) cmocka_unit_test_setup_teardown(t, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {T(test_new_and_old), T(test_no_regular_file), T(test_device),
                                       T(test_no_room)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
