/*
 * A controller that is not one: answers the tool with what a test wants it to see. It speaks the
 * real wire format (msg.h), one connection after the other, until it is killed or its parent ends.
 *
 *     fake_ctld ADDRESS answer FILE       any question is answered with FILE's text
 *     fake_ctld ADDRESS credential FILE   the same, but the question must come in a munge
 * credential fake_ctld ADDRESS refuse CODE TEXT  MSG_REFUSE fake_ctld ADDRESS greet             a
 * challenge, and then nothing fake_ctld ADDRESS silent            nothing at all fake_ctld ADDRESS
 * close             closes at once fake_ctld ADDRESS cut FILE          half of the answer fake_ctld
 * ADDRESS drip FILE         the answer, a byte each 100 ms fake_ctld ADDRESS raw FILE FILE's bytes
 * instead of a challenge fake_ctld ADDRESS rawanswer FILE    FILE's bytes instead of an answer
 *
 * ADDRESS is unix:/path or tcp (any free port of 127.0.0.1). "ready PORT" is printed once it
 * listens, and "query WHAT JOB NODE" for each question.
 */
#include "config.h"

#include "msg.h"
#include "wire.h"

#include <errno.h>
#include <munge.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what)
{
    fprintf(stderr, "fake_ctld: %s: %s\n", what, strerror(errno));
    exit(1);
}

struct bytes {
    char *data; /* with a NUL behind it */
    size_t length;
};

static struct bytes read_file(const char *path)
{
    FILE *in = path != NULL ? fopen(path, "rb") : NULL;
    struct bytes b = {NULL, 0};

    if (in == NULL || fseek(in, 0, SEEK_END) != 0)
        die(path != NULL ? path : "a file is missing");
    long size = ftell(in);
    if (size < 0 || fseek(in, 0, SEEK_SET) != 0)
        die(path);
    b.length = (size_t)size;
    b.data = malloc(b.length + 1);
    if (b.data == NULL || fread(b.data, 1, b.length, in) != b.length)
        die(path);
    b.data[b.length] = '\0';
    (void)fclose(in);
    return b;
}

static int listen_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    if (fd < 0 || strlen(path) >= sizeof(address.sun_path))
        die(path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (unlink(path) != 0 && errno != ENOENT)
        die(path);
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 8) != 0)
        die(path);
    printf("ready 0\n");
    return fd;
}

static int listen_tcp(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(fd, 8) != 0 || getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        die("tcp");
    printf("ready %u\n", (unsigned)ntohs(address.sin_port));
    return fd;
}

static void send_bytes(int fd, const void *data, size_t length)
{
    const char *from = data;

    while (length > 0) {
        ssize_t n = send(fd, from, length, MSG_NOSIGNAL);
        if (n <= 0)
            return; /* the tool has seen enough */
        from += n;
        length -= (size_t)n;
    }
}

static void drip_bytes(int fd, const uint8_t *data, size_t length)
{
    const struct timespec pause = {.tv_nsec = 100000000};

    for (size_t i = 0; i < length; i++) {
        if (send(fd, data + i, 1, MSG_NOSIGNAL) != 1)
            return;
        (void)nanosleep(&pause, NULL);
    }
}

static const uint8_t nonce[MSG_NONCE] = {9, 8, 7, 6, 5, 4, 3, 2, 1, 2, 3, 4, 5, 6, 7, 8};

static void greet(int fd, bool credential_wanted)
{
    struct wire_writer w = {0};
    struct msg_challenge challenge = {.credential_wanted = credential_wanted};

    memcpy(challenge.nonce, nonce, sizeof(nonce));
    snprintf(challenge.server, sizeof(challenge.server), "fake");
    if (msg_challenge_write(&w, &challenge) != 0)
        die("challenge");
    send_bytes(fd, w.data, w.length);
    wire_writer_free(&w);
}

/* Receive one frame into buf; false when the tool went away or sent nonsense. */
static bool receive(int fd, uint8_t *buf, size_t size, struct wire_view *view)
{
    size_t length = 0;

    for (;;) {
        ssize_t whole = wire_frame_length(buf, length, size);
        if (whole < 0)
            return false;
        if (whole > 0)
            return wire_open(view, buf, (size_t)whole) == 0;
        ssize_t n = recv(fd, buf + length, size - length, 0);
        if (n <= 0)
            return false;
        length += (size_t)n;
    }
}

/* Take the frame out of a credential; payload is then the caller's to free. */
static bool unwrap(struct wire_view *view, const char *munge_socket, void **payload)
{
    const char *text;
    size_t length;
    int size;
    uid_t uid;
    gid_t gid;

    if (view->type != MSG_CREDENTIAL || msg_credential_read(view, &text, &length) != 0)
        return false;
    char *copy = strndup(text, length);
    munge_ctx_t context = munge_ctx_create();
    munge_err_t error = copy != NULL && context != NULL ? EMUNGE_SUCCESS : EMUNGE_NO_MEMORY;
    if (error == EMUNGE_SUCCESS)
        error = munge_ctx_set(context, MUNGE_OPT_SOCKET, munge_socket);
    if (error == EMUNGE_SUCCESS)
        error = munge_decode(copy, context, payload, &size, &uid, &gid);
    free(copy);
    munge_ctx_destroy(context);
    if (error != EMUNGE_SUCCESS) {
        fprintf(stderr, "fake_ctld: %s\n", munge_strerror(error));
        return false;
    }
    printf("credential of uid %u\n", (unsigned)uid);
    return wire_open(view, *payload, (size_t)size) == 0;
}

/* munge_socket NULL: the question comes as it is */
static bool take_query(int fd, const char *munge_socket)
{
    static uint8_t buf[WIRE_SMALL_FRAME];
    struct wire_view view;
    struct msg_query query;
    void *payload = NULL;

    bool good = receive(fd, buf, sizeof(buf), &view) &&
                (munge_socket == NULL || unwrap(&view, munge_socket, &payload)) &&
                view.type == MSG_QUERY && msg_query_read(&view, &query) == 0 &&
                memcmp(query.nonce, nonce, sizeof(nonce)) == 0;
    if (good)
        printf("query %s %s %s\n", query.what, query.job[0] != '\0' ? query.job : "-",
               query.node[0] != '\0' ? query.node : "-");
    else
        printf("bad query\n");
    free(payload);
    return good;
}

static void refuse(int fd, const char *code, const char *text)
{
    struct wire_writer w = {0};
    struct msg_refuse refusal = {.code = code != NULL ? (uint32_t)atoi(code) : 0};

    snprintf(refusal.text, sizeof(refusal.text), "%s", text != NULL ? text : "");
    if (msg_refuse_write(&w, &refusal) != 0)
        die("refusal");
    send_bytes(fd, w.data, w.length);
    wire_writer_free(&w);
}

static void answer(int fd, const char *mode, const char *file)
{
    struct wire_writer w = {0};
    struct bytes content = read_file(file);

    if (strcmp(mode, "rawanswer") == 0) {
        send_bytes(fd, content.data, content.length);
    } else {
        if (msg_answer_write(&w, content.data) != 0)
            die("answer");
        if (strcmp(mode, "cut") == 0)
            send_bytes(fd, w.data, w.length / 2);
        else if (strcmp(mode, "drip") == 0)
            drip_bytes(fd, w.data, w.length);
        else
            send_bytes(fd, w.data, w.length);
    }
    wire_writer_free(&w);
    free(content.data);
}

/* Hold the connection open until the tool closes it. */
static void linger(int fd)
{
    char byte;

    while (recv(fd, &byte, 1, 0) > 0)
        ;
}

static void serve(int fd, const char *mode, const char *first, const char *second)
{
    const char *munge_socket = strcmp(mode, "credential") == 0 ? second : NULL;

    if (strcmp(mode, "close") == 0)
        return;
    if (strcmp(mode, "silent") == 0) {
        linger(fd);
        return;
    }
    if (strcmp(mode, "raw") == 0) {
        struct bytes content = read_file(first);
        send_bytes(fd, content.data, content.length);
        free(content.data);
        linger(fd);
        return;
    }
    greet(fd, munge_socket != NULL);
    if (strcmp(mode, "greet") == 0) {
        linger(fd);
        return;
    }
    if (!take_query(fd, munge_socket))
        return;
    if (strcmp(mode, "refuse") == 0)
        refuse(fd, first, second);
    else
        answer(fd, mode, first);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: fake_ctld unix:/path|tcp MODE [ARGUMENTS]\n");
        return 2;
    }
    /* never outlive the test */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        die("prctl");
    (void)alarm(120);
    if (setvbuf(stdout, NULL, _IOLBF, 0) != 0)
        die("stdout");
    int listener = strncmp(argv[1], "unix:", 5) == 0 ? listen_unix(argv[1] + 5) : listen_tcp();
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0)
            die("accept");
        serve(fd, argv[2], argc > 3 ? argv[3] : NULL, argc > 4 ? argv[4] : NULL);
        (void)close(fd);
    }
}
