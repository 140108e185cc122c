/* Tables for people: see table.h. */
#include "config.h"

#include "table.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct table {
    const struct table_column *columns;
    size_t ncolumns;
    char **cells; /* row by row */
    size_t ncells, capacity;
    bool failed; /* out of memory: the table is not complete */
};

struct table *table_new(const struct table_column *columns, size_t ncolumns)
{
    struct table *table = calloc(1, sizeof(*table));

    if (table != NULL) {
        table->columns = columns;
        table->ncolumns = ncolumns;
    }
    return table;
}

void table_free(struct table *table)
{
    if (table == NULL)
        return;
    for (size_t i = 0; i < table->ncells; i++)
        free(table->cells[i]);
    free(table->cells);
    free(table);
}

static char clean(char c)
{
    return c >= ' ' && c <= '~' ? c : '?';
}

/* A copy fit for a terminal, cut to max characters. */
static char *clean_copy(const char *text, size_t max)
{
    size_t length = strlen(text);
    bool cut = length > max;

    if (cut)
        length = max;
    char *copy = malloc(length + 1);
    if (copy == NULL)
        return NULL;
    for (size_t i = 0; i < length; i++)
        copy[i] = clean(text[i]);
    if (cut)
        copy[length - 1] = copy[length - 2] = '.';
    copy[length] = '\0';
    return copy;
}

static bool grow(struct table *table)
{
    if (table->ncells < table->capacity)
        return true;
    size_t capacity = table->capacity == 0 ? 64 : table->capacity * 2;
    char **cells = reallocarray(table->cells, capacity, sizeof(*cells));
    if (cells == NULL)
        return false;
    table->cells = cells;
    table->capacity = capacity;
    return true;
}

void table_cell(struct table *table, const char *text)
{
    if (table == NULL || table->failed)
        return;
    bool last = table->ncells % table->ncolumns == table->ncolumns - 1;
    char *copy = clean_copy(text == NULL || text[0] == '\0' ? "-" : text,
                            last ? TABLE_LAST_CELL_MAX : TABLE_CELL_MAX);
    if (copy == NULL || !grow(table)) {
        free(copy);
        table->failed = true;
        return;
    }
    table->cells[table->ncells++] = copy;
}

void table_cellf(struct table *table, const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    int n = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    table_cell(table, n < 0 ? "" : text);
}

void table_number(struct table *table, double value, int decimals)
{
    if (isnan(value))
        table_cell(table, NULL);
    else
        table_cellf(table, "%.*f", decimals, value);
}

static size_t width_of(const struct table *table, size_t column)
{
    size_t width = strlen(table->columns[column].title);

    for (size_t i = column; i < table->ncells; i += table->ncolumns) {
        size_t length = strlen(table->cells[i]);
        if (length > width)
            width = length;
    }
    return width;
}

static void print_cell(const struct table *table, size_t column, size_t width, const char *text,
                       FILE *out)
{
    bool last = column + 1 == table->ncolumns;

    if (column > 0)
        fputs("  ", out);
    if (table->columns[column].right)
        fprintf(out, "%*s", (int)width, text);
    else if (last)
        fputs(text, out);
    else
        fprintf(out, "%-*s", (int)width, text);
    if (last)
        fputc('\n', out);
}

int table_print(const struct table *table, FILE *out)
{
    if (table == NULL || table->failed || table->ncells % table->ncolumns != 0)
        return -1;
    size_t *widths = calloc(table->ncolumns, sizeof(*widths));
    if (widths == NULL)
        return -1;
    for (size_t c = 0; c < table->ncolumns; c++)
        widths[c] = width_of(table, c);
    for (size_t c = 0; c < table->ncolumns; c++)
        print_cell(table, c, widths[c], table->columns[c].title, out);
    for (size_t i = 0; i < table->ncells; i++)
        print_cell(table, i % table->ncolumns, widths[i % table->ncolumns], table->cells[i], out);
    free(widths);
    return 0;
}

void print_clean(FILE *out, const char *text, const char *fallback)
{
    for (const char *c = text != NULL ? text : fallback; *c != '\0'; c++)
        fputc(clean(*c), out);
}

const char *format_age(double seconds, char *buf, size_t size)
{
    static const struct {
        double seconds;
        const char *name;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    const size_t last = sizeof(units) / sizeof(units[0]) - 1;

    if (isnan(seconds) || seconds < 0) {
        snprintf(buf, size, "-");
        return buf;
    }
    size_t u = 0;
    while (u < last && seconds < units[u].seconds)
        u++;
    double whole = floor(seconds / units[u].seconds);
    double rest = u < last ? floor((seconds - whole * units[u].seconds) / units[u + 1].seconds) : 0;
    if (rest > 0)
        snprintf(buf, size, "%.0f %s %.0f %s", whole, units[u].name, rest, units[u + 1].name);
    else
        snprintf(buf, size, "%.0f %s", whole, units[u].name);
    return buf;
}
