/*
 * adloader top: the status tables, refreshed in a terminal. Draws on the terminal's second screen
 * with plain ANSI sequences and gives the terminal back as it was, however it ends. Where standard
 * output is no terminal, or one that cannot be drawn on (TERM=dumb), it prints once, like status.
 */
#include "config.h"

#include "cli.h"
#include "status.h"
#include "table.h"

#include <errno.h>
#include <json-c/json.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define ENTER_SCREEN "\033[?1049h\033[?25l" /* second screen, no cursor */
#define LEAVE_SCREEN "\033[?25h\033[?1049l"
#define HOME         "\033[H"
#define CLEAR_LINE   "\033[K"
#define CLEAR_BELOW  "\033[J"

static volatile sig_atomic_t ended;

static void end(int signal)
{
    (void)signal;
    ended = 1;
}

struct terminal {
    struct termios saved;
    bool changed; /* saved is to be restored */
};

static void catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
    struct sigaction action = {.sa_handler = end}; /* no SA_RESTART: poll shall end */

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        (void)sigaction(signals[i], &action, NULL);
}

/* Keys come one by one and are not shown; Ctrl-Z, which would leave the screen as it is, is off. */
static void take_terminal(struct terminal *terminal)
{
    if (tcgetattr(STDIN_FILENO, &terminal->saved) == 0) {
        struct termios raw = terminal->saved;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VMIN] = 1;
        raw.c_cc[VTIME] = 0;
        raw.c_cc[VSUSP] = _POSIX_VDISABLE;
        terminal->changed = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
    }
    fputs(ENTER_SCREEN, stdout);
}

static void give_back_terminal(const struct terminal *terminal)
{
    fputs(LEAVE_SCREEN, stdout);
    (void)fflush(stdout);
    if (terminal->changed)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &terminal->saved);
}

static void window(size_t *rows, size_t *columns)
{
    struct winsize size;

    *rows = 24;
    *columns = 80;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0) {
        *rows = size.ws_row;
        *columns = size.ws_col;
    }
}

/* Put text on the screen, cut to it; what does not fit is counted in the last row. */
static void draw(const char *text)
{
    size_t rows, columns, row = 0, hidden = 0;

    window(&rows, &columns);
    fputs(HOME, stdout);
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        if (row + 1 < rows)
            printf("%.*s" CLEAR_LINE "\n", (int)(length < columns ? length : columns), text);
        else
            hidden++;
        row++;
        text += length + (text[length] == '\n');
    }
    fputs(CLEAR_BELOW, stdout);
    if (hidden > 0)
        printf("%zu more lines: enlarge the window, or use --job or --node", hidden);
    else
        printf("q ends");
    (void)fflush(stdout);
}

/* What is to be seen now, as text that the caller frees; NULL on lack of memory. */
static char *compose(const struct client_address *address, const struct status_filter *filter)
{
    char *text = NULL, error[1024], now[32] = "";
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL)
        return NULL;
    time_t seconds = time(NULL);
    struct tm broken;
    if (localtime_r(&seconds, &broken) == NULL || strftime(now, sizeof(now), "%T", &broken) == 0)
        now[0] = '\0';
    fprintf(out, "%s  ", now);
    struct json_object *document = status_fetch(address, filter, error, sizeof(error));
    if (document == NULL) {
        print_clean(out, error, "");
        fputc('\n', out);
    } else if (status_print(document, out) != 0) {
        fputs("not enough memory for the tables\n", out);
    }
    json_object_put(document);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* Wait for the next turn; false when the user wants to leave. */
static bool go_on(int wait_ms)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    int n = poll(&p, 1, wait_ms);

    if (ended)
        return false;
    if (n < 0)
        return errno == EINTR; /* the window changed: draw anew */
    if (n == 0)
        return true;
    char key;
    ssize_t got = read(STDIN_FILENO, &key, 1);
    return got > 0 && key != 'q' && key != 'Q'; /* the end of input ends it, too */
}

static int watch(const struct client_address *address, const struct status_filter *filter,
                 int wait_ms)
{
    struct terminal terminal = {.changed = false};
    int status = CLI_OK;

    catch_signals();
    take_terminal(&terminal);
    do {
        char *text = compose(address, filter);
        if (text == NULL) {
            status = CLI_FAILURE;
            break;
        }
        draw(text);
        free(text);
    } while (!ended && go_on(wait_ms));
    give_back_terminal(&terminal);
    if (status != CLI_OK)
        cli_error("not enough memory for the tables");
    return status;
}

/* Does standard output lead to a terminal that takes escape sequences? */
static bool can_draw(void)
{
    const char *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && term != NULL && term[0] != '\0' && strcmp(term, "dumb") != 0;
}

static int run(const struct cli *cli)
{
    const char *interval = cli_value(cli, "interval");
    struct client_address address;
    struct status_filter filter;
    double seconds = 1;
    int status;

    if (interval != NULL && !cli_number(interval, 0.2, 3600, &seconds))
        return cli_usage_error(cli, "--interval %s: give seconds, 0.2 to 3600", interval);
    if (!status_filter_options(cli, &filter))
        return CLI_USAGE;
    if (cli->json || !can_draw())
        return cli_command_status.run(cli);
    if (client_address(cli, &address, &status) != 0)
        return status;
    return watch(&address, &filter, (int)(seconds * 1000));
}

static const struct cli_option options[] = {
    {"interval", "SECONDS", "between two looks (default 1)"},
    {"job", "JOB[.STEP]", "only this job or step"},
    {"node", "NODE", "only this node"},
    {NULL, NULL, NULL},
};

const struct cli_command cli_command_top = {
    .name = "top",
    .arguments = "",
    .summary = "Show status, refreshed every second",
    .text = "q or Ctrl-C ends it. With --json, or where standard output is no terminal or TERM\n"
            "is dumb, it prints once.",
    .options = options,
    .run = run,
};
