/* The tool's pure parts: suggestions, addresses, job names, ages, tables. */
#include "client.h"
#include "status.h"
#include "suggest.h"
#include "table.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Independent oracle of the distance: by its definition, recursively, for short words. */
static size_t slow_distance(const char *a, size_t la, const char *b, size_t lb)
{
    if (la == 0 || lb == 0)
        return la + lb;
    size_t best = slow_distance(a, la - 1, b, lb - 1) + (a[la - 1] != b[lb - 1]);
    size_t other = slow_distance(a, la - 1, b, lb) + 1;
    best = other < best ? other : best;
    other = slow_distance(a, la, b, lb - 1) + 1;
    best = other < best ? other : best;
    if (la > 1 && lb > 1 && a[la - 1] == b[lb - 2] && a[la - 2] == b[lb - 1]) {
        other = slow_distance(a, la - 2, b, lb - 2) + 1;
        best = other < best ? other : best;
    }
    return best;
}

/* All pairs of words of up to 4 letters out of "ab", and some real ones. */
static void distance_is_that_of_its_definition(void **state)
{
    char words[31][5];
    size_t n = 0;

    (void)state;
    for (size_t length = 0; length <= 4; length++)
        for (size_t bits = 0; bits < (size_t)1 << length; bits++, n++) {
            for (size_t i = 0; i < length; i++)
                words[n][i] = bits >> i & 1 ? 'b' : 'a';
            words[n][length] = '\0';
        }
    assert_int_equal(n, 31);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            assert_int_equal(suggest_distance(words[i], words[j]),
                             slow_distance(words[i], strlen(words[i]), words[j], strlen(words[j])));
    assert_int_equal(suggest_distance("sttaus", "status"), 1);
    assert_int_equal(suggest_distance("", "topology"), 8);

    char longest[70];
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_true(suggest_distance(longest, "x") == SIZE_MAX);
    longest[64] = '\0';
    assert_int_equal(suggest_distance(longest, "x"), 63);
}

static void suggestions_are_the_nearest_first(void **state)
{
    static const char *const names[] = {"status", "top", "topology", "explain", "stats"};
    static const struct {
        const char *word, *text;
    } cases[] = {
        {"statsu", " Did you mean --status or --stats?"},
        {"explian", " Did you mean --explain?"},
        {"topo", " Did you mean --topology or --top?"},
        {"zzzz", ""},
        {"", ""},
    };
    char buf[128], small[12];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        suggest(cases[i].word, "--", names, 5, buf, sizeof(buf));
        assert_string_equal(buf, cases[i].text);
    }
    suggest("statsu", "--", names, 5, small, sizeof(small));
    assert_string_equal(small, ""); /* none rather than a cut one */
}

static void addresses_are_read_or_refused(void **state)
{
    static const struct {
        const char *text, *path, *host, *port, *shown;
    } good[] = {
        {"unix:/run/x.sock", "/run/x.sock", "", "", "unix:/run/x.sock"},
        {"/run/x.sock", "/run/x.sock", "", "", "unix:/run/x.sock"},
        {"ctl:7000", "", "ctl", "7000", "ctl:7000"},
        {"10.0.0.1:1", "", "10.0.0.1", "1", "10.0.0.1:1"},
        {"ctl", "", "ctl", "", "ctl:"},
        {"[fe80::1%eth0]:65535", "", "fe80::1%eth0", "65535", "[fe80::1%eth0]:65535"},
        {"[::1]", "", "::1", "", "[::1]:"},
    };
    static const char *const bad[] = {"",       ":",    ":7",    "h:",      "h:0",    "h:65536",
                                      "h: 1",   "h:+1", "h:1e3", "::1",     "::1:80", "[::1",
                                      "[::1]x", "[]:1", "unix:", "unix:rel"};
    struct client_address address;
    char error[512];

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(client_address_parse(good[i].text, &address, error, sizeof(error)), 0);
        assert_string_equal(address.path, good[i].path);
        assert_string_equal(address.host, good[i].host);
        assert_string_equal(address.port, good[i].port);
        assert_string_equal(address.shown, good[i].shown);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        error[0] = '\0';
        assert_int_equal(client_address_parse(bad[i], &address, error, sizeof(error)), -1);
        assert_string_not_equal(error, "");
    }
}

static void jobs_are_told_from_other_words(void **state)
{
    static const char *const good[] = {"1", "12", "12.0", "12.batch", "4294967295.4294967295"};
    static const char *const bad[] = {"",    ".",  "12.", ".0",   "12.0.1",     "12 ",
                                      " 12", "-1", "1x",  "12.B", "12345678901"};

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(status_is_job(good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(status_is_job(bad[i]));
}

static void ages_have_two_units_at_most(void **state)
{
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {
        {0, "0 s"},         {0.9, "0 s"},        {59.9, "59 s"},
        {60, "1 min"},      {61, "1 min 1 s"},   {3600, "1 h"},
        {3659, "1 h"},      {3660, "1 h 1 min"}, {86399, "23 h 59 min"},
        {93784, "1 d 2 h"}, {8640000, "100 d"},  {-1, "-"},
        {(double)NAN, "-"},
    };
    char buf[64];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(format_age(cases[i].seconds, buf, sizeof(buf)), cases[i].text);
}

static char *printed(const struct table *table, int *result)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    *result = table_print(table, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void tables_line_up_and_clean_their_cells(void **state)
{
    static const struct table_column columns[] = {
        {"WIDE", false}, {"NUMBER", true}, {"LAST", false}};
    struct table *table = table_new(columns, 3);
    char wide[200], wanted[1024];
    int result;

    (void)state;
    memset(wide, 'w', sizeof(wide) - 1);
    wide[sizeof(wide) - 1] = '\0';
    table_cell(table, "a\033[2J\tb\377");
    table_number(table, 1.25, 1);
    table_cell(table, NULL);
    table_cell(table, wide);
    table_number(table, (double)NAN, 1);
    table_cell(table, wide);
    char *text = printed(table, &result);
    assert_int_equal(result, 0);
    snprintf(wanted, sizeof(wanted), "%-56s  NUMBER  LAST\n%-56s     1.2  -\n%.54s..       -  %s\n",
             "WIDE", "a?[2J?b?", wide, wide);
    assert_string_equal(text, wanted);
    free(text);

    table_cell(table, "alone"); /* a row that is not complete is not printed as one */
    free(printed(table, &result));
    assert_int_equal(result, -1);
    table_free(table);
    table_cell(NULL, "no memory");
    free(printed(NULL, &result));
    assert_int_equal(result, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distance_is_that_of_its_definition),
        cmocka_unit_test(suggestions_are_the_nearest_first),
        cmocka_unit_test(addresses_are_read_or_refused),
        cmocka_unit_test(jobs_are_told_from_other_words),
        cmocka_unit_test(ages_have_two_units_at_most),
        cmocka_unit_test(tables_line_up_and_clean_their_cells),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
