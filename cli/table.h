/*
 * Tables for people: columns as wide as their longest cell, two spaces between them. Cells come
 * from outside, so that everything but printable ASCII is replaced before it reaches a terminal.
 */
#ifndef ADLOADER_TABLE_H
#define ADLOADER_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct table_column {
    const char *title;
    bool right; /* numbers stand to the right */
};

struct table;

/* columns must outlive the table. NULL on lack of memory, which every call below accepts. */
struct table *table_new(const struct table_column *columns, size_t ncolumns);
void table_free(struct table *table);

/* The next cell, row by row; NULL and "" print as "-". A longer text than TABLE_CELL_MAX is cut,
 * with
 * ".." at its end; the last column pushes nothing aside and may be longer. */
#define TABLE_CELL_MAX      56
#define TABLE_LAST_CELL_MAX 512
void table_cell(struct table *table, const char *text);
void table_cellf(struct table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A number with so many decimals, or "-" for NAN. */
void table_number(struct table *table, double value, int decimals);

/* Print title line and rows; 0, or -1 (lack of memory now or before, or a row is not complete). */
int table_print(const struct table *table, FILE *out);

/* Print text with everything but printable ASCII replaced by '?'; NULL prints fallback. */
void print_clean(FILE *out, const char *text, const char *fallback);

/* "3 d 4 h", "5 min 2 s", "12 s": at most two units. buf is returned; NAN and negative: "-". */
const char *format_age(double seconds, char *buf, size_t size);

#endif
