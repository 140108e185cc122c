/* Direct contact between lenders and borrowers: see loan.h. */
#include "config.h"

#include "loan.h"

#include "clock.h"
#include "log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MESSAGE_MAX 8192 /* bytes: enough for every other of 2000 CPUs */
#define BACKLOG     64
#define SWEEP_MAX   256u

/* ---- addresses ---- */

#define NAME_SIZE 64

static void socket_name(uint32_t job, uint32_t step, char *name, size_t size)
{
    snprintf(name, size, "%" PRIu32 ".%" PRIu32 ".sock", job, step);
}

/* By the directory's descriptor, so that a long run directory does not matter. */
static void socket_address(const struct nodedir *node, const char *name,
                           struct sockaddr_un *address)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    snprintf(address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d/%.*s", node->fd,
             NAME_SIZE, name);
}

/* Only a process of our own user, which is root in real life, is what it says it is. */
static bool trusted(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

/* ---- life ---- */

void loans_init(struct loans *l, const struct nodedir *node, uint32_t job, uint32_t step,
                const struct cpus *own)
{
    memset(l, 0, sizeof *l);
    l->node = node;
    l->job = job;
    l->step = step;
    l->own = own;
    l->listener = -1;
}

int loans_listen(struct loans *l)
{
    struct sockaddr_un address;
    char name[NAME_SIZE], fresh[NAME_SIZE];
    int dir = l->node->fd;
    if (dir < 0) {
        errno = ENOENT;
        return -1;
    }
    socket_name(l->job, l->step, name, sizeof name);
    snprintf(fresh, sizeof fresh, "%" PRIu32 ".%" PRIu32 ".new", l->job, l->step);
    if (unlinkat(dir, fresh, 0) < 0 && errno != ENOENT)
        return -1;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    socket_address(l->node, fresh, &address);
    /* it gets its name when it can be reached: a name without a listener is a left one */
    if (bind(fd, (const struct sockaddr *)&address, sizeof address) < 0 ||
        listen(fd, BACKLOG) < 0 || renameat(dir, fresh, dir, name) < 0) {
        int saved = errno;
        (void)unlinkat(dir, fresh, 0);
        close(fd);
        errno = saved;
        return -1;
    }
    l->listener = fd;
    return 0;
}

/* Has the socket of that name lost its listener? */
static bool is_left(const struct nodedir *node, const char *name)
{
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    socket_address(node, name, &address);
    bool left =
        connect(fd, (const struct sockaddr *)&address, sizeof address) < 0 && errno == ECONNREFUSED;
    close(fd);
    return left;
}

/* Call with the name of each socket of the directory, SWEEP_MAX at most. */
static void each_socket(const struct nodedir *node, void (*call)(const char *name, void *arg),
                        void *arg)
{
    int fd = node->fd >= 0 ? openat(node->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    unsigned looks = 0;
    if (dir == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    while ((entry = readdir(dir)) != NULL && looks < SWEEP_MAX) {
        size_t length = strlen(entry->d_name);
        if (length < 6 || length >= NAME_SIZE || strcmp(entry->d_name + length - 5, ".sock") != 0)
            continue;
        looks++;
        call(entry->d_name, arg);
    }
    closedir(dir);
}

static void sweep_one(const char *name, void *arg)
{
    const struct nodedir *node = arg;
    if (is_left(node, name) && unlinkat(node->fd, name, 0) < 0)
        log_debug("%s cannot be removed: %s", name, strerror(errno));
}

void loans_sweep(const struct nodedir *node)
{
    struct nodedir here = *node;
    each_socket(node, sweep_one, &here);
}

static void drop_borrower(struct loans *l, unsigned i)
{
    close(l->borrowers[i].fd);
    cpus_free(&l->borrowers[i].cpus);
    l->borrowers[i] = l->borrowers[--l->nborrowers];
}

static void drop_lender(struct loans *l, unsigned i)
{
    close(l->lenders[i].fd);
    cpus_free(&l->lenders[i].cpus);
    l->lenders[i] = l->lenders[--l->nlenders];
}

static void stop_listening(struct loans *l)
{
    char name[NAME_SIZE];
    if (l->listener < 0)
        return;
    socket_name(l->job, l->step, name, sizeof name);
    if (unlinkat(l->node->fd, name, 0) < 0 && errno != ENOENT)
        log_debug("%s cannot be removed: %s", name, strerror(errno));
    close(l->listener);
    l->listener = -1;
}

void loans_free(struct loans *l)
{
    while (l->nborrowers > 0)
        drop_borrower(l, l->nborrowers - 1);
    while (l->nlenders > 0)
        drop_lender(l, l->nlenders - 1);
    stop_listening(l);
}

/* ---- as a borrower ---- */

static struct loan_lender *find_lender(struct loans *l, uint32_t job, uint32_t step)
{
    for (unsigned i = 0; i < l->nlenders; i++)
        if (l->lenders[i].job == job && l->lenders[i].step == step)
            return &l->lenders[i];
    return NULL;
}

/* "WORD JOB STEP CPUS" */
static int say(const struct loans *l, int fd, const char *word, const struct cpus *cpus)
{
    char text[MESSAGE_MAX];
    char *list = cpus_to_string(cpus);
    if (list == NULL)
        return -1;
    int n =
        snprintf(text, sizeof text, "%s %" PRIu32 " %" PRIu32 " %s", word, l->job, l->step, list);
    free(list);
    if (n < 0 || (size_t)n >= sizeof text) {
        errno = EMSGSIZE;
        return -1;
    }
    return send(fd, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) == n ? 0 : -1;
}

/* Connect to the socket of that name and say it there; the connection, or -1. */
static int reach(const struct loans *l, const char *name, const char *word, const struct cpus *cpus)
{
    struct sockaddr_un address;
    if (l->node->fd < 0) {
        errno = ENOENT;
        return -1;
    }
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    socket_address(l->node, name, &address);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) < 0 || !trusted(fd) ||
        say(l, fd, word, cpus) < 0) {
        int saved = errno;
        close(fd);
        errno = saved;
        return -1;
    }
    return fd;
}

int loans_borrow(struct loans *l, const struct msg_loan *loan)
{
    struct loan_lender *lender = find_lender(l, loan->job, loan->step);
    struct cpus cpus = CPUS_EMPTY;
    char name[NAME_SIZE];
    if (lender != NULL && lender->over)
        return -1;
    if (lender != NULL && cpus_equal(&lender->cpus, &loan->cpus))
        return 0;
    if (cpus_copy(&cpus, &loan->cpus) < 0)
        return -1;
    if (lender != NULL) {
        if (say(l, lender->fd, "borrow", &cpus) == 0) {
            cpus_move(&lender->cpus, &cpus);
            return 0;
        }
    } else if (l->nlenders < MSG_LOANS_MAX) {
        socket_name(loan->job, loan->step, name, sizeof name);
        int fd = reach(l, name, "borrow", &loan->cpus);
        if (fd >= 0) {
            l->lenders[l->nlenders++] =
                (struct loan_lender){.fd = fd, .job = loan->job, .step = loan->step, .cpus = cpus};
            return 0;
        }
    }
    cpus_free(&cpus);
    return -1;
}

static bool listed(const struct loan_lender *lender, const struct msg_loan *loans, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (loans[i].job == lender->job && loans[i].step == lender->step)
            return true;
    return false;
}

void loans_keep(struct loans *l, const struct msg_loan *loans, unsigned n)
{
    for (unsigned i = l->nlenders; i-- > 0;)
        if (l->lenders[i].over || !listed(&l->lenders[i], loans, n))
            drop_lender(l, i);
}

void loans_keep_living(struct loans *l)
{
    for (unsigned i = l->nlenders; i-- > 0;)
        if (l->lenders[i].over)
            drop_lender(l, i);
}

/* Whatever comes from a lender, or its end, ends the loan. */
static void hear_lender(struct loans *l, struct loan_lender *lender, struct cpus *ended)
{
    char word[16];
    ssize_t n = recv(lender->fd, word, sizeof word, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    lender->over = true;
    if (n == 4 && memcmp(word, "mine", 4) == 0)
        l->evicted = true;
    if (cpus_or(ended, &lender->cpus) < 0)
        log_warning("no memory to note the end of a loan: noted at the next occasion");
}

/* ---- as a lender ---- */

void loans_recall(struct loans *l)
{
    stop_listening(l); /* ends those not accepted yet, too */
    for (unsigned i = l->nborrowers; i-- > 0;)
        if (send(l->borrowers[i].fd, "go", 2, MSG_NOSIGNAL | MSG_DONTWAIT) != 2)
            drop_borrower(l, i); /* it is gone, or hears of the end by that of the connection */
}

static void accept_borrowers(struct loans *l)
{
    for (unsigned i = 0; i < BACKLOG; i++) {
        int fd = accept4(l->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        if (l->nborrowers == LOAN_BORROWERS_MAX || !trusted(fd)) {
            close(fd);
            continue;
        }
        l->borrowers[l->nborrowers++] = (struct loan_borrower){.fd = fd};
    }
}

/*
 * Read "WORD JOB STEP CPUS" into the rest. 1 if that came, 0 nothing has come yet, -1 it has gone
 * or makes no sense.
 */
static int read_words(int fd, char word[8], uint32_t *job, uint32_t *step, struct cpus *cpus)
{
    char text[MESSAGE_MAX];
    int at = -1;
    ssize_t n = recv(fd, text, sizeof text - 1, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return -1;
    text[n] = '\0';
    if (sscanf(text, "%7s %" SCNu32 " %" SCNu32 " %n", word, job, step, &at) != 3 || at < 0)
        return -1;
    return cpus_parse(cpus, text + at) == 0 ? 1 : -1;
}

/* Somebody borrows these from us. False: that cannot be. */
static bool note_borrower(const struct loans *l, struct loan_borrower *b, struct cpus *cpus)
{
    if (cpus_is_empty(cpus) || !cpus_is_subset(cpus, l->own)) {
        log_debug("step %u.%u wants to borrow CPUs that are not ours", (unsigned)b->job,
                  (unsigned)b->step);
        return false;
    }
    cpus_move(&b->cpus, cpus);
    return true;
}

/* They are their owner's, whoever let us have them. Ours stay: then both are owners. */
static void note_claim(struct loans *l, struct cpus *cpus, struct cpus *ended)
{
    cpus_andnot(cpus, l->own);
    if (cpus_is_empty(cpus))
        return;
    l->evicted = true;
    if (cpus_or(ended, cpus) < 0)
        log_warning("no memory to note an owner's claim");
}

/* False: it has gone, makes no sense, or has said all that it had to say. */
static bool hear_borrower(struct loans *l, struct loan_borrower *b, struct cpus *ended)
{
    struct cpus cpus = CPUS_EMPTY;
    char word[8];
    bool stays = false;
    int came = read_words(b->fd, word, &b->job, &b->step, &cpus);
    if (came == 0)
        return true;
    if (came > 0 && strcmp(word, "borrow") == 0)
        stays = note_borrower(l, b, &cpus);
    else if (came > 0 && strcmp(word, "mine") == 0 && ended != NULL)
        note_claim(l, &cpus, ended);
    cpus_free(&cpus);
    return stays;
}

unsigned loans_wait(struct loans *l, unsigned ms)
{
    struct pollfd fds[LOAN_BORROWERS_MAX];
    uint64_t until = clock_monotonic_ms() + ms;
    while (l->nborrowers > 0) {
        uint64_t now = clock_monotonic_ms();
        unsigned n = l->nborrowers;
        for (unsigned i = 0; i < n; i++)
            fds[i] = (struct pollfd){.fd = l->borrowers[i].fd, .events = POLLIN};
        if (now >= until || poll(fds, n, (int)(until - now)) <= 0)
            break;
        for (unsigned i = n; i-- > 0;)
            if (fds[i].revents != 0 && !hear_borrower(l, &l->borrowers[i], NULL))
                drop_borrower(l, i);
    }
    return l->nborrowers;
}

unsigned loans_reclaim(struct loans *l, const struct cpus *cpus)
{
    unsigned asked = 0;
    for (unsigned i = l->nborrowers; i-- > 0;) {
        if (!cpus_intersects(&l->borrowers[i].cpus, cpus))
            continue;
        if (send(l->borrowers[i].fd, "mine", 4, MSG_NOSIGNAL | MSG_DONTWAIT) == 4)
            asked++;
        else if (errno != EAGAIN) /* then it has been asked often enough already */
            drop_borrower(l, i);
    }
    return asked;
}

struct claim {
    const struct loans *l;
    const struct cpus *cpus;
};

static void claim_from(const char *name, void *arg)
{
    const struct claim *claim = arg;
    char ours[NAME_SIZE];
    socket_name(claim->l->job, claim->l->step, ours, sizeof ours);
    int fd = strcmp(name, ours) != 0 ? reach(claim->l, name, "mine", claim->cpus) : -1;
    if (fd >= 0)
        close(fd);
}

void loans_claim(const struct loans *l, const struct cpus *cpus)
{
    struct claim claim = {l, cpus};
    each_socket(l->node, claim_from, &claim);
}

/* ---- both ---- */

unsigned loans_poll(const struct loans *l, struct pollfd *fds)
{
    unsigned n = 0;
    fds[n++] = (struct pollfd){.fd = l->listener, .events = POLLIN};
    for (unsigned i = 0; i < l->nborrowers; i++)
        fds[n++] = (struct pollfd){.fd = l->borrowers[i].fd, .events = POLLIN};
    for (unsigned i = 0; i < l->nlenders; i++)
        fds[n++] = (struct pollfd){.fd = l->lenders[i].fd, .events = POLLIN};
    return n;
}

void loans_ready(struct loans *l, const struct pollfd *fds, unsigned n, struct cpus *ended,
                 bool *gone)
{
    unsigned borrowers = l->nborrowers, lenders = l->nlenders;
    if (n != 1 + borrowers + lenders)
        return;
    for (unsigned i = 0; i < lenders; i++)
        if (fds[1 + borrowers + i].revents != 0)
            hear_lender(l, &l->lenders[i], ended);
    for (unsigned i = borrowers; i-- > 0;)
        if (fds[1 + i].revents != 0 && !hear_borrower(l, &l->borrowers[i], ended)) {
            drop_borrower(l, i);
            *gone = true;
        }
    if (fds[0].revents != 0)
        accept_borrowers(l);
}
