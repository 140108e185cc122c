/* The gradient exchange over a ring of TCP connections. */
#include "config.h"

#include "ring.h"

#include "clock.h"
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HELLO_MAGIC   0x41444c52u /* "ADLR" in the machine's own byte order: orders must agree */
#define HELLO_VERSION 1u
#define POLL_SLICE_MS 100
#define SCRATCH_BYTES (256u * 1024u)
#define STOPPING_S    10.0

/* How a connection starts, in both phases. */
struct hello {
    uint32_t magic, version;
    uint64_t token;
    uint32_t rank, ranks;
    uint32_t port; /* where this rank listens for the one before it in the ring */
    uint32_t purpose;
};
enum purpose { PURPOSE_MEET = 1, PURPOSE_RING = 2 };

/* Rank 0's answer: where the next rank in the ring listens. */
struct direction {
    uint32_t magic, length; /* length 0: at the master's own address */
    uint32_t port, reserved;
    struct sockaddr_storage address;
};

struct ring {
    struct world world;
    double step_timeout_s;
    atomic_int *stop;
    int next, previous; /* sockets; -1 in a world of one */
    uint8_t *scratch;
};

/* ---- sockets with deadlines ---------------------------------------------------------------- */

static uint64_t deadline_after(double seconds)
{
    return clock_monotonic_ns() + (uint64_t)(seconds * 1e9);
}

/* Wait for events; 0, or -1 with errno ETIMEDOUT, ECANCELED (*stop) or another. */
static int wait_for(int fd, short events, uint64_t deadline_ns, atomic_int *stop)
{
    struct pollfd entry = {.fd = fd, .events = events};

    for (;;) {
        int n;

        if (stop != NULL && atomic_load(stop) != 0) {
            errno = ECANCELED;
            return -1;
        }
        if (clock_monotonic_ns() >= deadline_ns) {
            errno = ETIMEDOUT;
            return -1;
        }
        n = poll(&entry, 1, POLL_SLICE_MS);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -1;
    }
}

static int transfer(int fd, void *data, size_t length, bool sending, uint64_t deadline_ns,
                    atomic_int *stop)
{
    uint8_t *at = data;

    while (length > 0) {
        ssize_t n;

        if (wait_for(fd, sending ? POLLOUT : POLLIN, deadline_ns, stop) < 0)
            return -1;
        n = sending ? send(fd, at, length, MSG_NOSIGNAL) : recv(fd, at, length, 0);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            continue;
        if (n == 0)
            errno = ECONNRESET;
        if (n <= 0)
            return -1;
        at += n;
        length -= (size_t)n;
    }
    return 0;
}

static int prepare(int fd)
{
    int one = 1, flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return -1;
    return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void close_socket(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

static void set_port(struct sockaddr_storage *address, uint16_t port)
{
    if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)(void *)address)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)(void *)address)->sin_port = htons(port);
}

static uint16_t get_port(const struct sockaddr_storage *address)
{
    return ntohs(address->ss_family == AF_INET6
                     ? ((const struct sockaddr_in6 *)(const void *)address)->sin6_port
                     : ((const struct sockaddr_in *)(const void *)address)->sin_port);
}

/*
 * The master's address; on the master itself only its family counts. IPv4 first, since all ranks
 * must come to the same family and resolvers differ in which they list first.
 */
static int resolve(const struct world *world, struct sockaddr_storage *address, socklen_t *length)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
    int rc = getaddrinfo(world->master, NULL, &hints, &found);

    if (rc != 0) {
        hints.ai_family = AF_INET6;
        rc = getaddrinfo(world->master, NULL, &hints, &found);
    }
    if (rc != 0) {
        log_error("cannot resolve %s, the host of rank 0: %s", world->master, gai_strerror(rc));
        return -1;
    }
    memcpy(address, found->ai_addr, found->ai_addrlen);
    *length = found->ai_addrlen;
    set_port(address, world->port);
    freeaddrinfo(found);
    return 0;
}

/* Listen on all addresses of the family (the ring's own ports are found by the kernel: port 0). */
static int listen_on(int family, uint16_t port, uint16_t *bound)
{
    struct sockaddr_storage address = {.ss_family = (sa_family_t)family};
    socklen_t length =
        family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;

    set_port(&address, port);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
        bind(fd, (struct sockaddr *)&address, length) < 0 || listen(fd, SOMAXCONN) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) < 0) {
        log_error("cannot listen at port %u for the other ranks: %s", port, strerror(errno));
        close_socket(&fd);
        return -1;
    }
    *bound = get_port(&address);
    return fd;
}

static int connect_once(const struct sockaddr_storage *address, socklen_t length,
                        uint64_t deadline_ns, atomic_int *stop)
{
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
    socklen_t size = sizeof error;

    if (fd < 0)
        return -1;
    if (connect(fd, (const struct sockaddr *)address, length) < 0) {
        if (errno != EINPROGRESS || wait_for(fd, POLLOUT, deadline_ns, stop) < 0 ||
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error != 0) {
            if (error != 0)
                errno = error;
            error = errno;
            close_socket(&fd);
            errno = error;
            return -1;
        }
    }
    if (prepare(fd) < 0)
        close_socket(&fd);
    return fd;
}

/* Until the other side listens. */
static int connect_until(const struct sockaddr_storage *address, socklen_t length,
                         uint64_t deadline_ns, atomic_int *stop)
{
    const struct timespec pause = {.tv_nsec = 50000000};

    for (;;) {
        int fd = connect_once(address, length, deadline_ns, stop);

        if (fd >= 0 || errno == ECANCELED || clock_monotonic_ns() >= deadline_ns)
            return fd;
        (void)nanosleep(&pause, NULL);
    }
}

/* ---- meeting ------------------------------------------------------------------------------- */

static struct hello own_hello(const struct world *world, uint16_t port, enum purpose purpose)
{
    return (struct hello){.magic = HELLO_MAGIC,
                          .version = HELLO_VERSION,
                          .token = world->token,
                          .rank = world->rank,
                          .ranks = world->ranks,
                          .port = port,
                          .purpose = purpose};
}

static bool is_from_our_job(const struct hello *hello, const struct world *world,
                            enum purpose purpose)
{
    return hello->magic == HELLO_MAGIC && hello->version == HELLO_VERSION &&
           hello->token == world->token && hello->ranks == world->ranks &&
           hello->rank < world->ranks && hello->purpose == (uint32_t)purpose;
}

/*
 * The next connection that introduces itself as one of ours; strangers are closed. They have a
 * second each, so that a silent one does not use up the time of all.
 */
static int accept_hello(int listener, const struct world *world, enum purpose purpose,
                        uint64_t deadline_ns, atomic_int *stop, struct hello *hello,
                        struct sockaddr_storage *from, socklen_t *from_length)
{
    for (;;) {
        uint64_t patience;
        int fd;

        if (wait_for(listener, POLLIN, deadline_ns, stop) < 0)
            return -1;
        *from_length = sizeof *from;
        fd = accept4(listener, (struct sockaddr *)from, from_length, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0)
            return -1;
        patience = deadline_after(1.0);
        if (prepare(fd) == 0 &&
            transfer(fd, hello, sizeof *hello, false,
                     patience < deadline_ns ? patience : deadline_ns, stop) == 0 &&
            is_from_our_job(hello, world, purpose))
            return fd;
        log_warning("a connection that is not of this job was closed");
        close_socket(&fd);
    }
}

/* What rank 0 knows of each rank while all meet. */
struct guest {
    int socket;
    struct direction where;
};

static bool is_loopback(const struct sockaddr_storage *address)
{
    const struct sockaddr_in *v4 = (const void *)address;
    const struct sockaddr_in6 *v6 = (const void *)address;

    if (address->ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
    return ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

static void note_absent(const struct guest *guests, const struct world *world)
{
    char text[256] = "";
    size_t length = 0;

    for (unsigned rank = 1; rank < world->ranks && length < sizeof text - 16; rank++)
        if (guests[rank].socket < 0)
            length += (size_t)snprintf(text + length, sizeof text - length, " %u", rank);
    log_error("rank 0: these ranks did not come in time:%s", text);
}

static int collect_guests(int listener, const struct world *world, struct guest *guests,
                          uint64_t deadline_ns, atomic_int *stop)
{
    for (unsigned present = 1; present < world->ranks;) {
        struct hello hello;
        struct direction where = {.magic = HELLO_MAGIC};
        socklen_t length;
        int fd = accept_hello(listener, world, PURPOSE_MEET, deadline_ns, stop, &hello,
                              &where.address, &length);

        if (fd < 0) {
            note_absent(guests, world);
            return -1;
        }
        if (hello.rank == 0 || guests[hello.rank].socket >= 0) {
            log_error("two processes say that they are rank %" PRIu32, hello.rank);
            close_socket(&fd);
            return -1;
        }
        /* who came over loopback is on this node, but to others that address means themselves */
        where.length = is_loopback(&where.address) ? 0 : length;
        where.port = hello.port;
        guests[hello.rank] = (struct guest){.socket = fd, .where = where};
        present++;
    }
    return 0;
}

/* Tell each rank where its successor listens; rank 0's own goes to where. */
static int direct_guests(const struct world *world, struct guest *guests, uint16_t own_port,
                         uint64_t deadline_ns, atomic_int *stop, struct direction *where)
{
    guests[0].where = (struct direction){.magic = HELLO_MAGIC, .port = own_port};
    *where = guests[1 % world->ranks].where;
    for (unsigned rank = 1; rank < world->ranks; rank++) {
        struct direction *answer = &guests[(rank + 1) % world->ranks].where;

        if (transfer(guests[rank].socket, answer, sizeof *answer, true, deadline_ns, stop) < 0) {
            log_error("rank 0: cannot answer rank %u: %s", rank, strerror(errno));
            return -1;
        }
    }
    return 0;
}

static int host_meeting(const struct world *world, int family, uint16_t own_port,
                        uint64_t deadline_ns, atomic_int *stop, struct direction *where)
{
    struct guest *guests = calloc(world->ranks, sizeof *guests);
    uint16_t bound;
    int listener = listen_on(family, world->port, &bound), rc = -1;

    for (unsigned rank = 0; guests != NULL && rank < world->ranks; rank++)
        guests[rank].socket = -1;
    if (guests != NULL && listener >= 0 &&
        collect_guests(listener, world, guests, deadline_ns, stop) == 0)
        rc = direct_guests(world, guests, own_port, deadline_ns, stop, where);
    for (unsigned rank = 0; guests != NULL && rank < world->ranks; rank++)
        close_socket(&guests[rank].socket);
    close_socket(&listener);
    free(guests);
    return rc;
}

static int attend_meeting(const struct world *world, const struct sockaddr_storage *master,
                          socklen_t length, uint16_t own_port, uint64_t deadline_ns,
                          atomic_int *stop, struct direction *where)
{
    struct hello hello = own_hello(world, own_port, PURPOSE_MEET);
    int fd = connect_until(master, length, deadline_ns, stop), rc = -1;

    if (fd < 0) {
        log_error("rank %u: cannot reach rank 0 at %s port %u: %s", world->rank, world->master,
                  world->port, strerror(errno));
        return -1;
    }
    if (transfer(fd, &hello, sizeof hello, true, deadline_ns, stop) < 0 ||
        transfer(fd, where, sizeof *where, false, deadline_ns, stop) < 0)
        log_error("rank %u: rank 0 did not answer: %s", world->rank, strerror(errno));
    else if (where->magic != HELLO_MAGIC || where->length > sizeof where->address ||
             where->port == 0 || where->port > 65535)
        log_error("rank %u: what answers at %s port %u is not rank 0", world->rank, world->master,
                  world->port);
    else
        rc = 0;
    close_socket(&fd);
    return rc;
}

/* ---- the ring ------------------------------------------------------------------------------ */

static int connect_next(struct ring *ring, const struct sockaddr_storage *master, socklen_t length,
                        const struct direction *where, uint64_t deadline_ns)
{
    struct sockaddr_storage address = where->length == 0 ? *master : where->address;
    struct hello hello = own_hello(&ring->world, 0, PURPOSE_RING);

    set_port(&address, (uint16_t)where->port);
    ring->next = connect_until(&address, where->length == 0 ? length : (socklen_t)where->length,
                               deadline_ns, ring->stop);
    if (ring->next < 0 ||
        transfer(ring->next, &hello, sizeof hello, true, deadline_ns, ring->stop) < 0) {
        log_error("rank %u: cannot connect to the next rank: %s", ring->world.rank,
                  strerror(errno));
        return -1;
    }
    return 0;
}

static int accept_previous(struct ring *ring, int listener, uint64_t deadline_ns)
{
    unsigned expected = (ring->world.rank + ring->world.ranks - 1) % ring->world.ranks;
    struct sockaddr_storage from;
    socklen_t length;
    struct hello hello;

    ring->previous = accept_hello(listener, &ring->world, PURPOSE_RING, deadline_ns, ring->stop,
                                  &hello, &from, &length);
    if (ring->previous < 0) {
        log_error("rank %u: rank %u did not connect: %s", ring->world.rank, expected,
                  strerror(errno));
        return -1;
    }
    if (hello.rank != expected) {
        log_error("rank %u: rank %" PRIu32 " connected instead of rank %u", ring->world.rank,
                  hello.rank, expected);
        return -1;
    }
    return 0;
}

/* On every rank: listen, meet, connect to the next, accept the previous one. */
static int build_ring(struct ring *ring, uint64_t deadline_ns)
{
    const struct world *world = &ring->world;
    struct sockaddr_storage master;
    struct direction where;
    socklen_t length;
    uint16_t port = 0;
    int listener, rc;

    if (resolve(world, &master, &length) < 0)
        return -1;
    listener = listen_on(master.ss_family, 0, &port);
    if (listener < 0)
        return -1;
    if (world->rank == 0)
        rc = host_meeting(world, master.ss_family, port, deadline_ns, ring->stop, &where);
    else
        rc = attend_meeting(world, &master, length, port, deadline_ns, ring->stop, &where);
    if (rc == 0)
        rc = connect_next(ring, &master, length, &where, deadline_ns);
    if (rc == 0)
        rc = accept_previous(ring, listener, deadline_ns);
    close_socket(&listener);
    return rc;
}

struct ring *ring_join(const struct world *world, double timeout_s, double step_timeout_s,
                       atomic_int *stop)
{
    struct ring *ring = calloc(1, sizeof *ring);

    if (ring == NULL) {
        log_error("out of memory");
        return NULL;
    }
    ring->world = *world;
    ring->step_timeout_s = step_timeout_s;
    ring->stop = stop;
    ring->next = ring->previous = -1;
    if (world->ranks == 1)
        return ring;
    ring->scratch = malloc(SCRATCH_BYTES);
    if (ring->scratch == NULL || build_ring(ring, deadline_after(timeout_s)) < 0) {
        ring_leave(ring);
        return NULL;
    }
    return ring;
}

void ring_leave(struct ring *ring)
{
    if (ring == NULL)
        return;
    close_socket(&ring->next);
    close_socket(&ring->previous);
    free(ring->scratch);
    free(ring);
}

/* ---- exchanges ----------------------------------------------------------------------------- */

/* What one round sends to the next rank and takes from the previous one, at the same time. */
struct round {
    const uint8_t *out;
    size_t out_left;
    uint8_t *in; /* bytes are stored here, or, if add is set, added as floats */
    size_t in_left;
    bool add;
    size_t partial; /* bytes in scratch that do not make a float yet */
};

static void take(struct ring *ring, struct round *round, size_t bytes)
{
    size_t whole, total = round->partial + bytes;
    float *sums = (float *)(void *)round->in;

    round->in_left -= bytes;
    if (!round->add) {
        round->in += bytes;
        return;
    }
    whole = total / sizeof(float);
    for (size_t i = 0; i < whole; i++) {
        float value;

        memcpy(&value, ring->scratch + i * sizeof value, sizeof value);
        sums[i] += value;
    }
    round->in += whole * sizeof(float);
    round->partial = total % sizeof(float);
    memmove(ring->scratch, ring->scratch + whole * sizeof(float), round->partial);
}

/* The result of send() or recv() that moved nothing: 0 to go on, or -1 with the reason logged. */
static int judge(const struct ring *ring, ssize_t n, unsigned rank)
{
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return 0;
    log_error("rank %u: lost rank %u in the gradient exchange: %s", ring->world.rank, rank,
              n == 0 ? "it closed the connection" : strerror(errno));
    return -1;
}

static int move_out(const struct ring *ring, struct round *round)
{
    ssize_t n = send(ring->next, round->out, round->out_left, MSG_NOSIGNAL);

    if (n <= 0)
        return judge(ring, n, (ring->world.rank + 1) % ring->world.ranks);
    round->out += n;
    round->out_left -= (size_t)n;
    return 0;
}

static int move_in(struct ring *ring, struct round *round)
{
    uint8_t *target = round->add ? ring->scratch + round->partial : round->in;
    size_t room = round->add ? SCRATCH_BYTES - round->partial : round->in_left;
    ssize_t n = recv(ring->previous, target, room < round->in_left ? room : round->in_left, 0);

    if (n <= 0)
        return judge(ring, n, (ring->world.rank + ring->world.ranks - 1) % ring->world.ranks);
    take(ring, round, (size_t)n);
    return 0;
}

/* Who was asked to stop waits for the others' last step, but not for one that never comes. */
static uint64_t hurry_if_stopping(const struct ring *ring, uint64_t deadline_ns)
{
    uint64_t soon = deadline_after(STOPPING_S);

    return atomic_load(ring->stop) != 0 && soon < deadline_ns ? soon : deadline_ns;
}

static int run_round(struct ring *ring, struct round *round)
{
    uint64_t deadline_ns = deadline_after(ring->step_timeout_s);

    while (round->out_left > 0 || round->in_left > 0) {
        struct pollfd entries[2] = {
            {.fd = round->out_left > 0 ? ring->next : -1, .events = POLLOUT},
            {.fd = round->in_left > 0 ? ring->previous : -1, .events = POLLIN},
        };
        int n = poll(entries, 2, POLL_SLICE_MS);

        if (n < 0 && errno != EINTR) {
            log_error("rank %u: poll: %s", ring->world.rank, strerror(errno));
            return -1;
        }
        if (n > 0) {
            if (entries[0].revents != 0 && move_out(ring, round) < 0)
                return -1;
            if (entries[1].revents != 0 && move_in(ring, round) < 0)
                return -1;
            deadline_ns = deadline_after(ring->step_timeout_s);
            continue;
        }
        deadline_ns = hurry_if_stopping(ring, deadline_ns);
        if (clock_monotonic_ns() >= deadline_ns) {
            log_error("rank %u: rank %u has been silent for too long (--peer-timeout): giving up",
                      ring->world.rank,
                      (ring->world.rank + ring->world.ranks - 1) % ring->world.ranks);
            return -1;
        }
    }
    return 0;
}

/* Chunk number i of count values: the first ones are one longer where it does not divide. */
static size_t chunk_start(size_t count, unsigned ranks, unsigned i)
{
    size_t each = count / ranks, longer = count % ranks;
    return each * i + (i < longer ? i : longer);
}

static struct round sum_round(const struct ring *ring, float *values, size_t count, unsigned out,
                              unsigned in, bool add)
{
    unsigned ranks = ring->world.ranks;
    size_t out_start = chunk_start(count, ranks, out), in_start = chunk_start(count, ranks, in);

    return (struct round){
        .out = (const uint8_t *)(values + out_start),
        .out_left = (chunk_start(count, ranks, out + 1) - out_start) * sizeof *values,
        .in = (uint8_t *)(values + in_start),
        .in_left = (chunk_start(count, ranks, in + 1) - in_start) * sizeof *values,
        .add = add,
    };
}

int ring_sum(struct ring *ring, float *values, size_t count)
{
    unsigned ranks = ring->world.ranks, rank = ring->world.rank;

    for (unsigned step = 0; step + 1 < ranks; step++) { /* reduce-scatter */
        struct round round = sum_round(ring, values, count, (rank + ranks - step) % ranks,
                                       (rank + 2 * ranks - step - 1) % ranks, true);
        if (run_round(ring, &round) < 0)
            return -1;
    }
    for (unsigned step = 0; step + 1 < ranks; step++) { /* all-gather */
        struct round round = sum_round(ring, values, count, (rank + 1 + ranks - step) % ranks,
                                       (rank + ranks - step) % ranks, false);
        if (run_round(ring, &round) < 0)
            return -1;
    }
    return 0;
}

int ring_gather(struct ring *ring, void *blocks, size_t size)
{
    unsigned ranks = ring->world.ranks, rank = ring->world.rank;
    uint8_t *bytes = blocks;

    for (unsigned step = 0; step + 1 < ranks; step++) {
        struct round round = {.out = bytes + size * ((rank + ranks - step) % ranks),
                              .out_left = size,
                              .in = bytes + size * ((rank + 2 * ranks - step - 1) % ranks),
                              .in_left = size};
        if (run_round(ring, &round) < 0)
            return -1;
    }
    return 0;
}
