/* The record of a job in Slurm's accounting: merged, written, read. See record.h. */
#include "config.h"

#include "record.h"

#include "msg.h"

#include <json-c/json.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Numbers beyond are cut off when written and refused when read. */
#define VERDICT_SHARE_MIN 0.1 /* of the time: less does not name the step */
#define SECONDS_MAX       9999999999.0
#define SAMPLES_MAX       1e15
#define PARSE_MAX         4096u /* bytes of a text that is looked at */
#define DEPTH_MAX         5

enum verdict record_verdict_by_name(const char *name)
{
    for (int v = 0; v < VERDICTS; v++)
        if (strcmp(verdict_name((enum verdict)v), name) == 0)
            return (enum verdict)v;
    return VERDICT_UNKNOWN;
}

/* ---- merging ------------------------------------------------------------------------------- */

static uint32_t add_capped(uint32_t a, uint32_t b)
{
    return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

static void add_cores(struct record_use *sum, const struct record_use *use)
{
    if (use->cores_known_s <= 0)
        return;
    if (sum->cores_known_s <= 0) {
        sum->cores_min = use->cores_min;
        sum->cores_max = use->cores_max;
    } else {
        if (use->cores_min < sum->cores_min)
            sum->cores_min = use->cores_min;
        if (use->cores_max > sum->cores_max)
            sum->cores_max = use->cores_max;
    }
    sum->cores_s += use->cores_s;
    sum->cores_known_s += use->cores_known_s;
}

void record_use_add(struct record_use *sum, const struct record_use *use)
{
    add_cores(sum, use);
    sum->members = add_capped(sum->members, use->members);
    sum->moves = add_capped(sum->moves, use->moves);
    sum->drift = add_capped(sum->drift, use->drift);
    sum->life_s += use->life_s;
    sum->loader_core_s += use->loader_core_s;
    sum->wait_s += use->wait_s;
    sum->loop_s += use->loop_s;
    sum->gpu_busy_s += use->gpu_busy_s;
    sum->gpu_known_s += use->gpu_known_s;
    if (use->samples_known)
        sum->samples += use->samples;
    sum->samples_known = sum->samples_known || use->samples_known;
    for (int v = 0; v < VERDICTS; v++)
        sum->verdict_s[v] += use->verdict_s[v];
}

/*
 * The verdict that held longest. Time without one does not compete, since a program that saves or
 * validates for long has no loaders meanwhile; but one that held for a moment names nothing.
 */
enum verdict record_use_verdict(const struct record_use *use)
{
    int best = VERDICT_UNKNOWN + 1;
    double all = use->verdict_s[VERDICT_UNKNOWN];

    for (int v = VERDICT_UNKNOWN + 1; v < VERDICTS; v++) {
        all += use->verdict_s[v];
        if (use->verdict_s[v] > use->verdict_s[best])
            best = v;
    }
    return use->verdict_s[best] > VERDICT_SHARE_MIN * all ? (enum verdict)best : VERDICT_UNKNOWN;
}

/* The entry that loses least when it is folded: least loader work, of equals the earliest. */
static unsigned smallest(const struct record_step *steps, unsigned count)
{
    unsigned at = 0;

    for (unsigned i = 1; i < count; i++)
        if (steps[i].use.loader_core_s < steps[at].use.loader_core_s)
            at = i;
    return at;
}

static void fold(struct record *record, const struct record_step *step)
{
    record->others = add_capped(record->others, 1);
    record_use_add(&record->other, &step->use);
}

static void take_out(struct record_step *steps, unsigned *count, unsigned at)
{
    memmove(&steps[at], &steps[at + 1], (*count - at - 1) * sizeof(steps[0]));
    (*count)--;
}

void record_merge(struct record *sum, const struct record *a, const struct record *b)
{
    struct record_step steps[2 * RECORD_STEPS_MAX];
    struct record merged = {.restart = a->restart, .others = add_capped(a->others, b->others)};
    unsigned count = 0;

    merged.other = a->other;
    record_use_add(&merged.other, &b->other);
    for (unsigned i = 0, k = 0; i < a->nsteps || k < b->nsteps; count++) {
        if (k == b->nsteps || (i < a->nsteps && a->steps[i].step < b->steps[k].step)) {
            steps[count] = a->steps[i++];
        } else if (i == a->nsteps || b->steps[k].step < a->steps[i].step) {
            steps[count] = b->steps[k++];
        } else {
            steps[count] = a->steps[i++];
            record_use_add(&steps[count].use, &b->steps[k++].use);
        }
    }
    while (count > RECORD_STEPS_MAX) {
        unsigned at = smallest(steps, count);

        fold(&merged, &steps[at]);
        take_out(steps, &count, at);
    }
    memcpy(merged.steps, steps, count * sizeof(steps[0]));
    merged.nsteps = count;
    *sum = merged;
}

void record_add_step(struct record *record, uint32_t step, const struct record_use *use)
{
    struct record one = {.nsteps = 1, .steps = {{step, *use}}};

    record_merge(record, record, &one);
}

bool record_is_empty(const struct record *record)
{
    return record->nsteps == 0 && record->others == 0;
}

/* ---- writing ------------------------------------------------------------------------------- */

struct text {
    char *buf;
    size_t length; /* may pass RECORD_TEXT_MAX: then it does not fit */
};

static void put(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct text *t, const char *format, ...)
{
    size_t room = t->length < RECORD_TEXT_SIZE ? RECORD_TEXT_SIZE - t->length : 0;
    va_list arguments;
    int n;

    va_start(arguments, format);
    n = vsnprintf(room > 0 ? t->buf + t->length : NULL, room, format, arguments);
    va_end(arguments);
    t->length += n > 0 ? (size_t)n : 0;
}

/* With at most so many decimals and no needless zeros, whatever the locale. */
static void put_number(struct text *t, double value, double max, unsigned decimals)
{
    static const unsigned long long units[] = {1, 10, 100, 1000, 10000};
    unsigned long long scaled, unit = units[decimals];

    if (!(value > 0)) /* NAN, too */
        value = 0;
    if (value > max)
        value = max;
    scaled = (unsigned long long)(value * (double)unit + 0.5);
    put(t, "%llu", scaled / unit);
    scaled %= unit;
    if (scaled == 0)
        return;
    for (; scaled % 10 == 0; scaled /= 10)
        unit /= 10;
    for (decimals = 0; unit > 1; unit /= 10)
        decimals++;
    put(t, ".%0*llu", (int)decimals, scaled);
}

/* More decimals for short times, so that the length is bounded and little is lost. */
static void put_seconds(struct text *t, double value)
{
    put_number(t, value, SECONDS_MAX, value < 100 ? 2 : value < 10000 ? 1 : 0);
}

static void put_use(struct text *t, const struct record_use *use)
{
    if (use->members != 1)
        put(t, ",\"n\":%u", use->members);
    put(t, ",\"t\":");
    put_seconds(t, use->members > 0 ? use->life_s / use->members : 0);
    put(t, ",\"c\":");
    put_seconds(t, use->loader_core_s);
    if (use->cores_known_s > 0) {
        put(t, ",\"k\":[%u,", use->cores_min);
        put_number(t, use->cores_s / use->cores_known_s, UINT32_MAX, 2);
        put(t, ",%u]", use->cores_max);
    }
    if (use->moves > 0)
        put(t, ",\"m\":%u", use->moves);
    if (use->drift > 0)
        put(t, ",\"d\":%u", use->drift);
    put(t, ",\"v\":\"%s\"", verdict_name(record_use_verdict(use)));
    if (use->gpu_known_s > 0) {
        put(t, ",\"g\":");
        put_number(t, use->gpu_busy_s / use->gpu_known_s, 1, 3);
    }
    if (use->loop_s > 0) {
        put(t, ",\"w\":[");
        put_number(t, use->wait_s / use->loop_s, 1, 4);
        put(t, ",");
        put_seconds(t, use->loop_s);
        put(t, "]");
    }
    if (use->samples_known) {
        put(t, ",\"q\":");
        put_number(t, use->samples, SAMPLES_MAX, 0);
    }
    put(t, "}");
}

static void put_step(struct text *t, const struct record_step *step)
{
    if (step->step == MSG_STEP_BATCH)
        put(t, "{\"i\":\"batch\"");
    else if (step->step == MSG_STEP_INTERACTIVE)
        put(t, "{\"i\":\"interactive\"");
    else
        put(t, "{\"i\":%u", step->step);
    put_use(t, &step->use);
}

static size_t write_all(const struct record *record, char *buf)
{
    struct text t = {buf, 0};

    put(&t, RECORD_PREFIX "{");
    if (record->restart > 0)
        put(&t, "\"r\":%u,", record->restart);
    put(&t, "\"s\":[");
    for (unsigned i = 0; i < record->nsteps; i++) {
        if (i > 0)
            put(&t, ",");
        put_step(&t, &record->steps[i]);
    }
    put(&t, "]");
    if (record->others > 0) {
        put(&t, ",\"o\":{\"j\":%u", record->others);
        put_use(&t, &record->other);
    }
    put(&t, "}");
    return t.length;
}

size_t record_format(const struct record *record, char buf[RECORD_TEXT_SIZE])
{
    struct record shorter = *record;
    size_t length;

    while ((length = write_all(&shorter, buf)) > RECORD_TEXT_MAX) {
        unsigned at = smallest(shorter.steps, shorter.nsteps);

        fold(&shorter, &shorter.steps[at]);
        take_out(shorter.steps, &shorter.nsteps, at);
    }
    return length;
}

/* ---- reading ------------------------------------------------------------------------------- */

bool record_is_ours(const char *text)
{
    return text != NULL && strncmp(text, RECORD_PREFIX, strlen(RECORD_PREFIX)) == 0;
}

struct reader {
    char *reason;
    bool failed;
};

static void refuse(struct reader *r, const char *key, const char *what)
{
    if (!r->failed)
        (void)snprintf(r->reason, RECORD_REASON_SIZE, "\"%s\" %s", key, what);
    r->failed = true;
}

static bool is_number(const struct json_object *value)
{
    return json_object_is_type(value, json_type_int) ||
           json_object_is_type(value, json_type_double);
}

/* 0..max; missing if it may be. */
static double number_of(struct reader *r, struct json_object *value, const char *key, double max)
{
    double number = is_number(value) ? json_object_get_double(value) : NAN;

    if (!(number >= 0 && number <= max)) {
        refuse(r, key, "is no number, or out of bounds");
        return 0;
    }
    return number;
}

static uint32_t count_of(struct reader *r, struct json_object *value, const char *key)
{
    double number = number_of(r, value, key, UINT32_MAX);

    if (number != floor(number))
        refuse(r, key, "is no whole number");
    return (uint32_t)number;
}

static struct json_object *get(struct json_object *object, const char *key)
{
    struct json_object *value = NULL;

    (void)json_object_object_get_ex(object, key, &value);
    return value;
}

static uint32_t read_count(struct reader *r, struct json_object *object, const char *key,
                           uint32_t missing)
{
    struct json_object *value = get(object, key);

    return value != NULL ? count_of(r, value, key) : missing;
}

static double read_number(struct reader *r, struct json_object *object, const char *key, double max)
{
    struct json_object *value = get(object, key);

    return value != NULL ? number_of(r, value, key, max) : 0;
}

/* The array of exactly so many entries, or NULL. */
static struct json_object *read_array(struct reader *r, struct json_object *object, const char *key,
                                      size_t length)
{
    struct json_object *value = get(object, key);

    if (value == NULL)
        return NULL;
    if (!json_object_is_type(value, json_type_array) || json_object_array_length(value) != length) {
        refuse(r, key, "is no array, or not of the right length");
        return NULL;
    }
    return value;
}

/* Shares are known of the whole life, or of next to nothing where that is 0. */
static double weight(const struct record_use *use)
{
    return use->life_s > 0 ? use->life_s : 0.01;
}

static void read_verdict(struct reader *r, struct json_object *object, struct record_use *use)
{
    struct json_object *value = get(object, "v");

    if (value == NULL || !json_object_is_type(value, json_type_string)) {
        refuse(r, "v", "is no word");
        return;
    }
    use->verdict_s[record_verdict_by_name(json_object_get_string(value))] = (float)weight(use);
}

static void read_cores(struct reader *r, struct json_object *object, struct record_use *use)
{
    struct json_object *cores = read_array(r, object, "k", 3);
    double mean;

    if (cores == NULL)
        return;
    use->cores_min = count_of(r, json_object_array_get_idx(cores, 0), "k");
    use->cores_max = count_of(r, json_object_array_get_idx(cores, 2), "k");
    mean = number_of(r, json_object_array_get_idx(cores, 1), "k", UINT32_MAX);
    /* The mean is rounded, and so may lie a little outside. */
    if (use->cores_min > use->cores_max || mean < use->cores_min - 0.01 ||
        mean > use->cores_max + 0.01)
        refuse(r, "k", "is not in order");
    use->cores_known_s = weight(use);
    use->cores_s = mean * use->cores_known_s;
}

static void read_use(struct reader *r, struct json_object *object, struct record_use *use)
{
    struct json_object *loop;

    memset(use, 0, sizeof(*use));
    use->members = read_count(r, object, "n", 1);
    use->life_s = use->members * read_number(r, object, "t", SECONDS_MAX);
    use->loader_core_s = read_number(r, object, "c", SECONDS_MAX);
    use->moves = read_count(r, object, "m", 0);
    use->drift = read_count(r, object, "d", 0);
    read_verdict(r, object, use);
    read_cores(r, object, use);
    if (get(object, "g") != NULL) {
        use->gpu_known_s = weight(use);
        use->gpu_busy_s = read_number(r, object, "g", 1) * use->gpu_known_s;
    }
    loop = read_array(r, object, "w", 2);
    if (loop != NULL) {
        use->loop_s = number_of(r, json_object_array_get_idx(loop, 1), "w", SECONDS_MAX);
        use->wait_s = number_of(r, json_object_array_get_idx(loop, 0), "w", 1) * use->loop_s;
    }
    use->samples_known = get(object, "q") != NULL;
    use->samples = read_number(r, object, "q", SAMPLES_MAX);
}

static uint32_t read_step_number(struct reader *r, struct json_object *object)
{
    struct json_object *value = get(object, "i");

    if (value != NULL && json_object_is_type(value, json_type_string)) {
        if (strcmp(json_object_get_string(value), "batch") == 0)
            return MSG_STEP_BATCH;
        if (strcmp(json_object_get_string(value), "interactive") == 0)
            return MSG_STEP_INTERACTIVE;
    }
    return count_of(r, value, "i");
}

static void read_steps(struct reader *r, struct json_object *root, struct record *record)
{
    struct json_object *steps = get(root, "s");

    if (!json_object_is_type(steps, json_type_array)) {
        refuse(r, "s", "is no array");
        return;
    }
    for (size_t i = 0; i < json_object_array_length(steps) && !r->failed; i++) {
        struct json_object *object = json_object_array_get_idx(steps, i);
        struct record_step step;

        if (!json_object_is_type(object, json_type_object)) {
            refuse(r, "s", "has an entry that is no object");
            return;
        }
        step.step = read_step_number(r, object);
        read_use(r, object, &step.use);
        if (!r->failed)
            record_add_step(record, step.step, &step.use);
    }
}

static void read_root(struct reader *r, struct json_object *root, struct record *record)
{
    struct json_object *other;

    if (!json_object_is_type(root, json_type_object)) {
        refuse(r, RECORD_PREFIX, "is not followed by an object");
        return;
    }
    other = get(root, "o");
    if (other != NULL && !json_object_is_type(other, json_type_object)) {
        refuse(r, "o", "is no object");
    } else if (other != NULL) {
        record->others = read_count(r, other, "j", 1);
        read_use(r, other, &record->other);
    }
    read_steps(r, root, record);
    record->restart = read_count(r, root, "r", 0);
}

int record_parse(const char *text, struct record *record, char reason[RECORD_REASON_SIZE])
{
    struct reader r = {reason, false};
    struct json_tokener *tokener;
    struct json_object *root = NULL;
    size_t length;

    memset(record, 0, sizeof(*record));
    if (!record_is_ours(text)) {
        (void)snprintf(reason, RECORD_REASON_SIZE, "it does not start with " RECORD_PREFIX);
        return -1;
    }
    text += strlen(RECORD_PREFIX);
    length = strnlen(text, PARSE_MAX + 1);
    if (length > PARSE_MAX) {
        (void)snprintf(reason, RECORD_REASON_SIZE, "it is longer than %u bytes", PARSE_MAX);
        return -1;
    }
    tokener = json_tokener_new_ex(DEPTH_MAX);
    if (tokener == NULL) {
        (void)snprintf(reason, RECORD_REASON_SIZE, "there is no memory to read it");
        return -1;
    }
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
    root = json_tokener_parse_ex(tokener, text, (int)length + 1); /* with the NUL: it ends there */
    if (json_tokener_get_error(tokener) != json_tokener_success)
        (void)snprintf(reason, RECORD_REASON_SIZE, "it is no JSON: %s",
                       json_tokener_error_desc(json_tokener_get_error(tokener)));
    else
        read_root(&r, root, record);
    if (json_tokener_get_error(tokener) != json_tokener_success || r.failed) {
        memset(record, 0, sizeof(*record));
        r.failed = true;
    }
    json_object_put(root);
    json_tokener_free(tokener);
    return r.failed ? -1 : 0;
}
