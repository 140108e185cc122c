/* adloader doctor: which checks, in which order, and how their findings are shown. See doctor.h. */
#include "config.h"

#include "doctor.h"

#include "conf.h"
#include "table.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <json-c/json.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

#define TEXT_MAX 1200

struct doctor_finding {
    enum doctor_level level;
    char about[48];
    char *text, *todo;
};

/* ---- findings ------------------------------------------------------------------------------ */

static struct doctor_finding *new_finding(struct doctor *d)
{
    if (d->nfindings == d->capacity) {
        size_t wanted = d->capacity == 0 ? 32 : d->capacity * 2;
        struct doctor_finding *bigger = realloc(d->findings, wanted * sizeof(*bigger));

        if (bigger == NULL)
            return NULL;
        d->findings = bigger;
        d->capacity = wanted;
    }
    return &d->findings[d->nfindings];
}

void doctor_say(struct doctor *d, enum doctor_level level, const char *about, const char *todo,
                const char *format, ...)
{
    struct doctor_finding *f = new_finding(d);
    char text[TEXT_MAX] = "";
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    for (char *c = text; *c != '\0'; c++)
        if (*c == '\n')
            *c = ' '; /* one line a finding */
    for (size_t end = strlen(text); end > 0 && text[end - 1] == ' ';)
        text[--end] = '\0';
    if (f != NULL) {
        f->level = level;
        (void)snprintf(f->about, sizeof(f->about), "%s", about);
        f->text = strdup(text);
        f->todo = strdup(todo);
    }
    if (f == NULL || f->text == NULL || f->todo == NULL) {
        if (f != NULL) {
            free(f->text);
            free(f->todo);
        }
        d->lost = true;
        return;
    }
    d->nfindings++;
}

static void free_findings(struct doctor *d)
{
    for (size_t i = 0; i < d->nfindings; i++) {
        free(d->findings[i].text);
        free(d->findings[i].todo);
    }
    free(d->findings);
}

static const char *const level_names[] = {"ok", "warning", "problem"};

static size_t count(const struct doctor *d, enum doctor_level level)
{
    size_t n = 0;

    for (size_t i = 0; i < d->nfindings; i++)
        n += d->findings[i].level == level;
    return n;
}

/* "problem: plugin: text; todo": the level, and what of it, first, so that grep finds them. */
static int print_findings(const struct doctor *d)
{
    for (size_t i = 0; i < d->nfindings; i++) {
        const struct doctor_finding *f = &d->findings[i];

        printf("%s: %s: ", level_names[f->level], f->about);
        print_clean(stdout, f->text, "");
        if (f->todo[0] != '\0') {
            fputs("; ", stdout);
            print_clean(stdout, f->todo, "");
        }
        putchar('\n');
    }
    printf("%zu ok, %zu warnings, %zu problems\n", count(d, DOCTOR_OK), count(d, DOCTOR_WARNING),
           count(d, DOCTOR_PROBLEM));
    return ferror(stdout) ? -1 : 0;
}

static json_object *finding_document(const struct doctor_finding *f)
{
    json_object *object = json_object_new_object();

    json_object_object_add(object, "level", json_object_new_string(level_names[f->level]));
    json_object_object_add(object, "about", json_object_new_string(f->about));
    json_object_object_add(object, "finding", json_object_new_string(f->text));
    json_object_object_add(object, "todo",
                           f->todo[0] != '\0' ? json_object_new_string(f->todo) : NULL);
    return object;
}

static int print_document(const struct doctor *d)
{
    static const struct {
        enum doctor_role role;
        const char *name;
    } roles[] = {{DOCTOR_LOGIN, "login"}, {DOCTOR_NODE, "node"}, {DOCTOR_CONTROLLER, "controller"}};
    json_object *document = json_object_new_object(), *list = json_object_new_array();
    json_object *names = json_object_new_array();
    int status;

    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
        if ((d->roles & roles[i].role) != 0)
            json_object_array_add(names, json_object_new_string(roles[i].name));
    for (size_t i = 0; i < d->nfindings; i++)
        json_object_array_add(list, finding_document(&d->findings[i]));
    json_object_object_add(document, "roles", names);
    json_object_object_add(document, "ok_count",
                           json_object_new_int64((int64_t)count(d, DOCTOR_OK)));
    json_object_object_add(document, "warning_count",
                           json_object_new_int64((int64_t)count(d, DOCTOR_WARNING)));
    json_object_object_add(document, "problem_count",
                           json_object_new_int64((int64_t)count(d, DOCTOR_PROBLEM)));
    json_object_object_add(document, "findings", list);
    status = cli_print_json(document);
    json_object_put(document);
    return status == CLI_OK ? 0 : -1;
}

/* ---- Slurm's configuration as scontrol shows it --------------------------------------------- */

const char *doctor_slurm_value(const struct doctor *d, const char *key, char *buf, size_t size)
{
    size_t length = strlen(key);

    for (const char *line = d->slurm; line != NULL && *line != '\0';) {
        size_t end = strcspn(line, "\n");
        const char *value = line + length + strspn(line + (end > length ? length : end), " ");

        if (strncasecmp(line, key, length) == 0 && value < line + end && *value == '=') {
            value++;
            value += strspn(value, " ");
            (void)snprintf(buf, size, "%.*s", (int)(line + end - value), value);
            return buf[0] == '\0' || strncmp(buf, "(null", 5) == 0 ? NULL : buf;
        }
        line += end + (line[end] == '\n');
    }
    return NULL;
}

bool doctor_slurm_lists(const struct doctor *d, const char *key, const char *word)
{
    char text[1024], *saved = NULL;

    if (doctor_slurm_value(d, key, text, sizeof(text)) == NULL)
        return false;
    for (const char *part = strtok_r(text, ", ", &saved); part != NULL;
         part = strtok_r(NULL, ", ", &saved))
        if (strcasecmp(part, word) == 0)
            return true;
    return false;
}

/* ---- what may hang ------------------------------------------------------------------------- */

/* Read what the child writes until it ends; false: it took too long. */
static bool hear(int fd, unsigned timeout_ms, char *text, size_t size)
{
    uint64_t until = clock_monotonic_ms() + timeout_ms;
    size_t length = 0;
    ssize_t n = 1;

    while (n > 0) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        uint64_t now = clock_monotonic_ms();

        if (now >= until)
            return false;
        if (poll(&p, 1, (int)(until - now)) <= 0)
            continue;
        n = length < size - 1 ? read(fd, text + length, size - 1 - length) : 0;
        length += n > 0 ? (size_t)n : 0;
        text[length] = '\0';
    }
    return true;
}

int doctor_bounded(int (*fn)(const void *argument, char *text, size_t size), const void *argument,
                   unsigned timeout_ms, char *text, size_t size)
{
    int ends[2], status = 0;

    text[0] = '\0';
    if (pipe(ends) < 0)
        return -1;
    (void)fflush(NULL); /* or the child would write it, too */
    pid_t child = fork();
    if (child == 0) {
        char said[TEXT_MAX] = "";
        int result = fn(argument, said, sizeof(said));

        if (write(ends[1], said, strlen(said)) < 0)
            result = 255;
        _exit(result);
    }
    (void)close(ends[1]);
    bool in_time = child > 0 && hear(ends[0], timeout_ms, text, size);
    (void)close(ends[0]);
    if (child <= 0)
        return -1;
    if (!in_time)
        (void)kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return in_time && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- which host is this -------------------------------------------------------------------- */

/* A process of that name; 0: none. */
static pid_t find_process(const char *name)
{
    DIR *proc = opendir("/proc");
    const struct dirent *entry;
    pid_t found = 0;

    while (proc != NULL && found == 0 && (entry = readdir(proc)) != NULL) {
        char path[300], comm[32] = "";

        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        (void)snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
        FILE *in = fopen(path, "re");
        if (in == NULL)
            continue;
        if (fgets(comm, sizeof(comm), in) != NULL) {
            comm[strcspn(comm, "\n")] = '\0';
            if (strcmp(comm, name) == 0)
                found = (pid_t)strtol(entry->d_name, NULL, 10);
        }
        (void)fclose(in);
    }
    if (proc != NULL)
        (void)closedir(proc);
    return found;
}

/* False: a word is none of a role. */
static bool parse_roles(const char *text, unsigned *roles)
{
    char copy[64], *saved = NULL;

    *roles = 0;
    if ((size_t)snprintf(copy, sizeof(copy), "%s", text) >= sizeof(copy))
        return false;
    for (const char *word = strtok_r(copy, ",", &saved); word != NULL;
         word = strtok_r(NULL, ",", &saved)) {
        if (strcmp(word, "login") == 0)
            *roles |= DOCTOR_LOGIN;
        else if (strcmp(word, "node") == 0)
            *roles |= DOCTOR_NODE;
        else if (strcmp(word, "controller") == 0)
            *roles |= DOCTOR_CONTROLLER;
        else
            return false;
    }
    return *roles != 0;
}

static unsigned guess_roles(const struct doctor *d)
{
    unsigned roles = 0;

    if (d->slurmd != 0)
        roles |= DOCTOR_NODE;
    if (d->cli->config != NULL || access(CONF_DEFAULT_FILE, F_OK) == 0 ||
        find_process("adloaderctld") != 0)
        roles |= DOCTOR_CONTROLLER;
    return roles != 0 ? roles : (unsigned)DOCTOR_LOGIN;
}

/* ---- the subcommand ------------------------------------------------------------------------ */

static void examine(struct doctor *d)
{
    char error[64];

    (void)args_parse(&d->args, 0, NULL, error, sizeof(error));
    if ((d->roles & DOCTOR_CONTROLLER) != 0)
        doctor_check_conf(d);
    doctor_check_slurm(d);
    doctor_check_plugin(d);
    doctor_check_contact(d);
    if ((d->roles & DOCTOR_CONTROLLER) != 0)
        doctor_check_accounting(d);
    if ((d->roles & DOCTOR_NODE) != 0)
        doctor_check_node(d);
}

static int run(const struct cli *cli)
{
    struct doctor d = {.cli = cli, .root = geteuid() == 0, .slurmd = find_process("slurmd")};
    const char *role = cli_value(cli, "role");
    int status;

    if (role == NULL)
        d.roles = guess_roles(&d);
    else if (!parse_roles(role, &d.roles))
        return cli_usage_error(cli,
                               "--role %s: give login, node or controller, or several with "
                               "commas between them",
                               role);
    examine(&d);
    if (d.lost || (cli->json ? print_document(&d) : print_findings(&d)) != 0) {
        cli_error("not all that was found could be told: out of memory");
        status = DOCTOR_PROBLEM;
    } else {
        status = count(&d, DOCTOR_PROBLEM) > 0   ? DOCTOR_PROBLEM
                 : count(&d, DOCTOR_WARNING) > 0 ? DOCTOR_WARNING
                                                 : DOCTOR_OK;
    }
    free_findings(&d);
    free(d.slurm);
    conf_free(d.conf);
    return status;
}

static const struct cli_option options[] = {
    {"role", "ROLE[,ROLE...]", "login, node or controller; default: what this host looks like"},
    {"plugstack", "FILE", "look there for the plugin's line, not where Slurm would"},
    {NULL, NULL, NULL},
};

const struct cli_command cli_command_doctor = {
    .name = "doctor",
    .arguments = "",
    .summary = "Say what is wrong with the installation on this host, and how to mend it",
    .text =
        "Each finding is one line: ok, warning or problem; about what; what is so; what to do.\n"
        "It looks, and changes nothing. As root it sees more. Exit status: 0 all is well,\n"
        "1 there are warnings, 2 there are problems.",
    .options = options,
    .run = run,
};
