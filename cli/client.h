/*
 * One question to the controller and its answer: connects over the Unix socket or TCP (there with a
 * munge credential), all under one deadline. What comes back is not trusted: the frame is bounded
 * here, the JSON in it in doc.h.
 */
#ifndef ADLOADER_CLIENT_H
#define ADLOADER_CLIENT_H

#include <stddef.h>

struct cli;

#define CLIENT_TIMEOUT_MS     5000u /* for the whole exchange, once the host name is resolved */
#define CLIENT_ENV_CONTROLLER "ADLOADER_CONTROLLER"

#define CLIENT_OTHERS_MAX 1200

/* Where the controller is, or the first of several. */
struct client_address {
    char path[108];                 /* of the Unix socket, "" : TCP */
    char host[256];                 /* TCP: name or number, without brackets */
    char port[12];                  /* TCP; "" until the configuration is asked */
    char munge_socket[256];         /* TCP: "" libmunge's default */
    unsigned default_port;          /* of the others that name none */
    char shown[300];                /* for messages */
    char others[CLIENT_OTHERS_MAX]; /* where else to ask, addresses parted by commas */
};

/*
 * Read "unix:/path", "/path", "host:port", "host" or "[v6]:port". Returns 0, or -1 with a sentence
 * in error.
 */
int client_address_parse(const char *text, struct client_address *address, char *error,
                         size_t error_size);

/* What --controller says, else the environment; NULL: neither does. *from names the one that does.
 */
const char *client_named(const struct cli *cli, const char **from);

/*
 * The addresses by --controller, else the environment (both may list several, parted by commas),
 * else the configuration's Unix socket and then its Controllers. Returns 0 or, after a complaint,
 * -1 with the exit status in *status.
 */
int client_address(const struct cli *cli, struct client_address *address, int *status);

enum client_result {
    CLIENT_OK,
    CLIENT_FAILED,  /* not reachable, too slow, or talks nonsense */
    CLIENT_REFUSED, /* it answered, and said no */
    CLIENT_UNKNOWN  /* it answered that it does not know what was asked for */
};

/*
 * Ask the first that serves; if none does, the first that at least answers. What is asked: what
 * ("status", ...), job ("", "12", "12.0") and node ("" all). On CLIENT_OK *text is the answer
 * (NUL-terminated too, free it); else error says what failed, where, and what to do.
 */
enum client_result client_query(const struct client_address *address, const char *what,
                                const char *job, const char *node, char **text, size_t *length,
                                char *error, size_t error_size);

#endif
