/*
 * Reading the measured tables: comma-separated text whose first line names the columns; quotes
 * around a field are taken off. Bounded in line length and columns.
 */
#ifndef ADLOADER_BENCH_CSV_H
#define ADLOADER_BENCH_CSV_H

#include <stdbool.h>
#include <stdio.h>

#define CSV_LINE_MAX    4096
#define CSV_COLUMNS_MAX 32

struct csv {
    FILE *file;
    const char *name;
    unsigned line;
    unsigned ncolumns;
    char head[CSV_LINE_MAX], text[CSV_LINE_MAX];
    char *columns[CSV_COLUMNS_MAX], *fields[CSV_COLUMNS_MAX];
};

/* Opens and reads the head; false with a message on stderr. */
bool csv_open(struct csv *csv, const char *name);
/* The next row with as many fields as columns; other rows are told of and left out. */
bool csv_next(struct csv *csv);
void csv_close(struct csv *csv);

/* Index of a column, or -1. */
int csv_column(const struct csv *csv, const char *name);
/* The index, or a message and exit 2: the program cannot do without it. */
unsigned csv_need(const struct csv *csv, const char *name);

/* A field as a finite number; NAN where it is none. */
double csv_number(const struct csv *csv, unsigned column);

/* A table that adloader's evaluation uses: ADLOADER_SHARED/data/NAME, else ../shared/data beside
 * the source tree. Writes the path; false where there is none. */
bool csv_shared(const char *name, char *path, size_t size);

#endif
