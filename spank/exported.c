/* The node's topology as somebody else exported it: see exported.h. */
#include "config.h"

#include "exported.h"

#include "wire.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FRAME_SLACK 1024u /* head and digest of the message that carries the XML */

/* Open a file that only we can have written; -1 with errno (EPERM). */
static int open_trusted(const char *rundir, const char *name, struct stat *st)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", rundir, name);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (fstat(fd, st) == 0 && S_ISREG(st->st_mode) &&
        (st->st_uid == 0 || st->st_uid == geteuid()) && (st->st_mode & (S_IWGRP | S_IWOTH)) == 0)
        return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

int exported_digest(const char *rundir, char *digest, size_t size)
{
    struct stat st;
    digest[0] = '\0';
    int fd = open_trusted(rundir, "topology.digest", &st);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, digest, size - 1);
    close(fd);
    size_t length = 0;
    while (n > 0 && length < (size_t)n && isxdigit((unsigned char)digest[length]))
        length++;
    bool whole = n > 0 && length > 0 && (length == (size_t)n || digest[length] == '\n');
    digest[whole ? length : 0] = '\0';
    return whole ? 0 : -1;
}

int exported_open(struct exported *xml, const char *rundir)
{
    struct stat st;
    int fd = open_trusted(rundir, "topology.xml", &st);
    if (fd < 0)
        return -1;
    if (st.st_size <= 0 || st.st_size > (off_t)(WIRE_LARGE_FRAME - FRAME_SLACK)) {
        close(fd);
        errno = EFBIG;
        return -1;
    }
    /* read, not mapped: a file that shrinks under a mapping would kill the host program */
    size_t size = (size_t)st.st_size, length = 0;
    xml->text = malloc(size);
    while (xml->text != NULL && length < size) {
        ssize_t n = read(fd, xml->text + length, size - length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        length += (size_t)n;
    }
    close(fd);
    xml->length = length;
    if (xml->text != NULL && length == size)
        return 0;
    exported_close(xml);
    errno = EIO;
    return -1;
}

void exported_close(struct exported *xml)
{
    free(xml->text);
    xml->text = NULL;
    xml->length = 0;
}
