/* The exported topology is taken from files that nobody else can have written, and from nothing
 * else. */
#include "config.h"

#include "exported.h"

#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

static const char *file(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *text, mode_t mode)
{
    int fd = open(file(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/adl-test-exported-XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    static const char *const names[] = {"topology.xml", "topology.digest", "elsewhere"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unlink(file(names[i]));
    return rmdir(folder);
}

static void expect_refused(void)
{
    struct exported xml;
    char digest[65];
    assert_int_equal(exported_open(&xml, folder), -1);
    assert_int_equal(exported_digest(folder, digest, sizeof digest), -1);
    assert_string_equal(digest, "");
}

static void our_own_file_is_read(void **state)
{
    struct exported xml;
    char digest[65];
    (void)state;
    write_file("topology.xml", "<topology/>", 0644);
    write_file("topology.digest", "00ff\n", 0644);
    assert_int_equal(exported_open(&xml, folder), 0);
    assert_int_equal(xml.length, 11);
    assert_memory_equal(xml.text, "<topology/>", 11);
    exported_close(&xml);
    assert_int_equal(exported_digest(folder, digest, sizeof digest), 0);
    assert_string_equal(digest, "00ff");
}

static void what_others_may_write_is_not_believed(void **state)
{
    (void)state;
    expect_refused(); /* there is none */
    write_file("topology.xml", "<topology/>", 0664);
    write_file("topology.digest", "00ff\n", 0646);
    expect_refused();
}

static void a_link_or_a_pipe_is_no_file(void **state)
{
    (void)state;
    write_file("elsewhere", "00ff\n", 0644);
    char target[128];
    snprintf(target, sizeof target, "%s", file("elsewhere"));
    assert_int_equal(symlink(target, file("topology.xml")), 0);
    assert_int_equal(symlink(target, file("topology.digest")), 0);
    expect_refused();
    unlink(file("topology.xml"));
    unlink(file("topology.digest"));
    assert_int_equal(mkfifo(file("topology.xml"), 0644), 0);
    assert_int_equal(mkfifo(file("topology.digest"), 0644), 0);
    expect_refused(); /* and does not wait for a writer */
}

static void another_user_s_file_is_not_believed(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    write_file("topology.xml", "<topology/>", 0644);
    write_file("topology.digest", "00ff\n", 0644);
    assert_int_equal(chown(file("topology.xml"), 65534, 65534), 0);
    assert_int_equal(chown(file("topology.digest"), 65534, 65534), 0);
    expect_refused();
}

static void a_large_one_is_not_read(void **state)
{
    struct exported xml;
    (void)state;
    write_file("topology.xml", "<topology/>", 0644);
    assert_int_equal(truncate(file("topology.xml"), (off_t)WIRE_LARGE_FRAME), 0);
    assert_int_equal(exported_open(&xml, folder), -1);
    assert_int_equal(errno, EFBIG);
    assert_int_equal(truncate(file("topology.xml"), 0), 0);
    assert_int_equal(exported_open(&xml, folder), -1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(our_own_file_is_read),        T(what_others_may_write_is_not_believed),
        T(a_link_or_a_pipe_is_no_file), T(another_user_s_file_is_not_believed),
        T(a_large_one_is_not_read),
    };
    return cmocka_run_group_tests_name("exported", tests, NULL, NULL);
}
