/*
 * adloader.conf: Key=Value lines in the style of slurm.conf, keys in any case, '#' comments (at the
 * start of a line or after a space), read with inih. One table (conf_keys()) names every key with
 * its type, bounds, default and meaning; the manual page and --show-config follow it. Unknown keys,
 * keys that come twice and values out of bounds are refused with file, line and what is allowed;
 * nothing is half applied.
 *
 *     NodeName=n[1-4] PoolCores=0-1 ReservedCores=7 MainCoresPerTask=2
 *
 * overrides for some nodes; all pairs stand on that one line. Times are numbers of seconds as in
 * slurm.conf, or have a unit: "5", "0.25", "5s", "250ms".
 */
#ifndef ADLOADER_CONF_H
#define ADLOADER_CONF_H

#include "cpus.h"
#include "log.h"
#include "netaddr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CONF_DEFAULT_FILE   ADL_SYSCONFDIR "/adloader/adloader.conf" /* see --sysconfdir */
#define CONF_DEFAULT_RUNDIR ADL_RUNDIR                               /* see --with-rundir */
#define CONF_DEFAULT_PORT   6830
#define CONF_FILE_MAX       (1024u * 1024u) /* bytes of a file */
#define CONF_NODES_MAX      65536u          /* names of a host list, and nodes of a file */

#define CONF_CONTROLLERS_MAX 4
#define CONF_HOST_MAX        NETADDR_HOST_MAX
#define CONF_ADDRESS_TEXT    (CONF_HOST_MAX + 8)

enum conf_sacct { CONF_SACCT_ADMIN_COMMENT, CONF_SACCT_COMMENT, CONF_SACCT_NONE };

enum conf_policy {
    CONF_POLICY_GPU_BUSY,
    CONF_POLICY_NASH,
    CONF_POLICY_MAX_MIN,
    CONF_POLICY_MAKESPAN,
    CONF_POLICY_EVEN,
    CONF_POLICY_STATIC
};
enum conf_guarantee { CONF_GUARANTEE_OWN, CONF_GUARANTEE_EVEN, CONF_GUARANTEE_NONE };
enum conf_scope { CONF_SCOPE_NODE, CONF_SCOPE_JOB }; /* between whom cores move */
enum conf_log_target { CONF_LOG_STDERR, CONF_LOG_SYSLOG };

struct conf_node {
    char *name;              /* one node's name, host lists already expanded */
    struct cpus pool;        /* PoolCores: extra cores for everybody's loaders */
    struct cpus reserved;    /* ReservedCores: never given to loaders */
    int main_cores_per_task; /* -1: as the global value */
};

struct conf {
    /* where the controller listens and whom it admits */
    char *socket;         /* ControllerSocket, path of the Unix socket */
    char *listen_address; /* ListenAddress, "" all addresses, "none" no TCP */
    unsigned port;        /* ControllerPort */
    char *controllers;    /* Controllers, "" this one alone; see conf_controllers() */
    char *munge_socket;   /* MungeSocket, "" libmunge's default */
    char *pid_file;       /* PidFile, "" none */
    char *state_dir;      /* StateDir, topologies and profiles by name */
    char *slurm_user;     /* SlurmUser: also admitted beside root; "" none */
    unsigned max_agents;  /* MaxAgents */
    /* log */
    enum conf_log_target log_target; /* LogTarget */
    enum log_level log_level;        /* LogLevel */
    /* times, milliseconds */
    unsigned lease_ms;  /* LeaseTime: after this long without contact agents return to own cores */
    unsigned report_ms; /* ReportInterval */
    unsigned scan_ms;   /* ScanInterval: how often agents look for new loader tasks */
    unsigned ack_ms;    /* AckTimeout: how long a shrinking member may take */
    unsigned settle_ms; /* SettleTime: after a restart, wait for agents before changing anything */
    unsigned
        takeover_ms;   /* TakeoverTime: silence of a controller after which the next one serves */
    unsigned learn_ms; /* LearnTime: a step without hints keeps its own cores this long */
    unsigned hold_ms;  /* MinHoldTime: between two changes that only a measurement asks for */
    /* allocation */
    enum conf_policy policy;       /* Policy */
    enum conf_guarantee guarantee; /* Guarantee */
    enum conf_scope scope;         /* Scope */
    unsigned main_cores_per_task;  /* MainCoresPerTask */
    double min_gain;               /* MinGain: relative gain below which nothing moves */
    /* the job's record in Slurm's accounting */
    enum conf_sacct sacct_field; /* SacctField */
    unsigned sacct_interval_ms;  /* SacctInterval: between two writes for the same job */
    unsigned sacct_rate;         /* SacctRate: writes a second, all jobs together */
    unsigned sacct_retry_ms;     /* SacctRetryTime: then a record is given up */
    struct conf_node *nodes;
    size_t nnodes;
    /* where it was said; see conf_where() */
    char *file;
    unsigned *lines; /* by index into conf_keys(): 0 not said */
};

/*
 * Read file (NULL: CONF_DEFAULT_FILE, and its absence means defaults). Returns a new configuration
 * that the caller frees, or NULL with all complaints, a line each ("file:line: ..."), in error;
 * those that do not fit are counted in a last line. nodes is sorted by name.
 */
struct conf *conf_read(const char *file, char *error, size_t error_size);
void conf_free(struct conf *conf);

struct conf_address {
    char host[CONF_HOST_MAX]; /* name or number, without brackets */
    unsigned port;
};

/* Read "HOST", "HOST:PORT" or "[v6]:PORT", port being the default one. False: it is none of them.
 */
bool conf_address_parse(const char *text, size_t length, unsigned port,
                        struct conf_address *address);

/* "HOST:PORT" or "[v6]:PORT" into buf, which it returns. */
const char *conf_address_text(const struct conf_address *address, char *buf, size_t size);

/* The addresses of Controllers, in order. How many there are. */
int conf_controllers(const struct conf *conf, struct conf_address list[CONF_CONTROLLERS_MAX]);

/* "FILE:LINE: " into buf, which it returns, to say what is wrong with that key's value; "" where
 * its default is in force. */
const char *conf_where(const struct conf *conf, const char *key, char *buf, size_t size);

/* The entry for a node, or NULL. */
const struct conf_node *conf_node(const struct conf *conf, const char *name);

/* Print "Key=Value" of everything in force, for --show-config. */
struct _IO_FILE;
int conf_print(const struct conf *conf, struct _IO_FILE *out);

const char *conf_policy_name(enum conf_policy policy);
int conf_policy_parse(const char *name); /* -1 unknown */
const char *conf_guarantee_name(enum conf_guarantee guarantee);
int conf_guarantee_parse(const char *name);

/* What the file may say: on lines of their own (conf_keys), on a NodeName line (conf_node_keys). */
enum conf_kind {
    CONF_KIND_SOCKET,      /* absolute path that fits into a Unix socket's address */
    CONF_KIND_FILE,        /* absolute path of a file */
    CONF_KIND_FOLDER,      /* absolute path of a folder */
    CONF_KIND_ADDRESS,     /* host name or IP address of one host, "none" */
    CONF_KIND_CONTROLLERS, /* HOST[:PORT],... */
    CONF_KIND_USER,
    CONF_KIND_COUNT,    /* whole number, min to max */
    CONF_KIND_TIME,     /* min to max in milliseconds */
    CONF_KIND_FRACTION, /* 0 to 1 */
    CONF_KIND_POLICY,
    CONF_KIND_GUARANTEE,
    CONF_KIND_SCOPE,
    CONF_KIND_LOG_TARGET,
    CONF_KIND_LOG_LEVEL,
    CONF_KIND_SACCT_FIELD,
    CONF_KIND_CPUS, /* CPU list */
};

struct conf_key {
    const char *name;
    enum conf_kind kind;
    unsigned min, max;  /* of counts and times; of paths, addresses and users min 0: may be empty */
    const char *preset; /* default as the file would say it; NULL: that of all nodes */
    const char *meaning; /* one line */
    size_t offset;       /* of the value in struct conf or struct conf_node */
};

const struct conf_key *conf_keys(size_t *count);
const struct conf_key *conf_node_keys(size_t *count);

/* What the key's value may be, in words: "a whole number from 1 to 65535". Length as snprintf. */
int conf_key_allowed(const struct conf_key *key, char *buf, size_t size);

/*
 * Expand a Slurm host list "n[1-3,7],gpu01" to names. Returns a NULL-terminated array (free with
 * conf_hostlist_free) or NULL (EINVAL, ENOMEM, ERANGE past CONF_NODES_MAX names). Several brackets
 * in a name, "r[1-2]n[01-16]", multiply.
 */
char **conf_hostlist(const char *text, size_t *count);
void conf_hostlist_free(char **names);

#endif
