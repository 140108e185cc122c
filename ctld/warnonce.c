/* Warnings that are said once. See warnonce.h. */
#include "config.h"

#include "warnonce.h"

#include "log.h"

#include <string.h>

/* FNV-1a, of 64 bits. Who makes two texts collide keeps a warning about himself out of the log. */
static uint64_t hash_text(const char *text)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++)
        h = (h ^ *p) * 0x100000001b3u;
    return h;
}

/* Where that thing stands, or is to stand. */
static size_t place_of(struct warnonce *w, uint64_t about)
{
    size_t oldest = 0;

    for (size_t i = 0; i < w->n; i++) {
        if (w->said[i].about == about)
            return i;
        if (w->said[i].used < w->said[oldest].used)
            oldest = i;
    }
    return w->n < WARNONCE_THINGS ? w->n++ : oldest;
}

bool warnonce_is_new(struct warnonce *w, const char *about, const char *sentence)
{
    uint64_t thing = hash_text(about), said = hash_text(sentence);
    size_t at = place_of(w, thing);
    bool same = w->said[at].used > 0 && w->said[at].about == thing && w->said[at].sentence == said;

    w->said[at].about = thing;
    w->said[at].sentence = said;
    w->said[at].used = ++w->uses;
    return !same;
}

void warnonce_log(void *w, const char *about, const char *sentence)
{
    if (about == NULL || warnonce_is_new(w, about, sentence))
        log_warning("%s", sentence);
}

void warnonce_forget(struct warnonce *w)
{
    memset(w, 0, sizeof(*w));
}
