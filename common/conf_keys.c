/* The table of the configuration file's keys, and how a value of each kind is read and written. */
#include "conf_keys.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#define PATH_LENGTH_MAX    4095u
#define SOCKET_LENGTH_MAX  (sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1)
#define ADDRESS_LENGTH_MAX 255u
#define USER_LENGTH_MAX    255u
#define LIST_LENGTH_MAX    (CONF_CONTROLLERS_MAX * (CONF_ADDRESS_TEXT + 1u))
#define HOUR_MS            3600000u
#define WEEK_MS            604800000u

#define TEXT_OF_TOKEN(token) #token
#define TEXT_OF(macro)       TEXT_OF_TOKEN(macro)

#define IN_CONF(member) offsetof(struct conf, member)
#define IN_NODE(member) offsetof(struct conf_node, member)

static const struct conf_key keys[] = {
    {"ControllerSocket", CONF_KIND_SOCKET, 1, 0, CONF_DEFAULT_RUNDIR "/ctld.sock",
     "Unix socket on which agents and tools of this host reach the controller", IN_CONF(socket)},
    {"ListenAddress", CONF_KIND_ADDRESS, 0, 0, "none",
     "address on which agents of other hosts reach it; empty: all addresses, none: no TCP",
     IN_CONF(listen_address)},
    {"ControllerPort", CONF_KIND_COUNT, 1, 65535, TEXT_OF(CONF_DEFAULT_PORT),
     "TCP port of the controller", IN_CONF(port)},
    {"Controllers", CONF_KIND_CONTROLLERS, 0, 0, "",
     "all controllers in order, the same on each; the first one that lives serves; empty: this one",
     IN_CONF(controllers)},
    {"MungeSocket", CONF_KIND_SOCKET, 0, 0, "", "socket of munged; empty: munge's default",
     IN_CONF(munge_socket)},
    {"PidFile", CONF_KIND_FILE, 0, 0, "", "file that gets the process id; empty: none",
     IN_CONF(pid_file)},
    {"StateDir", CONF_KIND_FOLDER, 1, 0, "/var/lib/adloader",
     "directory of what outlives a restart: topologies and profiles", IN_CONF(state_dir)},
    {"SlurmUser", CONF_KIND_USER, 0, 0, "slurm",
     "user admitted beside root, if there is such a user; empty: none", IN_CONF(slurm_user)},
    {"MaxAgents", CONF_KIND_COUNT, 1, 1000000, "100000", "connections admitted at a time",
     IN_CONF(max_agents)},
    {"LogTarget", CONF_KIND_LOG_TARGET, 0, 0, "stderr", "where messages go", IN_CONF(log_target)},
    {"LogLevel", CONF_KIND_LOG_LEVEL, 0, 0, "info", "least grave messages that are written",
     IN_CONF(log_level)},
    {"LeaseTime", CONF_KIND_TIME, 100, HOUR_MS, "5s",
     "after this long without contact a step returns to the cores that Slurm gave it",
     IN_CONF(lease_ms)},
    {"ReportInterval", CONF_KIND_TIME, 50, HOUR_MS, "1s", "how often agents report",
     IN_CONF(report_ms)},
    {"ScanInterval", CONF_KIND_TIME, 10, HOUR_MS, "1s",
     "how often agents look for new loader tasks", IN_CONF(scan_ms)},
    {"AckTimeout", CONF_KIND_TIME, 10, 60000, "250ms",
     "how long a step may take to leave cores before others stop waiting for it", IN_CONF(ack_ms)},
    {"SettleTime", CONF_KIND_TIME, 0, 600000, "500ms",
     "after a restart, how long to wait for agents before anything changes", IN_CONF(settle_ms)},
    {"TakeoverTime", CONF_KIND_TIME, 100, HOUR_MS, "2s",
     "silence of a controller after which the next one serves", IN_CONF(takeover_ms)},
    {"LearnTime", CONF_KIND_TIME, 0, HOUR_MS, "10s",
     "how long a step without hints keeps its own cores", IN_CONF(learn_ms)},
    {"MinHoldTime", CONF_KIND_TIME, 0, HOUR_MS, "5s",
     "least time between two changes that only a measurement asks for", IN_CONF(hold_ms)},
    {"Policy", CONF_KIND_POLICY, 0, 0, "gpu-busy", "what the allocation maximises",
     IN_CONF(policy)},
    {"Guarantee", CONF_KIND_GUARANTEE, 0, 0, "own",
     "no step is predicted slower than with its own cores, with an even split, or any",
     IN_CONF(guarantee)},
    {"Scope", CONF_KIND_SCOPE, 0, 0, "node",
     "cores move between all steps of a node that take part, or only between those of one job",
     IN_CONF(scope)},
    {"MainCoresPerTask", CONF_KIND_COUNT, 0, 1024, "1",
     "cores of a step that stay with each task's main threads and are never lent",
     IN_CONF(main_cores_per_task)},
    {"MinGain", CONF_KIND_FRACTION, 0, 1, "0.02", "relative gain below which nothing moves",
     IN_CONF(min_gain)},
    {"SacctField", CONF_KIND_SACCT_FIELD, 0, 0, "AdminComment",
     "field of the job that gets its record, for sacct and adloader report", IN_CONF(sacct_field)},
    {"SacctInterval", CONF_KIND_TIME, 0, HOUR_MS, "10s",
     "least time between two writes for the same job", IN_CONF(sacct_interval_ms)},
    {"SacctRate", CONF_KIND_COUNT, 1, 1000, "20", "records written a second, all jobs together",
     IN_CONF(sacct_rate)},
    {"SacctRetryTime", CONF_KIND_TIME, 0, WEEK_MS, "3600s",
     "how long to try to write a record before it is dropped", IN_CONF(sacct_retry_ms)},
};

static const struct conf_key node_keys[] = {
    {"PoolCores", CONF_KIND_CPUS, 0, 0, "", "further CPUs of the node for everybody's loaders",
     IN_NODE(pool)},
    {"ReservedCores", CONF_KIND_CPUS, 0, 0, "", "CPUs of the node that loaders never get",
     IN_NODE(reserved)},
    {"MainCoresPerTask", CONF_KIND_COUNT, 0, 1024, NULL, "as above, for these nodes",
     IN_NODE(main_cores_per_task)},
};

_Static_assert(sizeof(node_keys) / sizeof(node_keys[0]) == CONF_NODE_KEYS, "see conf_keys.h");

const struct conf_key *conf_keys(size_t *count)
{
    *count = sizeof(keys) / sizeof(keys[0]);
    return keys;
}

const struct conf_key *conf_node_keys(size_t *count)
{
    *count = sizeof(node_keys) / sizeof(node_keys[0]);
    return node_keys;
}

/* ---- words ---- */

static const char *const policies[] = {
    [CONF_POLICY_GPU_BUSY] = "gpu-busy", [CONF_POLICY_NASH] = "nash",
    [CONF_POLICY_MAX_MIN] = "max-min",   [CONF_POLICY_MAKESPAN] = "makespan",
    [CONF_POLICY_EVEN] = "even",         [CONF_POLICY_STATIC] = "static",
};
static const char *const guarantees[] = {
    [CONF_GUARANTEE_OWN] = "own",
    [CONF_GUARANTEE_EVEN] = "even",
    [CONF_GUARANTEE_NONE] = "none",
};
static const char *const scopes[] = {
    [CONF_SCOPE_NODE] = "node",
    [CONF_SCOPE_JOB] = "job",
};
static const char *const log_targets[] = {
    [CONF_LOG_STDERR] = "stderr",
    [CONF_LOG_SYSLOG] = "syslog",
};
static const char *const sacct_fields[] = {
    [CONF_SACCT_ADMIN_COMMENT] = "AdminComment",
    [CONF_SACCT_COMMENT] = "Comment",
    [CONF_SACCT_NONE] = "none",
};
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static int word_index(const char *const *words, size_t n, const char *text)
{
    for (size_t i = 0; text && i < n; i++)
        if (!strcasecmp(words[i], text))
            return (int)i;
    return -1;
}

const char *conf_policy_name(enum conf_policy policy)
{
    return (size_t)policy < LENGTH(policies) ? policies[policy] : "unknown";
}

int conf_policy_parse(const char *name)
{
    return word_index(policies, LENGTH(policies), name);
}

const char *conf_guarantee_name(enum conf_guarantee guarantee)
{
    return (size_t)guarantee < LENGTH(guarantees) ? guarantees[guarantee] : "unknown";
}

int conf_guarantee_parse(const char *name)
{
    return word_index(guarantees, LENGTH(guarantees), name);
}

/* ---- numbers: by hand, since strtod() and printf() obey the locale ---- */

/* "12.5" as a whole number of 10^-places, at most max; *end is what follows. False: no number. */
static bool read_decimal(const char *text, int places, uint64_t max, uint64_t *value,
                         const char **end)
{
    uint64_t v = 0;
    bool any = false, point = false;
    int missing = places;
    for (; isdigit((unsigned char)*text) || (*text == '.' && !point); text++) {
        if (*text == '.') {
            point = true;
            continue;
        }
        uint64_t digit = (uint64_t)(*text - '0');
        if (v > (max - digit) / 10 || (point && missing == 0))
            return false;
        missing -= point;
        v = v * 10 + digit;
        any = true;
    }
    for (; missing > 0; missing--) {
        if (v > max / 10)
            return false;
        v *= 10;
    }
    *value = v;
    *end = text;
    return any;
}

static bool read_count(const struct conf_key *key, const char *text, uint64_t *count)
{
    const char *end;
    return !strchr(text, '.') && read_decimal(text, 0, UINT32_MAX, count, &end) && !*end &&
           *count >= key->min && *count <= key->max;
}

static bool read_time(const struct conf_key *key, const char *text, unsigned *ms)
{
    const char *end;
    uint64_t value;
    if (!read_decimal(text, 3, UINT64_C(1000) * UINT32_MAX, &value, &end))
        return false;
    if (!strcasecmp(end, "ms")) {
        if (value % 1000)
            return false;
        value /= 1000;
    } else if (*end && strcasecmp(end, "s") != 0) {
        return false;
    }
    if (value < key->min || value > key->max)
        return false;
    *ms = (unsigned)value;
    return true;
}

#define FRACTION_PLACES 6
#define FRACTION_UNIT   1000000u

static bool read_fraction(const char *text, double *fraction)
{
    const char *end;
    uint64_t millionths;
    if (!read_decimal(text, FRACTION_PLACES, FRACTION_UNIT, &millionths, &end) || *end)
        return false;
    *fraction = (double)millionths / FRACTION_UNIT;
    return true;
}

static int format_time(unsigned ms, char *buf, size_t size)
{
    if (ms % 1000 == 0)
        return snprintf(buf, size, "%us", ms / 1000);
    return snprintf(buf, size, "%ums", ms);
}

static int print_fraction(double fraction, FILE *out)
{
    unsigned millionths = (unsigned)(fraction * FRACTION_UNIT + 0.5);
    char digits[16];
    int length = snprintf(digits, sizeof(digits), "%06u", millionths % FRACTION_UNIT);
    while (length > 1 && digits[length - 1] == '0')
        digits[--length] = '\0';
    return fprintf(out, "%u.%s", millionths / FRACTION_UNIT, digits);
}

/* ---- addresses ---- */

bool conf_address_parse(const char *text, size_t length, unsigned port,
                        struct conf_address *address)
{
    const char *end = text + length, *host = text, *host_end, *colon;
    bool brackets = length > 0 && text[0] == '[';
    if (brackets) {
        host = text + 1;
        host_end = memchr(text, ']', length);
        colon = host_end ? host_end + 1 : NULL;
        if (!host_end || (colon < end && *colon != ':'))
            return false;
    } else {
        colon = memchr(text, ':', length);
        host_end = colon ? colon : end; /* an IPv6 address without brackets ends in no port */
    }
    *address = (struct conf_address){.port = port};
    if (!netaddr_host(host, (size_t)(host_end - host)) ||
        brackets != (memchr(host, ':', (size_t)(host_end - host)) != NULL))
        return false;
    memcpy(address->host, host, (size_t)(host_end - host));
    if (!colon || colon == end)
        return true;
    return netaddr_port(colon + 1, (size_t)(end - colon - 1), &address->port);
}

const char *conf_address_text(const struct conf_address *address, char *buf, size_t size)
{
    (void)snprintf(buf, size, strchr(address->host, ':') ? "[%s]:%u" : "%s:%u", address->host,
                   address->port);
    return buf;
}

int conf_controllers_parse(const char *text, unsigned port,
                           struct conf_address list[CONF_CONTROLLERS_MAX])
{
    int n = 0;
    if (*text == '\0')
        return 0;
    for (const char *p = text;; p++) {
        size_t length = strcspn(p, ",");
        if (n == CONF_CONTROLLERS_MAX || !conf_address_parse(p, length, port, &list[n]))
            return -1;
        n++;
        p += length;
        if (*p == '\0')
            return n;
    }
}

/* ---- texts ---- */

static bool is_user(const char *text)
{
    if (*text == '-')
        return false;
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && !strchr("._-", *text))
            return false;
    return true;
}

/* No file system takes a longer name in a path; a file's path ends in a name. */
static bool is_path(const char *text, bool of_file)
{
    const char *name = text;
    if (*text != '/')
        return false;
    for (; *text; text += strcspn(text, "/")) {
        name = ++text;
        if (strcspn(name, "/") > NAME_MAX)
            return false;
    }
    return !of_file || (*name && strcmp(name, ".") != 0 && strcmp(name, "..") != 0);
}

static size_t length_max(enum conf_kind kind)
{
    switch (kind) {
    case CONF_KIND_SOCKET:
        return SOCKET_LENGTH_MAX;
    case CONF_KIND_ADDRESS:
        return ADDRESS_LENGTH_MAX;
    case CONF_KIND_USER:
        return USER_LENGTH_MAX;
    case CONF_KIND_CONTROLLERS:
        return LIST_LENGTH_MAX;
    default:
        return PATH_LENGTH_MAX;
    }
}

static bool is_text(const struct conf_key *key, const char *text)
{
    size_t length = strlen(text);
    if (length == 0)
        return key->min == 0;
    if (length > length_max(key->kind))
        return false;
    if (key->kind == CONF_KIND_ADDRESS)
        return netaddr_host(text, length); /* or "none", which has a name's form */
    if (key->kind == CONF_KIND_USER)
        return is_user(text);
    if (key->kind == CONF_KIND_CONTROLLERS) {
        struct conf_address list[CONF_CONTROLLERS_MAX];
        return conf_controllers_parse(text, CONF_DEFAULT_PORT, list) > 0;
    }
    return is_path(text, key->kind != CONF_KIND_FOLDER);
}

static int read_text(const struct conf_key *key, char **place, const char *text)
{
    if (!is_text(key, text)) {
        errno = EINVAL;
        return -1;
    }
    /* "none" in any case: one spelling for those who compare. */
    bool none = key->kind == CONF_KIND_ADDRESS && !strcasecmp(text, "none");
    char *copy = strdup(none ? "none" : text);
    if (!copy)
        return -1;
    free(*place);
    *place = copy;
    return 0;
}

/* ---- a key's value ---- */

static bool is_text_kind(enum conf_kind kind)
{
    return kind == CONF_KIND_SOCKET || kind == CONF_KIND_FILE || kind == CONF_KIND_FOLDER ||
           kind == CONF_KIND_ADDRESS || kind == CONF_KIND_USER || kind == CONF_KIND_CONTROLLERS;
}

/* All counts are unsigned but a node's, where -1 means "not said"; both have an unsigned's bits. */
_Static_assert(sizeof(int) == sizeof(unsigned), "counts share one reader");
/* The enums are read and written as int. */
_Static_assert(sizeof(enum conf_policy) == sizeof(int) &&
                   sizeof(enum conf_guarantee) == sizeof(int) &&
                   sizeof(enum conf_log_target) == sizeof(int) &&
                   sizeof(enum conf_sacct) == sizeof(int) &&
                   sizeof(enum conf_scope) == sizeof(int) && sizeof(enum log_level) == sizeof(int),
               "enums share one reader");

static int word_of(const struct conf_key *key, const char *text)
{
    switch (key->kind) {
    case CONF_KIND_POLICY:
        return conf_policy_parse(text);
    case CONF_KIND_GUARANTEE:
        return conf_guarantee_parse(text);
    case CONF_KIND_SCOPE:
        return word_index(scopes, LENGTH(scopes), text);
    case CONF_KIND_LOG_TARGET:
        return word_index(log_targets, LENGTH(log_targets), text);
    case CONF_KIND_LOG_LEVEL:
        return log_level_parse(text);
    case CONF_KIND_SACCT_FIELD:
        return word_index(sacct_fields, LENGTH(sacct_fields), text);
    default:
        return -1;
    }
}

static bool read_number(const struct conf_key *key, void *place, const char *text)
{
    uint64_t count;
    unsigned number;
    double fraction;
    switch (key->kind) {
    case CONF_KIND_COUNT:
        if (!read_count(key, text, &count))
            return false;
        number = (unsigned)count;
        memcpy(place, &number, sizeof(number));
        return true;
    case CONF_KIND_TIME:
        if (!read_time(key, text, &number))
            return false;
        memcpy(place, &number, sizeof(number));
        return true;
    case CONF_KIND_FRACTION:
        if (!read_fraction(text, &fraction))
            return false;
        memcpy(place, &fraction, sizeof(fraction));
        return true;
    default: {
        int word = word_of(key, text);
        if (word < 0)
            return false;
        memcpy(place, &word, sizeof(word));
        return true;
    }
    }
}

int conf_key_read(const struct conf_key *key, void *base, const char *text)
{
    void *place = (char *)base + key->offset;
    if (is_text_kind(key->kind))
        return read_text(key, place, text);
    if (key->kind == CONF_KIND_CPUS)
        return cpus_parse(place, text);
    if (!read_number(key, place, text)) {
        errno = EINVAL;
        return -1;
    }
    return 0;
}

static const char *word_name(const struct conf_key *key, int word)
{
    switch (key->kind) {
    case CONF_KIND_POLICY:
        return conf_policy_name((enum conf_policy)word);
    case CONF_KIND_GUARANTEE:
        return conf_guarantee_name((enum conf_guarantee)word);
    case CONF_KIND_SCOPE:
        return scopes[word];
    case CONF_KIND_LOG_TARGET:
        return log_targets[word];
    case CONF_KIND_SACCT_FIELD:
        return sacct_fields[word];
    default:
        return log_level_name((enum log_level)word);
    }
}

static int print_value(const struct conf_key *key, const void *place, FILE *out)
{
    unsigned number;
    char text[32];
    switch (key->kind) {
    case CONF_KIND_SOCKET:
    case CONF_KIND_FILE:
    case CONF_KIND_FOLDER:
    case CONF_KIND_ADDRESS:
    case CONF_KIND_USER:
    case CONF_KIND_CONTROLLERS:
        return fputs(*(char *const *)place, out);
    case CONF_KIND_COUNT:
        memcpy(&number, place, sizeof(number));
        return fprintf(out, "%u", number);
    case CONF_KIND_TIME:
        memcpy(&number, place, sizeof(number));
        (void)format_time(number, text, sizeof(text));
        return fputs(text, out);
    case CONF_KIND_FRACTION:
        return print_fraction(*(const double *)place, out);
    case CONF_KIND_CPUS: {
        char *list = cpus_to_string(place);
        int rc = list ? fputs(list, out) : -1;
        free(list);
        return rc;
    }
    default: {
        int word;
        memcpy(&word, place, sizeof(word));
        return fputs(word_name(key, word), out);
    }
    }
}

int conf_key_print(const struct conf_key *key, const void *base, FILE *out)
{
    if (fprintf(out, "%s=", key->name) < 0)
        return -1;
    return print_value(key, (const char *)base + key->offset, out) < 0 ? -1 : 0;
}

void conf_key_free(const struct conf_key *key, void *base)
{
    void *place = (char *)base + key->offset;
    if (is_text_kind(key->kind)) {
        free(*(char **)place);
        *(char **)place = NULL;
    } else if (key->kind == CONF_KIND_CPUS) {
        cpus_free(place);
    }
}

/* ---- what is allowed, in words ---- */

static int allowed_words(const char *const *words, size_t n, char *buf, size_t size)
{
    size_t length = 0;
    for (size_t i = 0; i < n; i++) {
        const char *between = i == 0 ? "" : i + 1 == n ? " or " : ", ";
        size_t left = length < size ? size - length : 0;
        int added = snprintf(left ? buf + length : NULL, left, "%s%s", between, words[i]);
        if (added < 0)
            return -1;
        length += (size_t)added;
    }
    return (int)length;
}

int conf_key_allowed(const struct conf_key *key, char *buf, size_t size)
{
    const char *or_empty = key->min ? "" : ", or empty";
    switch (key->kind) {
    case CONF_KIND_SOCKET:
    case CONF_KIND_FILE:
        return snprintf(buf, size, "an absolute path of at most %zu bytes that ends in a name%s",
                        length_max(key->kind), or_empty);
    case CONF_KIND_FOLDER:
        return snprintf(buf, size, "an absolute path of at most %zu bytes%s", length_max(key->kind),
                        or_empty);
    case CONF_KIND_ADDRESS:
        return snprintf(buf, size, "a host name or IP address of one host, none%s", or_empty);
    case CONF_KIND_USER:
        return snprintf(buf, size, "a user's name%s", or_empty);
    case CONF_KIND_CONTROLLERS:
        return snprintf(buf, size, "at most %d of HOST or HOST:PORT, parted by commas%s",
                        CONF_CONTROLLERS_MAX, or_empty);
    case CONF_KIND_COUNT:
        return snprintf(buf, size, "a whole number from %u to %u", key->min, key->max);
    case CONF_KIND_TIME: {
        char min[32], max[32];
        (void)format_time(key->min, min, sizeof(min));
        (void)format_time(key->max, max, sizeof(max));
        return snprintf(buf, size, "a time from %s to %s (seconds, or with s or ms)", min, max);
    }
    case CONF_KIND_FRACTION:
        return snprintf(buf, size, "a number from 0 to 1 with at most %d decimals",
                        FRACTION_PLACES);
    case CONF_KIND_POLICY:
        return allowed_words(policies, LENGTH(policies), buf, size);
    case CONF_KIND_GUARANTEE:
        return allowed_words(guarantees, LENGTH(guarantees), buf, size);
    case CONF_KIND_SCOPE:
        return allowed_words(scopes, LENGTH(scopes), buf, size);
    case CONF_KIND_LOG_TARGET:
        return allowed_words(log_targets, LENGTH(log_targets), buf, size);
    case CONF_KIND_LOG_LEVEL: {
        const char *levels[LOG_LEVEL_DEBUG + 1];
        for (int i = 0; i <= LOG_LEVEL_DEBUG; i++)
            levels[i] = log_level_name((enum log_level)i);
        return allowed_words(levels, LENGTH(levels), buf, size);
    }
    case CONF_KIND_SACCT_FIELD:
        return allowed_words(sacct_fields, LENGTH(sacct_fields), buf, size);
    case CONF_KIND_CPUS:
        return snprintf(buf, size, "a CPU list such as 0-3,8, or empty");
    }
    return -1;
}
