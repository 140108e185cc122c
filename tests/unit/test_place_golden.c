/*
 * Placement on recorded machines: every file tests/unit/golden/place-*.txt is a machine, what
 * happens on it, and what must come out, with the reasons as comments. Lines:
 *
 *     topology NAME              a recorded machine, or
 *     synthetic TEXT             one in hwloc's synthetic language
 *     reserved LIST              never used
 *     pool LIST                  extra CPUs for all
 *     member ID own=LIST [tasks=N] [job=N] [gpus=PCI,PCI] [main=N]
 *                                a step starts; main cores (one a task unless said) are chosen at
 * once leave ID                   it ends want ID=N [ID=N...]        loader PUs wanted from now on
 *     place                      decide; what was placed before is held
 *     main ID LIST               expected main cores
 *     cpus ID LIST               expected loader PUs
 *     local ID SHARE             expected share of them near its GPUs ("nan": unknown)
 */
#include "place.h"
#include "shared.h"
#include "topo.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MEMBERS_MAX 32

struct actor {
    char id[16];
    unsigned tasks, main_cores;
    struct cpus own, main;
    struct place_member place;
};

struct scene {
    const char *file;
    unsigned line, checked;
    struct topo *topo;
    struct cpus reserved, extra;
    struct actor actors[MEMBERS_MAX];
    size_t nactors;
};

static struct actor *actor(struct scene *s, const char *id)
{
    for (size_t i = 0; i < s->nactors; i++)
        if (strcmp(s->actors[i].id, id) == 0)
            return &s->actors[i];
    fail_msg("%s:%u: no member %s", s->file, s->line, id);
    return NULL;
}

static void actor_free(struct actor *a)
{
    cpus_free(&a->own);
    cpus_free(&a->main);
    cpus_free(&a->place.claim);
    cpus_free(&a->place.held);
    cpus_free(&a->place.near);
    cpus_free(&a->place.cpus);
}

static void parse_set(struct scene *s, const char *text, struct cpus *set)
{
    if (cpus_parse(set, text) < 0)
        fail_msg("%s:%u: not a list of CPUs: %s", s->file, s->line, text);
}

static void add_gpus(struct scene *s, struct actor *a, char *list)
{
    for (char *save = NULL, *g = strtok_r(list, ",", &save); g != NULL;
         g = strtok_r(NULL, ",", &save)) {
        const struct topo_gpu *gpu = topo_gpu(s->topo, g);

        if (gpu == NULL)
            fail_msg("%s:%u: no GPU %s", s->file, s->line, g);
        assert_int_equal(cpus_or(&a->place.near, &gpu->local), 0);
    }
}

static void add_member(struct scene *s, char *words)
{
    struct actor *a = &s->actors[s->nactors];
    char *save = NULL, *word = strtok_r(words, " ", &save);

    assert_true(s->nactors < MEMBERS_MAX);
    *a = (struct actor){.tasks = 1, .main_cores = UINT32_MAX};
    a->place.job = (unsigned)s->nactors;
    assert_non_null(word);
    assert_true(snprintf(a->id, sizeof(a->id), "%s", word) < (int)sizeof(a->id));
    while ((word = strtok_r(NULL, " ", &save)) != NULL) {
        char *value = strchr(word, '=');

        if (value == NULL)
            fail_msg("%s:%u: %s needs a value", s->file, s->line, word);
        *value++ = '\0';
        if (strcmp(word, "own") == 0)
            parse_set(s, value, &a->own);
        else if (strcmp(word, "tasks") == 0)
            a->tasks = (unsigned)strtoul(value, NULL, 10);
        else if (strcmp(word, "main") == 0)
            a->main_cores = (unsigned)strtoul(value, NULL, 10);
        else if (strcmp(word, "job") == 0)
            a->place.job = (unsigned)strtoul(value, NULL, 10);
        else if (strcmp(word, "gpus") == 0)
            add_gpus(s, a, value);
        else
            fail_msg("%s:%u: unknown word %s", s->file, s->line, word);
    }
    if (a->main_cores == UINT32_MAX)
        a->main_cores = a->tasks;
    cpus_andnot(&a->own, &s->reserved);
    assert_int_equal(
        place_main(s->topo, &a->own, a->main_cores, &a->place.near, &s->reserved, false, &a->main),
        0);
    assert_int_equal(cpus_copy(&a->place.claim, &a->own), 0);
    cpus_andnot(&a->place.claim, &a->main);
    s->nactors++;
}

static void leave(struct scene *s, const char *id)
{
    struct actor *a = actor(s, id);

    actor_free(a);
    memmove(a, a + 1, (size_t)(s->actors + s->nactors - a - 1) * sizeof(*a));
    s->nactors--;
}

static void want(struct scene *s, char *words)
{
    char *save = NULL;

    for (char *word = strtok_r(words, " ", &save); word != NULL;
         word = strtok_r(NULL, " ", &save)) {
        char *value = strchr(word, '=');

        if (value == NULL)
            fail_msg("%s:%u: %s needs a number", s->file, s->line, word);
        *value++ = '\0';
        actor(s, word)->place.count = (unsigned)strtoul(value, NULL, 10);
    }
}

static void place(struct scene *s)
{
    struct place_member members[MEMBERS_MAX];
    struct cpus pool = CPUS_EMPTY;

    assert_int_equal(cpus_copy(&pool, &s->extra), 0);
    for (size_t i = 0; i < s->nactors; i++) {
        struct actor *a = &s->actors[i];

        assert_int_equal(cpus_or(&pool, &a->place.claim), 0);
        cpus_move(&a->place.held, &a->place.cpus);
        members[i] = a->place;
    }
    cpus_andnot(&pool, &s->reserved);
    if (place_loaders(s->topo, &pool, members, s->nactors) < 0)
        fail_msg("%s:%u: cannot be placed", s->file, s->line);
    for (size_t i = 0; i < s->nactors; i++) {
        struct actor *a = &s->actors[i];

        cpus_move(&a->place.cpus, &members[i].cpus);
        assert_int_equal(cpus_count(&a->place.cpus), a->place.count);
        assert_true(cpus_is_subset(&a->place.cpus, &pool));
        cpus_andnot(&pool, &a->place.cpus);
    }
    cpus_free(&pool);
}

static void expect_set(struct scene *s, const struct cpus *set, const char *list)
{
    struct cpus wanted = CPUS_EMPTY;
    char *is = cpus_to_string(set);

    parse_set(s, list, &wanted);
    assert_non_null(is);
    if (!cpus_equal(set, &wanted))
        fail_msg("%s:%u: expected %s, placed %s", s->file, s->line, list, is);
    free(is);
    cpus_free(&wanted);
    s->checked++;
}

static void expect_local(struct scene *s, const struct actor *a, const char *text)
{
    double share = place_local_share(&a->place.cpus, &a->place.near), wanted = strtod(text, NULL);

    if (isnan(share) != isnan(wanted) || fabs(share - wanted) > 0.005)
        fail_msg("%s:%u: expected %s, the share is %.3f", s->file, s->line, text, share);
    s->checked++;
}

static void load_machine(struct scene *s, const char *name, bool synthetic)
{
    char path[512], error[256] = "";

    if (synthetic)
        s->topo = topo_from_synthetic(name, error, sizeof(error));
    else if (shared_path(path, sizeof(path), "topologies/%s.xml", name))
        s->topo = topo_from_xml_file(path, error, sizeof(error));
    else
        return;
    if (s->topo == NULL)
        fail_msg("%s:%u: %s", s->file, s->line, error);
}

/* One line; false when its machine is not at hand. */
static bool act(struct scene *s, char *line)
{
    char *rest = strchr(line, ' '), *more;

    if (rest != NULL)
        *rest++ = '\0';
    else
        rest = line + strlen(line);
    if (strcmp(line, "topology") == 0 || strcmp(line, "synthetic") == 0) {
        load_machine(s, rest, line[0] == 's');
        return s->topo != NULL;
    }
    if (strcmp(line, "reserved") == 0)
        parse_set(s, rest, &s->reserved);
    else if (strcmp(line, "pool") == 0)
        parse_set(s, rest, &s->extra);
    else if (strcmp(line, "member") == 0)
        add_member(s, rest);
    else if (strcmp(line, "leave") == 0)
        leave(s, rest);
    else if (strcmp(line, "want") == 0)
        want(s, rest);
    else if (strcmp(line, "place") == 0)
        place(s);
    else if ((more = strchr(rest, ' ')) == NULL)
        fail_msg("%s:%u: cannot read this line", s->file, s->line);
    else {
        *more++ = '\0';
        if (strcmp(line, "main") == 0)
            expect_set(s, &actor(s, rest)->main, more);
        else if (strcmp(line, "cpus") == 0)
            expect_set(s, &actor(s, rest)->place.cpus, more);
        else if (strcmp(line, "local") == 0)
            expect_local(s, actor(s, rest), more);
        else
            fail_msg("%s:%u: unknown word %s", s->file, s->line, line);
    }
    return true;
}

/* Plays one file; false when skipped. */
static bool play(const char *path, const char *name)
{
    static struct scene s;
    char line[512];
    bool played = true;
    FILE *f = fopen(path, "r");

    assert_non_null(f);
    memset(&s, 0, sizeof(s));
    s.file = name;
    while (played && fgets(line, sizeof(line), f) != NULL) {
        s.line++;
        line[strcspn(line, "\r\n#")] = '\0';
        while (line[0] != '\0' && line[strlen(line) - 1] == ' ')
            line[strlen(line) - 1] = '\0';
        if (line[0] != '\0')
            played = act(&s, line);
    }
    assert_int_equal(fclose(f), 0);
    if (played && s.checked == 0)
        fail_msg("%s checks nothing", name);
    for (size_t i = 0; i < s.nactors; i++)
        actor_free(&s.actors[i]);
    cpus_free(&s.reserved);
    cpus_free(&s.extra);
    topo_free(s.topo);
    return played;
}

static void golden(void **state)
{
    const char *source = getenv("ADL_SRCDIR");
    char dir[512], path[1024];
    unsigned played = 0, found = 0;
    struct dirent *entry;
    DIR *d;

    (void)state;
    assert_true(snprintf(dir, sizeof(dir), "%s/tests/unit/golden", source != NULL ? source : ".") <
                (int)sizeof(dir));
    d = opendir(dir);
    assert_non_null(d);
    while ((entry = readdir(d)) != NULL) {
        if (strncmp(entry->d_name, "place-", 6) != 0)
            continue;
        assert_true(snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name) < (int)sizeof(path));
        found++;
        played += play(path, entry->d_name);
    }
    assert_int_equal(closedir(d), 0);
    print_message("# %u of %u golden placements played\n", played, found);
    assert_true(found >= 8);
    if (played == 0)
        skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
