/* Which ways to call srun are a user's own wish for a binding, by a table. */
#include "config.h"

#include "cpubind.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void kinds(void **state)
{
    static const struct {
        const char *text, *kind; /* NULL: binds nothing */
    } table[] = {
        {NULL, NULL},
        {"", NULL},
        {"none", NULL},
        {"verbose", NULL},
        {"quiet", NULL},
        {"quiet,none", NULL},
        {"v,no", NULL},
        {"cores", "cores"},
        {"verbose,cores", "cores"},
        {"Threads", "Threads"},
        {"map_cpu:0,1", "map_cpu"},
        {"quiet,map_cpu:0,1", "map_cpu"},
        {"mask_cpu:0x3,0xc", "mask_cpu"},
        {"mask_cpu:", "mask_cpu"},
        {"rank", "rank"},
        {"rank_ldom", "rank_ldom"},
        {"sockets,rank_ldom", "sockets"},
        {"map_ldom:1", "map_ldom"},
        {"none,ldoms", "ldoms"},
        {"q,a_word_that_is_far_too_long_for_it", "a_word_that_is_"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        char kind[16] = "";
        bool binds = cpubind_kind(table[i].text, kind, sizeof kind);
        if (binds != (table[i].kind != NULL) || (binds && strcmp(kind, table[i].kind) != 0))
            fail_msg("\"%s\" gave \"%s\"", table[i].text != NULL ? table[i].text : "(null)", kind);
    }
}

/* Words are written with blanks between them. */
static size_t words_of(const char *line, char *words, size_t size)
{
    size_t length = strlen(line) + 1;
    assert_true(length <= size);
    memcpy(words, line, length);
    for (size_t i = 0; i < length; i++)
        if (words[i] == ' ')
            words[i] = '\0';
    return length;
}

static void command_lines(void **state)
{
    static const struct {
        const char *line;
        bool wish;
    } table[] = {
        {"srun -n2 true", false},
        {"srun --cpu-bind=cores true", true},
        {"srun --cpu-bind cores true", true},
        {"srun --cpu_bind=map_cpu:0 true", true},
        {"srun --cpu-b=rank true", true},
        {"srun --cpu-bind=none true", false},
        {"srun --cpu-bind none true", false},
        {"srun --cpu-bind=verbose true", false},
        {"srun --cpu-bind=q true", false},
        {"srun --cpu-bind=verbose,sockets true", true},
        {"srun --cpu-bind=none --cpu-bind=ldoms true", true},
        {"srun --cpu-freq=high --cpus-per-task=2 --cpus-per-gpu 4 true", false},
        {"srun --hint=nomultithread --ntasks-per-core=1 true", false},
        {"srun --cpu-bindings=cores true", false},
        {"srun --cpu-bind", false},
        {"srun --cpu-bind=", false},
        {"", false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        char words[256];
        size_t length = words_of(table[i].line, words, sizeof words);
        if (cpubind_on_command_line(words, length) != table[i].wish)
            fail_msg("%s: not seen for what it is", table[i].line);
    }
}

static void environments(void **state)
{
    static const struct {
        const char *name, *line;
        struct cpubind_env env;
        bool marked, wish;
    } table[] = {
        {"nothing", "srun true", {NULL, NULL, NULL, NULL}, false, false},
        {"the user's variable", "srun true", {"cores", NULL, NULL, NULL}, false, true},
        {"the user's none", "srun true", {"none", NULL, NULL, NULL}, false, false},
        {"in a step that slurmd bound",
         "srun true",
         {"quiet,mask_cpu:0x1", "quiet", "mask_cpu:", "0x1"},
         false,
         false},
        {"in a step that its user bound",
         "srun true",
         {"quiet,mask_cpu:0x1", "quiet", "mask_cpu:", "0x1"},
         true,
         true},
        {"the user's variable in a step",
         "srun true",
         {"map_cpu:1", "quiet", "mask_cpu:", "0x1"},
         false,
         true},
        {"verbose alone in a step", "srun true", {"verbose", "verbose", "", ""}, true, false},
        {"threads in a step", "srun true", {"quiet,threads", "quiet", "threads", ""}, false, false},
        {"a mark without anything", "srun true", {NULL, NULL, NULL, NULL}, true, false},
        {"the command line in a step",
         "srun --cpu-bind=rank true",
         {"quiet,mask_cpu:0x1", "quiet", "mask_cpu:", "0x1"},
         false,
         true},
        {"a part is missing", "srun true", {"quiet,cores", "quiet", "cores", NULL}, false, true},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        char words[256];
        size_t length = words_of(table[i].line, words, sizeof words);
        if (cpubind_wished(words, length, &table[i].env, table[i].marked) != table[i].wish)
            fail_msg("%s: not seen for what it is", table[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds),
        cmocka_unit_test(command_lines),
        cmocka_unit_test(environments),
    };
    return cmocka_run_group_tests_name("cpubind", tests, NULL, NULL);
}
