/* A file's content replaced as a whole: see replacefile.h. */
#include "config.h"

#include "replacefile.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool replacefile_allowed(const char *path)
{
    struct stat there;

    if (lstat(path, &there) == 0 && !S_ISREG(there.st_mode)) {
        errno = S_ISDIR(there.st_mode) ? EISDIR : EEXIST;
        return false;
    }
    return true;
}

bool replacefile_ready(const char *path)
{
    char folder[PATH_MAX];
    int n = snprintf(folder, sizeof(folder), "%s", path);

    if (n < 0 || (size_t)n >= sizeof(folder)) {
        errno = ENAMETOOLONG;
        return false;
    }
    return replacefile_allowed(path) && access(dirname(folder), W_OK | X_OK) == 0;
}

static int write_all(int fd, const uint8_t *data, size_t length)
{
    while (length > 0) {
        ssize_t n = write(fd, data, length);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        data += n;
        length -= (size_t)n;
    }
    return 0;
}

static int fill(int fd, const void *data, size_t length, bool durable)
{
    int rc = write_all(fd, data, length);

    if (rc == 0)
        rc = fchmod(fd, 0644);
    if (rc == 0 && durable)
        rc = fsync(fd);
    return rc;
}

int replacefile(const char *path, const void *data, size_t length, bool durable)
{
    char fresh[PATH_MAX];
    int fd, rc, n, why;

    if (!replacefile_allowed(path))
        return -1;
    n = snprintf(fresh, sizeof(fresh), "%s.XXXXXX", path);
    if (n < 0 || (size_t)n >= sizeof(fresh)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkostemp(fresh, O_CLOEXEC);
    if (fd < 0)
        return -1;
    rc = fill(fd, data, length, durable);
    why = errno;
    if (close(fd) != 0 && rc == 0) {
        rc = -1;
        why = errno;
    }
    if (rc == 0 && rename(fresh, path) == 0)
        return 0;
    if (rc == 0)
        why = errno;
    (void)unlink(fresh);
    errno = why;
    return -1;
}

const char *replacefile_error(int error)
{
    return error == EEXIST ? "it is there and is no regular file; it is left alone"
                           : strerror(error);
}
