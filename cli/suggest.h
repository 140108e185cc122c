/* "Did you mean": the names nearest to a mistyped one. */
#ifndef ADLOADER_SUGGEST_H
#define ADLOADER_SUGGEST_H

#include <stddef.h>

/* Edit distance that counts insertions, deletions, replacements and swapped neighbours (optimal
 * string alignment); SIZE_MAX for words longer than any option (64 bytes). */
size_t suggest_distance(const char *a, const char *b);

/*
 * Write up to three of names into buf, nearest first: " Did you mean status or topology?", or "" if
 * none is near. buf is always terminated.
 */
void suggest(const char *word, const char *prefix, const char *const *names, size_t nnames,
             char *buf, size_t size);

#endif
