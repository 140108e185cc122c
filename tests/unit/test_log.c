/* Messages for people: one clean line each, at the wanted level, to the wanted place. */
#include "clock.h"
#include "log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static enum log_level last_level;
static char last_line[4096];
static int lines;

static void remember(enum log_level level, const char *line)
{
    last_level = level;
    (void)snprintf(last_line, sizeof(last_line), "%s", line);
    lines++;
    errno = EIO; /* a sink may spoil errno; its caller must not notice */
}

static int to_sink(void **state)
{
    (void)state;
    log_to_sink(remember);
    log_set_level(LOG_LEVEL_DEBUG);
    lines = 0;
    last_line[0] = '\0';
    return 0;
}

static int to_default(void **state)
{
    (void)state;
    log_to_stderr(NULL);
    log_set_level(LOG_LEVEL_INFO);
    return 0;
}

static void levels_filter(void **state)
{
    (void)state;
    static void (*const write_at[])(const char *, ...) = {log_error, log_warning, log_info,
                                                          log_debug};
    for (int limit = LOG_LEVEL_ERROR; limit <= LOG_LEVEL_DEBUG; limit++) {
        log_set_level((enum log_level)limit);
        assert_int_equal(log_get_level(), limit);
        for (int level = LOG_LEVEL_ERROR; level <= LOG_LEVEL_DEBUG; level++) {
            lines = 0;
            write_at[level]("number %d", level);
            assert_int_equal(lines, level <= limit);
            if (lines)
                assert_int_equal(last_level, level);
        }
    }
}

static void lines_cannot_be_forged(void **state)
{
    (void)state;
    log_info("user \"%s\"", "a\nerror: root\r\x1b[31m\x7f\tx");
    assert_string_equal(last_line, "user \"a?error: root??[31m??x\"");
    log_info("%s", "gr\xc3\xbc\xc3\x9f\x65 \xc2\x9b\x31m \xc2\xa0"); /* C1's CSI goes, text stays */
    assert_string_equal(last_line, "gr\xc3\xbc\xc3\x9f\x65 ??1m \xc2\xa0");
    log_info("%s",
             "\xc2"); /* cut in the middle of a character: no byte behind the end is looked at */
    assert_string_equal(last_line, "\xc2");
}

static void long_lines_are_cut_visibly(void **state)
{
    (void)state;
    char text[5000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    log_error("%s", text);
    size_t length = strlen(last_line);
    assert_in_range(length, 500, 2000);
    assert_string_equal(last_line + length - 4, "x...");
}

static void errno_is_kept(void **state)
{
    (void)state;
    errno = ENOENT;
    log_error("something");
    assert_int_equal(errno, ENOENT);
    log_set_level(LOG_LEVEL_ERROR);
    log_debug("nothing");
    assert_int_equal(errno, ENOENT);
}

static void level_names_read_back(void **state)
{
    (void)state;
    for (int level = LOG_LEVEL_ERROR; level <= LOG_LEVEL_DEBUG; level++)
        assert_int_equal(log_level_parse(log_level_name((enum log_level)level)), level);
    assert_int_equal(log_level_parse("WARNING"), LOG_LEVEL_WARNING);
    assert_int_equal(log_level_parse("loud"), -1);
    assert_int_equal(log_level_parse(""), -1);
    assert_int_equal(log_level_parse(NULL), -1);
}

/* What the call writes to file descriptor 2. */
static void capture(void (*call)(void), char *buf, size_t size)
{
    int ends[2], saved = dup(STDERR_FILENO);
    assert_true(saved >= 0);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    call();
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    assert_int_equal(close(ends[1]), 0);
    ssize_t n = read(ends[0], buf, size - 1);
    assert_true(n >= 0);
    buf[n] = '\0';
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(close(saved), 0);
}

static void write_with_ident(void)
{
    log_to_stderr("prog");
    log_set_level(LOG_LEVEL_INFO);
    log_warning("disk %s", "full");
    log_debug("unseen");
}

static void write_without_ident(void)
{
    log_to_stderr(NULL);
    log_info("hello");
}

static void stderr_lines(void **state)
{
    (void)state;
    char text[256];
    capture(write_with_ident, text, sizeof(text));
    assert_string_equal(text, "prog: warning: disk full\n");
    capture(write_without_ident, text, sizeof(text));
    assert_string_equal(text, "info: hello\n");
}

static void clocks_agree_with_the_system(void **state)
{
    (void)state;
    uint64_t ns = clock_monotonic_ns(), ms = clock_monotonic_ms(), later = clock_monotonic_ns();
    assert_true(ns / 1000000 <= ms && ms <= later / 1000000);
    time_t before = time(NULL);
    uint64_t wall = clock_wall_s();
    time_t after = time(NULL) + 1; /* time() may read a coarser clock, a tick behind */
    assert_in_range(wall, (uint64_t)before, (uint64_t)after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(levels_filter, to_sink, to_default),
        cmocka_unit_test_setup_teardown(lines_cannot_be_forged, to_sink, to_default),
        cmocka_unit_test_setup_teardown(long_lines_are_cut_visibly, to_sink, to_default),
        cmocka_unit_test_setup_teardown(errno_is_kept, to_sink, to_default),
        cmocka_unit_test(level_names_read_back),
        cmocka_unit_test_teardown(stderr_lines, to_default),
        cmocka_unit_test(clocks_agree_with_the_system),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
