/*
 * A 32-bit constant out of a shared object, by the name of its symbol, without loading it: a SPANK
 * plugin loads into Slurm's programs only. The file is not trusted: every offset is checked.
 */
#ifndef ADLOADER_ELFWORD_H
#define ADLOADER_ELFWORD_H

#include <stddef.h>
#include <stdint.h>

/* 0, or -1 with a sentence that says what is wrong with the file. */
int elfword_read(const char *file, const char *symbol, uint32_t *value, char *error,
                 size_t error_size);

#endif
