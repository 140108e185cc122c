/* Hints of users about their job: the text of --adloader and back. */
#include "hints.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define BATCH_MAX  16777216u
#define AMOUNT_MAX UINT64_C(1000000000000000000) /* of flops= and params= */

static const char usage[] =
    "on, off, or key=value pairs separated by commas: workers=MIN[-MAX] (loader workers that the "
    "job can use, 1 to 4096), batch=N (samples a step and GPU), model=NAME (letters, digits and "
    ". _ + / -, at most 63, no . first), profile=NAME (likewise, at most 51), "
    "data=jpeg|raw|packed, flops=X (forward FLOPs a sample), "
    "params=X (parameters of the model; both with K, M, G, T or P if wanted), report (a line at "
    "the end of the step)";

const char *hints_usage(void)
{
    return usage;
}

/* One "key=value" or "key" of the text, not NUL-terminated. */
struct part {
    const char *key, *value; /* value NULL: no '=' */
    size_t key_length, value_length;
};

static bool equals(const char *text, size_t length, const char *word)
{
    return length == strlen(word) && !strncasecmp(text, word, length);
}

/* ---- values: each reader returns NULL, or what would have been right ---- */

static bool read_digits(const char **at, const char *end, uint64_t max, uint64_t *value)
{
    const char *start = *at;
    uint64_t v = 0;
    for (; *at < end && isdigit((unsigned char)**at); (*at)++) {
        uint64_t digit = (uint64_t)(**at - '0');
        if (v > (max - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    *value = v;
    return *at > start;
}

static const char *read_workers(struct hints *h, const struct part *p)
{
    static const char expected[] =
        "MIN or MIN-MAX, whole numbers from 1 to 4096, MIN not above MAX";
    const char *at = p->value, *end = p->value + p->value_length;
    uint64_t min, max = 0;
    if (!read_digits(&at, end, HINTS_WORKERS_MAX, &min) || min == 0)
        return expected;
    if (at < end) {
        if (*at++ != '-' || !read_digits(&at, end, HINTS_WORKERS_MAX, &max) || max < min)
            return expected;
    }
    if (at != end)
        return expected;
    h->workers_min = (unsigned)min;
    h->workers_max = (unsigned)max;
    return NULL;
}

static const char *read_batch(struct hints *h, const struct part *p)
{
    const char *at = p->value, *end = p->value + p->value_length;
    uint64_t batch;
    if (!read_digits(&at, end, BATCH_MAX, &batch) || batch == 0 || at != end)
        return "a whole number from 1 to 16777216";
    h->batch = (unsigned)batch;
    return NULL;
}

/* The power of ten of a suffix, or -1. */
static int suffix_power(char c)
{
    static const char suffixes[] = "KMGTP";
    const char *found = strchr(suffixes, toupper((unsigned char)c));
    return c && found ? 3 * (int)(found - suffixes + 1) : -1;
}

/* "e9", "E+12", "e-3" after a number. */
static bool read_exponent(const char **at, const char *end, int *power)
{
    (*at)++;
    bool negative = *at < end && **at == '-';
    if (*at < end && (**at == '-' || **at == '+'))
        (*at)++;
    uint64_t digits;
    if (!read_digits(at, end, 99, &digits))
        return false;
    *power += negative ? -(int)digits : (int)digits;
    return true;
}

/* digits x 10^power, rounded to a whole number from 1 to AMOUNT_MAX. */
static bool scale(uint64_t digits, int power, uint64_t *value)
{
    for (; power > 0 && digits; power--) {
        if (digits > AMOUNT_MAX / 10)
            return false;
        digits *= 10;
    }
    bool up = false;
    for (; power < 0 && digits; power++) {
        up = digits % 10 >= 5; /* half up; the last digit dropped decides */
        digits /= 10;
    }
    *value = digits + (up && power == 0);
    return *value >= 1 && *value <= AMOUNT_MAX;
}

/*
 * "4.1G", "25600000", "8.2e9". Read by hand since strtod() obeys the locale of the host program;
 * kept as a whole number, so that the text written from it reads back to the same.
 */
static bool read_amount(const struct part *p, double *amount)
{
    const char *at = p->value, *end = p->value + p->value_length;
    uint64_t digits = 0;
    int power = 0;
    bool any = false, point = false;
    for (; at < end && (isdigit((unsigned char)*at) || (*at == '.' && !point)); at++) {
        if (*at == '.') {
            point = true;
            continue;
        }
        any = true;
        if (digits > AMOUNT_MAX)
            return false; /* more digits than any amount has */
        digits = digits * 10 + (uint64_t)(*at - '0');
        power -= point;
    }
    if (!any)
        return false;
    if (at < end && (*at == 'e' || *at == 'E') && !read_exponent(&at, end, &power))
        return false;
    if (at < end) {
        int suffix = suffix_power(*at++);
        if (suffix < 0)
            return false;
        power += suffix;
    }
    uint64_t value;
    if (at != end || !scale(digits, power, &value))
        return false;
    *amount = (double)value;
    return true;
}

static const char amount_expected[] =
    "a number from 1 to 1e18, if wanted with K, M, G, T or P (powers of 1000)";

static const char *read_flops(struct hints *h, const struct part *p)
{
    return read_amount(p, &h->flops) ? NULL : amount_expected;
}

static const char *read_params(struct hints *h, const struct part *p)
{
    return read_amount(p, &h->params) ? NULL : amount_expected;
}

/* What was learned is kept in a file of that name, which may not be a hidden one. */
static bool read_name(char *name, size_t size, const struct part *p)
{
    if (p->value_length == 0 || p->value_length >= size || p->value[0] == '.')
        return false;
    for (size_t i = 0; i < p->value_length; i++) {
        char c = p->value[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && (!c || !strchr("._+/-", c)))
            return false;
    }
    memcpy(name, p->value, p->value_length);
    name[p->value_length] = '\0';
    return true;
}

static const char *read_model(struct hints *h, const struct part *p)
{
    return read_name(h->model, sizeof(h->model), p)
               ? NULL
               : "a name of 1 to 63 letters, digits and . _ + / -, not beginning with a .";
}

static const char *read_profile(struct hints *h, const struct part *p)
{
    return read_name(h->profile, sizeof(h->profile), p)
               ? NULL
               : "a name of 1 to 51 letters, digits and . _ + / -, not beginning with a .";
}

static const char *const data_names[] = {
    [HINTS_DATA_JPEG] = "jpeg",
    [HINTS_DATA_RAW] = "raw",
    [HINTS_DATA_PACKED] = "packed",
};

static const char *read_data(struct hints *h, const struct part *p)
{
    for (int kind = HINTS_DATA_JPEG; kind <= HINTS_DATA_PACKED; kind++)
        if (equals(p->value, p->value_length, data_names[kind])) {
            h->data = (enum hints_data)kind;
            return NULL;
        }
    return "jpeg, raw or packed";
}

static const struct key {
    const char *name;
    const char *(*read)(struct hints *h, const struct part *p); /* NULL: takes no value */
} keys[] = {
    {"workers", read_workers}, {"batch", read_batch}, {"model", read_model},
    {"profile", read_profile}, {"data", read_data},   {"flops", read_flops},
    {"params", read_params},   {"report", NULL},
};
#define NKEYS (sizeof(keys) / sizeof(keys[0]))

/* ---- the whole text ---- */

/* Where a sentence about what is wrong goes. */
struct complaint {
    char *text;
    size_t size;
};

static int refuse(struct complaint *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int refuse(struct complaint *c, const char *format, ...)
{
    if (!c->size)
        return -1;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(c->text, c->size, format, args);
    va_end(args);
    /* It quotes what a stranger wrote. */
    for (unsigned char *p = (unsigned char *)c->text; *p; p++)
        if (*p < 0x20 || *p >= 0x7f)
            *p = '?';
    return -1;
}

#define QUOTED_MAX 40 /* bytes of the user's text that a complaint repeats */

static int quoted(size_t length)
{
    return length < QUOTED_MAX ? (int)length : QUOTED_MAX;
}

static const struct key *find_key(const struct part *p)
{
    for (size_t i = 0; i < NKEYS; i++)
        if (equals(p->key, p->key_length, keys[i].name))
            return &keys[i];
    return NULL;
}

static int take_part(struct hints *h, const struct part *p, unsigned *seen, struct complaint *c)
{
    const struct key *key = find_key(p);
    if (!key)
        return refuse(c, "\"%.*s\" is not known here; allowed are %s", quoted(p->key_length),
                      p->key, usage);
    unsigned bit = 1u << (key - keys);
    if (*seen & bit)
        return refuse(c, "\"%s\" stands twice; say it once", key->name);
    *seen |= bit;
    if (!key->read) {
        if (p->value)
            return refuse(c, "\"%s\" takes no value; write it alone", key->name);
        h->report = true;
        return 0;
    }
    if (!p->value)
        return refuse(c, "\"%s\" lacks its value; write %s=VALUE", key->name, key->name);
    const char *expected = key->read(h, p);
    if (expected)
        return refuse(c, "%s=\"%.*s\" is not possible; allowed is %s", key->name,
                      quoted(p->value_length), p->value, expected);
    return 0;
}

static struct part split_part(const char *text, size_t length)
{
    const char *equal = memchr(text, '=', length);
    struct part p = {.key = text, .key_length = length};
    if (equal) {
        p.key_length = (size_t)(equal - text);
        p.value = equal + 1;
        p.value_length = length - p.key_length - 1;
    }
    return p;
}

/* "on" and its synonyms: 1, "off" and its: 0, all else: -1. */
static int switch_word(const char *text)
{
    static const char *const words[][2] = {{"off", "on"}, {"0", "1"}, {"no", "yes"}};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        for (int on = 0; on <= 1; on++)
            if (!strcasecmp(text, words[i][on]))
                return on;
    return -1;
}

int hints_parse(const char *text, struct hints *hints, char *error, size_t error_size)
{
    struct complaint c = {error, error_size};
    struct hints h = {.on = true};
    if (error_size)
        error[0] = '\0';
    if (!text || !*text || !strcmp(text, "(null)") || switch_word(text) == 1) {
        *hints = h;
        return 0;
    }
    if (switch_word(text) == 0) {
        h.on = false;
        *hints = h;
        return 0;
    }
    size_t length = strnlen(text, HINTS_TEXT_MAX);
    if (length == HINTS_TEXT_MAX)
        return refuse(&c, "the value is longer than %d characters", HINTS_TEXT_MAX - 1);
    unsigned seen = 0;
    for (const char *at = text;;) {
        size_t part_length = strcspn(at, ",");
        if (!part_length)
            return refuse(&c, "a part between commas is empty; allowed are %s", usage);
        struct part p = split_part(at, part_length);
        if (take_part(&h, &p, &seen, &c) < 0)
            return -1;
        at += part_length;
        if (!*at)
            break;
        at++;
    }
    *hints = h;
    return 0;
}

/* ---- writing ---- */

struct printer {
    char *buf;
    size_t size, length;
};

static void add(struct printer *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct printer *p, const char *format, ...)
{
    size_t left = p->length < p->size ? p->size - p->length : 0;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(left ? p->buf + p->length : NULL, left, format, args);
    va_end(args);
    if (n > 0)
        p->length += (size_t)n;
}

static uint64_t whole(double amount)
{
    return amount < (double)AMOUNT_MAX ? (uint64_t)amount : AMOUNT_MAX;
}

static const char *comma(const struct printer *p)
{
    return p->length ? "," : "";
}

int hints_format(const struct hints *h, char *buf, size_t size)
{
    struct printer p = {buf, size, 0};
    if (size)
        buf[0] = '\0';
    if (!h->on) {
        add(&p, "off");
        return (int)p.length;
    }
    if (h->workers_min && h->workers_max)
        add(&p, "workers=%u-%u", h->workers_min, h->workers_max);
    else if (h->workers_min)
        add(&p, "workers=%u", h->workers_min);
    if (h->batch)
        add(&p, "%sbatch=%u", comma(&p), h->batch);
    if (h->model[0])
        add(&p, "%smodel=%s", comma(&p), h->model);
    if (h->profile[0])
        add(&p, "%sprofile=%s", comma(&p), h->profile);
    if (h->data != HINTS_DATA_UNKNOWN)
        add(&p, "%sdata=%s", comma(&p), data_names[h->data]);
    if (h->flops > 0)
        add(&p, "%sflops=%" PRIu64, comma(&p), whole(h->flops));
    if (h->params > 0)
        add(&p, "%sparams=%" PRIu64, comma(&p), whole(h->params));
    if (h->report)
        add(&p, "%sreport", comma(&p));
    if (!p.length)
        add(&p, "on");
    return (int)p.length;
}
