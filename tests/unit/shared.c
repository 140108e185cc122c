/* Where recorded machines and tables are. See shared.h. */
#include "shared.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

bool shared_path(char *path, size_t size, const char *format, ...)
{
    const char *dir = getenv("ADLOADER_SHARED"), *source = getenv("ADL_SRCDIR");
    char name[256];
    va_list ap;
    int n;

    va_start(ap, format);
    n = vsnprintf(name, sizeof(name), format, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof(name))
        return false;
    if (dir != NULL)
        n = snprintf(path, size, "%s/%s", dir, name);
    else
        n = snprintf(path, size, "%s/../shared/%s", source != NULL ? source : ".", name);
    if (n < 0 || (size_t)n >= size)
        return false;
    if (access(path, R_OK) == 0)
        return true;
    printf("# %s is not there (set ADLOADER_SHARED): skipped\n", name);
    return false;
}

char *shared_read(const char *path, size_t *length)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    long size;

    if (f == NULL)
        return NULL;
    if (fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) >= 0 && fseek(f, 0, SEEK_SET) == 0) {
        text = malloc((size_t)size + 1);
        if (text != NULL) {
            *length = fread(text, 1, (size_t)size, f);
            text[*length] = '\0';
        }
    }
    (void)fclose(f);
    return text;
}
