/* The configuration file: its lines, its nodes, and everything that is wrong with them at once. */
#include "conf.h"
#include "conf_keys.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- complaints ---- */

#define REST_BYTES 64 /* kept free for the line that counts what did not fit */

struct complaints {
    const char *file;
    char *text;
    size_t size, length;
    unsigned count, left_out;
};

static void complain(struct complaints *c, unsigned line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* line 0: about the file as a whole. */
static void complain(struct complaints *c, unsigned line, const char *format, ...)
{
    char sentence[1024], place[16] = "";
    va_list args;
    va_start(args, format);
    int rc = vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    if (rc < 0)
        sentence[0] = '\0';
    if (line)
        (void)snprintf(place, sizeof(place), "%u:", line);
    c->count++;
    size_t room = c->size > c->length + REST_BYTES ? c->size - c->length - REST_BYTES : 0;
    int needed = snprintf(NULL, 0, "%s:%s %s\n", c->file, place, sentence);
    if (needed < 0 || (size_t)needed >= room) {
        c->left_out++;
        return;
    }
    (void)snprintf(c->text + c->length, room, "%s:%s %s\n", c->file, place, sentence);
    c->length += (size_t)needed;
}

static void finish_complaints(struct complaints *c)
{
    if (c->left_out && c->size > c->length)
        (void)snprintf(c->text + c->length, c->size - c->length, "%s%u more complaint(s)\n",
                       c->length ? "and " : "", c->left_out);
}

/* ---- the file being read ---- */

/* A node as written, with the line to name when another line says it again. */
struct node_entry {
    struct conf_node node;
    unsigned line;
};

struct parser {
    struct complaints complaints;
    struct conf *conf;
    const char *at, *end; /* what is left of the file */
    unsigned line;        /* being looked at, from 1 */
    struct node_entry *nodes;
    size_t nnodes, nodes_capacity;
};

static void complain_memory(struct parser *p)
{
    complain(&p->complaints, p->line, "out of memory");
}

static void complain_value(struct parser *p, const struct conf_key *key, const char *value)
{
    char allowed[256];
    if (errno == ENOMEM) {
        complain_memory(p);
        return;
    }
    (void)conf_key_allowed(key, allowed, sizeof(allowed));
    complain(&p->complaints, p->line, "%s=%.64s is not possible; it may be %s", key->name, value,
             allowed);
}

static const struct conf_key *find_key(const struct conf_key *keys, size_t count, const char *name,
                                       size_t length)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(keys[i].name) == length && !strncasecmp(keys[i].name, name, length))
            return &keys[i];
    return NULL;
}

/* ---- NodeName lines ---- */

/* The key=value pairs of one NodeName line, read once and then copied to each of its nodes. */
struct node_pairs {
    const char *text[CONF_NODE_KEYS]; /* by index into conf_node_keys(): the value, NULL not said */
};

static void name_node_keys(char *buf, size_t size)
{
    size_t count, length = 0;
    const struct conf_key *keys = conf_node_keys(&count);
    buf[0] = '\0';
    for (size_t i = 0; i < count && length < size; i++) {
        int n = snprintf(buf + length, size - length, "%s%s", i ? ", " : "", keys[i].name);
        length += n > 0 ? (size_t)n : 0;
    }
}

static void take_node_pair(struct parser *p, char *word, struct node_pairs *pairs)
{
    size_t count;
    const struct conf_key *keys = conf_node_keys(&count);
    size_t name_length = strcspn(word, "=");
    const struct conf_key *key = find_key(keys, count, word, name_length);
    if (!key || word[name_length] != '=') {
        char allowed[128];
        name_node_keys(allowed, sizeof(allowed));
        complain(&p->complaints, p->line,
                 "\"%.64s\" is not known on a NodeName line; allowed are %s", word, allowed);
        return;
    }
    const char **place = &pairs->text[key - keys];
    if (*place)
        complain(&p->complaints, p->line, "%s stands twice on this line", key->name);
    *place = word + name_length + 1;
}

static void free_node(struct conf_node *node)
{
    size_t count;
    const struct conf_key *keys = conf_node_keys(&count);
    for (size_t i = 0; i < count; i++)
        conf_key_free(&keys[i], node);
    free(node->name);
}

/* Read the pairs into node; false if a value is not possible (then one complaint each). */
static bool read_pairs(struct parser *p, const struct node_pairs *pairs, struct conf_node *node)
{
    size_t count;
    const struct conf_key *keys = conf_node_keys(&count);
    bool good = true;
    for (size_t i = 0; i < count; i++)
        if (pairs->text[i] && conf_key_read(&keys[i], node, pairs->text[i]) < 0) {
            complain_value(p, &keys[i], pairs->text[i]);
            good = false;
        }
    if (good && cpus_intersects(&node->pool, &node->reserved)) {
        complain(&p->complaints, p->line,
                 "PoolCores and ReservedCores share CPUs; take them out of "
                 "one of the two");
        good = false;
    }
    return good;
}

static struct node_entry *new_node_entry(struct parser *p)
{
    if (p->nnodes == p->nodes_capacity) {
        size_t capacity = p->nodes_capacity ? p->nodes_capacity * 2 : 16;
        struct node_entry *nodes = realloc(p->nodes, capacity * sizeof(*nodes));
        if (!nodes)
            return NULL;
        p->nodes = nodes;
        p->nodes_capacity = capacity;
    }
    struct node_entry *entry = &p->nodes[p->nnodes];
    *entry = (struct node_entry){.node = {.main_cores_per_task = -1}, .line = p->line};
    return entry;
}

static int add_node(struct parser *p, const char *name, const struct conf_node *values)
{
    struct node_entry *entry = new_node_entry(p);
    if (!entry)
        return -1;
    entry->node.main_cores_per_task = values->main_cores_per_task;
    entry->node.name = strdup(name);
    if (!entry->node.name || cpus_copy(&entry->node.pool, &values->pool) < 0 ||
        cpus_copy(&entry->node.reserved, &values->reserved) < 0) {
        free_node(&entry->node);
        return -1;
    }
    p->nnodes++;
    return 0;
}

static void add_nodes(struct parser *p, const char *hosts, const struct conf_node *values)
{
    size_t count;
    char **names = conf_hostlist(hosts, &count);
    if (!names) {
        if (errno == ENOMEM)
            complain_memory(p);
        else
            complain(&p->complaints, p->line,
                     "NodeName=%.64s is not a host list of at most %u names; write it like "
                     "n[01-16],login",
                     hosts, CONF_NODES_MAX);
        return;
    }
    if (count > CONF_NODES_MAX - p->nnodes)
        complain(&p->complaints, p->line, "more than %u nodes in the file", CONF_NODES_MAX);
    else
        for (size_t i = 0; i < count; i++)
            if (add_node(p, names[i], values) < 0) {
                complain_memory(p);
                break;
            }
    conf_hostlist_free(names);
}

/* value: "n[1-4] PoolCores=0-1 ..."; cut into words in place. */
static void take_node_line(struct parser *p, char *value)
{
    static const char blanks[] = " \t";
    struct node_pairs pairs = {{NULL}};
    struct conf_node values = {.main_cores_per_task = -1};
    char *rest = NULL;
    char *hosts = strtok_r(value, blanks, &rest);
    if (!hosts || strchr(hosts, '=')) { /* the list is forgotten, and a pair stands in its place */
        complain(&p->complaints, p->line, "NodeName lacks a host list; write it like n[01-16]");
        return;
    }
    for (char *word; (word = strtok_r(NULL, blanks, &rest));)
        take_node_pair(p, word, &pairs);
    if (read_pairs(p, &pairs, &values))
        add_nodes(p, hosts, &values);
    free_node(&values);
}

static int compare_entries(const void *a, const void *b)
{
    const struct node_entry *x = a, *y = b;
    int order = strcmp(x->node.name, y->node.name);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

/* Sort the nodes, refuse those said twice, and hand them over to the configuration. */
static void finish_nodes(struct parser *p)
{
    if (!p->nnodes)
        return;
    qsort(p->nodes, p->nnodes, sizeof(*p->nodes), compare_entries);
    for (size_t i = 1; i < p->nnodes; i++)
        if (!strcmp(p->nodes[i - 1].node.name, p->nodes[i].node.name))
            complain(&p->complaints, p->nodes[i].line, "node %.64s is already in line %u",
                     p->nodes[i].node.name, p->nodes[i - 1].line);
    p->conf->nodes = calloc(p->nnodes, sizeof(*p->conf->nodes));
    if (!p->conf->nodes) {
        complain(&p->complaints, 0, "out of memory");
        return;
    }
    for (size_t i = 0; i < p->nnodes; i++)
        p->conf->nodes[i] = p->nodes[i].node;
    p->conf->nnodes = p->nnodes;
    p->nnodes = 0;
}

/* ---- lines ---- */

static void complain_key(struct parser *p, const char *name)
{
    size_t count;
    const struct conf_key *keys = conf_keys(&count);
    char allowed[512] = "NodeName";
    size_t length = strlen(allowed);
    for (size_t i = 0; i < count && length < sizeof(allowed); i++) {
        int n = snprintf(allowed + length, sizeof(allowed) - length, ", %s", keys[i].name);
        length += n > 0 ? (size_t)n : 0;
    }
    complain(&p->complaints, p->line, "\"%.64s\" is not a known key; allowed are %s", name,
             allowed);
}

/* inih's handler: one Key=Value. It always continues, so that all complaints are seen at once. */
static int take_pair(void *user, const char *section, const char *name, const char *value)
{
    (void)section; /* there are none: next_line() lets no header through */
    struct parser *p = user;
    size_t count;
    const struct conf_key *keys = conf_keys(&count);
    if (!strcasecmp(name, "NodeName")) {
        char *copy = strdup(value);
        if (copy)
            take_node_line(p, copy);
        else
            complain_memory(p);
        free(copy);
        return 1;
    }
    const struct conf_key *key = find_key(keys, count, name, strlen(name));
    if (!key) {
        complain_key(p, name);
        return 1;
    }
    unsigned *first = &p->conf->lines[key - keys];
    if (*first)
        complain(&p->complaints, p->line, "%s is already in line %u", key->name, *first);
    else
        *first = p->line;
    if (conf_key_read(key, p->conf, value) < 0)
        complain_value(p, key, value);
    return 1;
}

/* Without the comment, and without blanks at both ends. */
static void strip(const char **start, const char **end)
{
    for (const char *c = *start; c < *end; c++)
        if (*c == '#' && (c == *start || isspace((unsigned char)c[-1]))) {
            *end = c;
            break;
        }
    while (*start < *end && isspace((unsigned char)**start))
        (*start)++;
    while (*start < *end && isspace((unsigned char)(*end)[-1]))
        (*end)--;
}

static bool has_control(const char *start, const char *end)
{
    for (; start < end; start++)
        if (((unsigned char)*start < 0x20 && *start != '\t') || *start == 0x7f)
            return true;
    return false;
}

/* inih would take ';' for a comment, which would cut a value short without a word. */
static bool has_semicolon_comment(const char *start, const char *end)
{
    for (const char *c = start; c < end; c++)
        if (*c == ';' && (c == start || isspace((unsigned char)c[-1])))
            return true;
    return false;
}

/*
 * Is it "Key=..." and nothing that inih would understand in its own way (sections, "key: value",
 * ';' comments)? longest: bytes that inih takes in a line.
 */
static bool check_line(struct parser *p, const char *start, const char *end, size_t longest)
{
    const char *after_key = start;
    while (after_key < end && isalpha((unsigned char)*after_key))
        after_key++;
    const char *equal = after_key;
    while (equal < end && isspace((unsigned char)*equal))
        equal++;
    if (has_control(start, end))
        complain(&p->complaints, p->line, "a control character is in the line");
    else if (has_semicolon_comment(start, end))
        complain(&p->complaints, p->line, "';' does not start a comment; '#' does");
    else if (after_key == start || equal == end || *equal != '=')
        complain(&p->complaints, p->line, "not Key=Value");
    else if ((size_t)(end - start) > longest)
        complain(&p->complaints, p->line,
                 "longer than %zu characters; write long host lists in several lines", longest);
    else
        return true;
    return false;
}

/* inih's reader: the next line into buf, stripped; an empty one for each that is refused. */
static char *next_line(char *buf, int size, void *stream)
{
    struct parser *p = stream;
    if (p->at == p->end || size < 2)
        return NULL;
    const char *start = p->at;
    const char *newline = memchr(start, '\n', (size_t)(p->end - start));
    const char *end = newline ? newline : p->end;
    p->at = newline ? newline + 1 : p->end;
    p->line++;
    strip(&start, &end);
    size_t length = 0;
    size_t longest = (size_t)size - 2; /* with newline and NUL */
    if (start < end && check_line(p, start, end, longest)) {
        length = (size_t)(end - start);
        memcpy(buf, start, length);
    }
    buf[length] = '\n';
    buf[length + 1] = '\0';
    return buf;
}

/* ---- the whole ---- */

/* A preset can only be wrong where ./configure gave it a path (--with-rundir). */
static void set_presets(struct parser *p)
{
    size_t count;
    const struct conf_key *keys = conf_keys(&count);
    for (size_t i = 0; i < count; i++)
        if (conf_key_read(&keys[i], p->conf, keys[i].preset) < 0)
            complain_value(p, &keys[i], keys[i].preset);
}

static void check_controllers(struct parser *p)
{
    const struct conf *conf = p->conf;
    struct conf_address list[CONF_CONTROLLERS_MAX];
    int n = conf_controllers(conf, list);
    if (n == 0)
        return;
    if (!strcmp(conf->listen_address, "none"))
        complain(&p->complaints, 0,
                 "Controllers needs TCP: set ListenAddress, empty for all addresses of the host");
    if (conf->takeover_ms >= conf->lease_ms)
        complain(&p->complaints, 0,
                 "TakeoverTime (%u ms) must be less than LeaseTime (%u ms): steps would return to "
                 "their own cores before the next controller serves",
                 conf->takeover_ms, conf->lease_ms);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            if (!strcasecmp(list[i].host, list[k].host) && list[i].port == list[k].port)
                complain(&p->complaints, 0, "Controllers lists %s twice", list[i].host);
}

/* What no single line shows. */
static void check_together(struct parser *p)
{
    const struct conf *conf = p->conf;
    check_controllers(p);
    if (*conf->pid_file && !strcmp(conf->pid_file, conf->socket))
        complain(&p->complaints, 0, "PidFile and ControllerSocket are both %.64s", conf->socket);
    if (conf->lease_ms < 2 * conf->report_ms)
        complain(&p->complaints, 0,
                 "LeaseTime (%u ms) must be at least twice ReportInterval (%u ms): reports renew "
                 "the lease",
                 conf->lease_ms, conf->report_ms);
}

static void parse(struct parser *p)
{
    static const char bom[] = "\xef\xbb\xbf";
    if (p->end - p->at >= 3 && !memcmp(p->at, bom, 3))
        p->at += 3;
    if (memchr(p->at, '\0', (size_t)(p->end - p->at))) {
        complain(&p->complaints, 0, "not a text file: it has NUL bytes");
        return;
    }
    int rc = ini_parse_stream(next_line, p, take_pair, p);
    if (rc != 0)
        complain(&p->complaints, rc > 0 ? (unsigned)rc : 0, "not understood");
    p->line = 0;
    finish_nodes(p);
    check_together(p);
}

/* Reads at most size bytes; the number, or -1. */
static ssize_t read_all(int fd, char *buf, size_t size)
{
    size_t length = 0;
    while (length < size) {
        ssize_t n = read(fd, buf + length, size - length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        length += (size_t)n;
    }
    return (ssize_t)length;
}

/* O_NONBLOCK so that a FIFO in the file's place cannot hold the caller; then it is refused. */
static int open_file(const char *file, struct complaints *c)
{
    struct stat st;
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        complain(c, 0, "cannot be opened: %s", strerror(errno));
        return -1;
    }
    if (fstat(fd, &st) < 0)
        complain(c, 0, "cannot be examined: %s", strerror(errno));
    else if (!S_ISREG(st.st_mode))
        complain(c, 0, "not a regular file");
    else
        return fd;
    (void)close(fd);
    return -1;
}

static void parse_file(struct parser *p, const char *file)
{
    int fd = open_file(file, &p->complaints);
    if (fd < 0)
        return;
    char *text = malloc(CONF_FILE_MAX + 1);
    ssize_t length = text ? read_all(fd, text, CONF_FILE_MAX + 1) : -1;
    if (length < 0)
        complain(&p->complaints, 0, "cannot be read: %s", strerror(errno));
    else if (length > (ssize_t)CONF_FILE_MAX)
        complain(&p->complaints, 0, "larger than %u bytes", CONF_FILE_MAX);
    else {
        p->at = text;
        p->end = text + length;
        parse(p);
    }
    free(text);
    (void)close(fd);
}

static bool is_absent(const char *file)
{
    return access(file, F_OK) < 0 && errno == ENOENT;
}

/* Nothing in it yet; NULL without memory. */
static struct conf *new_conf(const char *file)
{
    size_t nkeys;
    (void)conf_keys(&nkeys);
    struct conf *conf = calloc(1, sizeof(*conf));
    if (!conf)
        return NULL;
    conf->file = strdup(file);
    conf->lines = calloc(nkeys, sizeof(*conf->lines));
    if (conf->file && conf->lines)
        return conf;
    conf_free(conf);
    return NULL;
}

struct conf *conf_read(const char *file, char *error, size_t error_size)
{
    const char *name = file ? file : CONF_DEFAULT_FILE;
    if (error_size)
        error[0] = '\0';
    struct parser p = {
        .complaints = {.file = name, .text = error, .size = error_size},
        .conf = new_conf(name),
    };
    if (!p.conf)
        complain_memory(&p);
    else
        set_presets(&p);
    if (!p.complaints.count && (file || !is_absent(name)))
        parse_file(&p, name);
    for (size_t i = 0; i < p.nnodes; i++)
        free_node(&p.nodes[i].node);
    free(p.nodes);
    finish_complaints(&p.complaints);
    if (!p.complaints.count)
        return p.conf;
    conf_free(p.conf);
    return NULL;
}

void conf_free(struct conf *conf)
{
    if (!conf)
        return;
    size_t count;
    const struct conf_key *keys = conf_keys(&count);
    for (size_t i = 0; i < count; i++)
        conf_key_free(&keys[i], conf);
    for (size_t i = 0; i < conf->nnodes; i++)
        free_node(&conf->nodes[i]);
    free(conf->nodes);
    free(conf->file);
    free(conf->lines);
    free(conf);
}

int conf_controllers(const struct conf *conf, struct conf_address list[CONF_CONTROLLERS_MAX])
{
    return conf_controllers_parse(conf->controllers, conf->port, list);
}

const char *conf_where(const struct conf *conf, const char *key, char *buf, size_t size)
{
    size_t count;
    const struct conf_key *keys = conf_keys(&count);
    const struct conf_key *found = find_key(keys, count, key, strlen(key));
    unsigned line = found ? conf->lines[found - keys] : 0;
    buf[0] = '\0';
    if (line)
        (void)snprintf(buf, size, "%s:%u: ", conf->file, line);
    return buf;
}

static int compare_name(const void *name, const void *node)
{
    return strcmp(name, ((const struct conf_node *)node)->name);
}

const struct conf_node *conf_node(const struct conf *conf, const char *name)
{
    if (!conf->nnodes)
        return NULL;
    return bsearch(name, conf->nodes, conf->nnodes, sizeof(*conf->nodes), compare_name);
}

static int print_node(const struct conf_node *node, FILE *out)
{
    size_t count;
    const struct conf_key *keys = conf_node_keys(&count);
    if (fprintf(out, "NodeName=%s", node->name) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        bool unsaid = !keys[i].preset && node->main_cores_per_task < 0;
        if (!unsaid && (fputc(' ', out) == EOF || conf_key_print(&keys[i], node, out) < 0))
            return -1;
    }
    return fputc('\n', out) == EOF ? -1 : 0;
}

int conf_print(const struct conf *conf, FILE *out)
{
    size_t count;
    const struct conf_key *keys = conf_keys(&count);
    for (size_t i = 0; i < count; i++)
        if (conf_key_print(&keys[i], conf, out) < 0 || fputc('\n', out) == EOF)
            return -1;
    for (size_t i = 0; i < conf->nnodes; i++)
        if (print_node(&conf->nodes[i], out) < 0)
            return -1;
    return fflush(out) == EOF ? -1 : 0;
}
