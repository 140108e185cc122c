/* Sets of CPUs without a fixed size: set algebra, list formats, thread affinity. */
#include "cpus.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WORD_BITS (sizeof(unsigned long) * CHAR_BIT)
#define MAX_WORDS (CPUS_MAX / WORD_BITS)

static size_t word_of(unsigned long cpu)
{
    return cpu / WORD_BITS;
}

static unsigned long bit_of(unsigned long cpu)
{
    return 1UL << (cpu % WORD_BITS);
}

static unsigned long word_at(const struct cpus *set, size_t i)
{
    return i < set->nwords ? set->words[i] : 0;
}

/* Make room for nwords words; those that are new are 0. */
static int reserve(struct cpus *set, size_t nwords)
{
    if (nwords <= set->nwords)
        return 0;
    unsigned long *words = realloc(set->words, nwords * sizeof(*words));
    if (!words)
        return -1;
    memset(words + set->nwords, 0, (nwords - set->nwords) * sizeof(*words));
    set->words = words;
    set->nwords = nwords;
    return 0;
}

void cpus_free(struct cpus *set)
{
    free(set->words);
    *set = CPUS_EMPTY;
}

void cpus_clear_all(struct cpus *set)
{
    if (set->nwords)
        memset(set->words, 0, set->nwords * sizeof(*set->words));
}

void cpus_move(struct cpus *dst, struct cpus *src)
{
    if (dst == src)
        return;
    free(dst->words);
    *dst = *src;
    *src = CPUS_EMPTY;
}

int cpus_copy(struct cpus *dst, const struct cpus *src)
{
    if (dst == src)
        return 0;
    if (reserve(dst, src->nwords) < 0)
        return -1;
    for (size_t i = 0; i < dst->nwords; i++)
        dst->words[i] = word_at(src, i);
    return 0;
}

int cpus_set(struct cpus *set, unsigned cpu)
{
    if (cpu >= CPUS_MAX) {
        errno = ERANGE;
        return -1;
    }
    if (reserve(set, word_of(cpu) + 1) < 0)
        return -1;
    set->words[word_of(cpu)] |= bit_of(cpu);
    return 0;
}

void cpus_clear(struct cpus *set, unsigned cpu)
{
    if (word_of(cpu) < set->nwords)
        set->words[word_of(cpu)] &= ~bit_of(cpu);
}

bool cpus_isset(const struct cpus *set, unsigned cpu)
{
    return word_at(set, word_of(cpu)) & bit_of(cpu);
}

bool cpus_is_empty(const struct cpus *set)
{
    for (size_t i = 0; i < set->nwords; i++)
        if (set->words[i])
            return false;
    return true;
}

unsigned cpus_count(const struct cpus *set)
{
    unsigned count = 0;
    for (size_t i = 0; i < set->nwords; i++)
        count += (unsigned)__builtin_popcountl(set->words[i]);
    return count;
}

bool cpus_equal(const struct cpus *a, const struct cpus *b)
{
    size_t n = a->nwords > b->nwords ? a->nwords : b->nwords;
    for (size_t i = 0; i < n; i++)
        if (word_at(a, i) != word_at(b, i))
            return false;
    return true;
}

bool cpus_is_subset(const struct cpus *sub, const struct cpus *super)
{
    for (size_t i = 0; i < sub->nwords; i++)
        if (sub->words[i] & ~word_at(super, i))
            return false;
    return true;
}

bool cpus_intersects(const struct cpus *a, const struct cpus *b)
{
    for (size_t i = 0; i < a->nwords; i++)
        if (a->words[i] & word_at(b, i))
            return true;
    return false;
}

int cpus_or(struct cpus *dst, const struct cpus *src)
{
    if (reserve(dst, src->nwords) < 0)
        return -1;
    for (size_t i = 0; i < src->nwords; i++)
        dst->words[i] |= src->words[i];
    return 0;
}

void cpus_and(struct cpus *dst, const struct cpus *src)
{
    for (size_t i = 0; i < dst->nwords; i++)
        dst->words[i] &= word_at(src, i);
}

void cpus_andnot(struct cpus *dst, const struct cpus *src)
{
    for (size_t i = 0; i < dst->nwords; i++)
        dst->words[i] &= ~word_at(src, i);
}

/* The first CPU >= from whose bit, after flipping with flip, is set; -1 past the last word. */
static long next_bit(const struct cpus *set, unsigned long from, unsigned long flip)
{
    size_t i = word_of(from);
    if (i >= set->nwords)
        return -1;
    unsigned long word = (set->words[i] ^ flip) & (~0UL << (from % WORD_BITS));
    while (!word) {
        if (++i >= set->nwords)
            return -1;
        word = set->words[i] ^ flip;
    }
    return (long)(i * WORD_BITS) + __builtin_ctzl(word);
}

long cpus_next(const struct cpus *set, unsigned long from)
{
    return next_bit(set, from, 0);
}

/* Text being read: next character and the end. */
struct reader {
    const char *at, *end;
};

static bool accept_char(struct reader *r, char wanted)
{
    if (r->at == r->end || *r->at != wanted)
        return false;
    r->at++;
    return true;
}

/* A decimal number of 0..max, without sign. 0, or the errno value for what is wrong. */
static int read_number(struct reader *r, unsigned long max, unsigned long *value)
{
    if (r->at == r->end || !isdigit((unsigned char)*r->at))
        return EINVAL;
    unsigned long v = 0;
    for (; r->at < r->end && isdigit((unsigned char)*r->at); r->at++) {
        unsigned long digit = (unsigned long)(*r->at - '0');
        if (v > (max - digit) / 10)
            return ERANGE;
        v = v * 10 + digit;
    }
    *value = v;
    return 0;
}

/* "3", "0-7" or "0-8:2" added to set. budget: how many more CPUs the whole list may name. */
static int read_range(struct reader *r, struct cpus *set, unsigned long *budget)
{
    unsigned long first, last, stride = 1;
    int error = read_number(r, CPUS_MAX - 1, &first);
    if (error)
        return error;
    last = first;
    if (accept_char(r, '-')) {
        error = read_number(r, CPUS_MAX - 1, &last);
        if (error)
            return error;
        if (accept_char(r, ':')) {
            error = read_number(r, CPUS_MAX, &stride);
            if (error)
                return error;
        }
    }
    if (last < first || stride == 0)
        return EINVAL;
    unsigned long named = (last - first) / stride + 1;
    if (named > *budget)
        return ERANGE;
    *budget -= named;
    if (reserve(set, word_of(last) + 1) < 0)
        return ENOMEM;
    for (unsigned long cpu = first; cpu <= last; cpu += stride)
        set->words[word_of(cpu)] |= bit_of(cpu);
    return 0;
}

static int read_list(struct reader *r, struct cpus *set)
{
    /* A list that names more CPUs than can exist repeats itself; refused, so that time is bounded.
     */
    unsigned long budget = CPUS_MAX;
    do {
        int error = read_range(r, set, &budget);
        if (error)
            return error;
    } while (accept_char(r, ','));
    return r->at == r->end ? 0 : EINVAL;
}

int cpus_parse_bytes(struct cpus *set, const char *list, size_t length)
{
    struct reader r = {list, list + length};
    while (r.at < r.end && isspace((unsigned char)*r.at))
        r.at++;
    while (r.at < r.end && isspace((unsigned char)r.end[-1]))
        r.end--;
    struct cpus result = CPUS_EMPTY;
    if (r.at < r.end) {
        int error = read_list(&r, &result);
        if (error) {
            cpus_free(&result);
            errno = error;
            return -1;
        }
    }
    cpus_move(set, &result);
    return 0;
}

int cpus_parse(struct cpus *set, const char *list)
{
    if (!list) {
        errno = EINVAL;
        return -1;
    }
    return cpus_parse_bytes(set, list, strlen(list));
}

/* Text being written into a buffer that may be too small; length counts what is needed. */
struct printer {
    char *buf;
    size_t size, length;
};

static void print_char(struct printer *p, char c)
{
    if (p->length + 1 < p->size)
        p->buf[p->length] = c;
    p->length++;
}

static void print_number(struct printer *p, unsigned long value)
{
    char digits[20]; /* of the largest 64-bit number */
    size_t n = 0;
    do {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    while (n)
        print_char(p, digits[--n]);
}

int cpus_format(const struct cpus *set, char *buf, size_t size)
{
    struct printer p = {buf, size, 0};
    for (long first = cpus_next(set, 0); first >= 0;) {
        long hole = next_bit(set, (unsigned long)first, ~0UL);
        long last = hole < 0 ? (long)(set->nwords * WORD_BITS) - 1 : hole - 1;
        if (p.length)
            print_char(&p, ',');
        print_number(&p, (unsigned long)first);
        if (last > first) {
            print_char(&p, '-');
            print_number(&p, (unsigned long)last);
        }
        first = hole < 0 ? -1 : cpus_next(set, (unsigned long)hole);
    }
    if (size)
        buf[p.length < size ? p.length : size - 1] = '\0';
    return (int)p.length; /* at most 6 bytes for each of CPUS_MAX */
}

char *cpus_to_string(const struct cpus *set)
{
    size_t size = (size_t)cpus_format(set, NULL, 0) + 1;
    char *text = malloc(size);
    if (text)
        (void)cpus_format(set, text, size);
    return text;
}

/*
 * The kernel refuses (EINVAL) a buffer smaller than its own masks, whose size depends on the
 * machine. One of CPUS_MAX bits is larger than any, and the kernel fills only as much as it has.
 */
int cpus_get_affinity(pid_t tid, struct cpus *set)
{
    unsigned long words[MAX_WORDS];
    long bytes = syscall(SYS_sched_getaffinity, tid, sizeof(words), words);
    if (bytes < 0)
        return -1;
    struct cpus mask = {(size_t)bytes / sizeof(*words), words};
    return cpus_copy(set, &mask);
}

int cpus_set_affinity(pid_t tid, const struct cpus *set)
{
    if (cpus_is_empty(set)) {
        errno = EINVAL;
        return -1;
    }
    return syscall(SYS_sched_setaffinity, tid, set->nwords * sizeof(*set->words), set->words) < 0
               ? -1
               : 0;
}

/* "8" or "8(x2)". */
static int read_count(struct reader *r, unsigned long *value, unsigned long *repeat)
{
    *repeat = 1;
    if (read_number(r, INT_MAX, value))
        return -1;
    if (!accept_char(r, '('))
        return 0;
    if (!accept_char(r, 'x') || read_number(r, INT_MAX, repeat) || !accept_char(r, ')'))
        return -1;
    return *repeat ? 0 : -1;
}

long slurm_count_at(const char *text, unsigned index)
{
    long found = -1;
    unsigned long passed = 0;
    struct reader r = {text, text ? text + strlen(text) : NULL};
    do {
        unsigned long value, repeat;
        if (!text || read_count(&r, &value, &repeat) < 0) {
            errno = EINVAL;
            return -1;
        }
        if (found < 0 && index - passed < repeat)
            found = (long)value;
        else if (found < 0)
            passed += repeat;
    } while (accept_char(&r, ','));
    if (found < 0 || r.at != r.end) {
        errno = EINVAL;
        return -1;
    }
    return found;
}
