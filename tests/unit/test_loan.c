/* Lenders and borrowers in touch: what ends a loan, and who may borrow what. */
#include "config.h"

#include "loan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct world {
    char root[64];
    struct nodedir node;
    struct cpus own;
    struct loans lender, borrower;
};

static struct cpus list(const char *text)
{
    struct cpus set = CPUS_EMPTY;
    assert_int_equal(cpus_parse(&set, text), 0);
    return set;
}

static int begin(void **state)
{
    static struct world w;
    memset(&w, 0, sizeof w);
    snprintf(w.root, sizeof w.root, "/tmp/adl-loan-XXXXXX");
    if (mkdtemp(w.root) == NULL || nodedir_open(&w.node, w.root, "n1") < 0)
        return -1;
    w.own = list("0-3");
    loans_init(&w.lender, &w.node, 1, 0, &w.own);
    loans_init(&w.borrower, &w.node, 2, 5, &w.own);
    if (loans_listen(&w.lender) < 0)
        return -1;
    *state = &w;
    return 0;
}

static int unlink_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static int end(void **state)
{
    struct world *w = *state;
    loans_free(&w->lender);
    loans_free(&w->borrower);
    cpus_free(&w->own);
    nodedir_close(&w->node);
    return nftw(w->root, unlink_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Let it hear what has come. What ended, as a list. */
static const char *turn(struct loans *l, bool *gone)
{
    static char text[256];
    struct pollfd fds[LOAN_POLL_MAX];
    struct cpus ended = CPUS_EMPTY;
    bool one = false;
    unsigned n = loans_poll(l, fds);
    if (poll(fds, n, 20) > 0)
        loans_ready(l, fds, n, &ended, &one);
    if (gone != NULL)
        *gone = one;
    (void)cpus_format(&ended, text, sizeof text);
    cpus_free(&ended);
    return text;
}

static int borrow(struct loans *l, uint32_t job, uint32_t step, const char *cpus)
{
    struct msg_loan loan = {.job = job, .step = step, .cpus = list(cpus)};
    int rc = loans_borrow(l, &loan);
    cpus_free(&loan.cpus);
    return rc;
}

/* Both hear each other until all is said. */
static void in_touch(struct world *w, const char *cpus)
{
    assert_int_equal(borrow(&w->borrower, 1, 0, cpus), 0);
    for (int i = 0; i < 3; i++)
        (void)turn(&w->lender, NULL);
    assert_string_equal(turn(&w->borrower, NULL), "");
}

static void lender_knows_its_borrowers(void **state)
{
    struct world *w = *state;
    struct cpus two = list("2"), more = list("2-3");
    in_touch(w, "2");
    assert_int_equal(w->lender.nborrowers, 1);
    assert_int_equal(w->lender.borrowers[0].job, 2);
    assert_int_equal(w->lender.borrowers[0].step, 5);
    assert_true(cpus_equal(&w->lender.borrowers[0].cpus, &two));
    in_touch(w, "2-3"); /* over the same connection */
    assert_int_equal(w->lender.nborrowers, 1);
    assert_int_equal(w->borrower.nlenders, 1);
    assert_true(cpus_equal(&w->lender.borrowers[0].cpus, &more));
    cpus_free(&two);
    cpus_free(&more);
}

static void recall_ends_it(void **state)
{
    struct world *w = *state;
    bool gone = false;
    in_touch(w, "1-2");
    loans_recall(&w->lender);
    assert_int_equal(borrow(&w->borrower, 1, 0, "1-2"), 0); /* has not heard of it yet */
    assert_int_equal(loans_wait(&w->lender, 30), 1);        /* still there */
    assert_string_equal(turn(&w->borrower, NULL), "1-2");
    assert_int_equal(borrow(&w->borrower, 1, 0, "1-2"), -1); /* over is over */
    assert_int_equal(w->borrower.nlenders, 1);               /* until its tasks have left */
    loans_keep_living(&w->borrower);
    assert_int_equal(w->borrower.nlenders, 0);
    assert_int_equal(loans_wait(&w->lender, 1000), 0);
    assert_int_equal(borrow(&w->borrower, 1, 0, "1-2"), -1); /* nobody listens any more */
    assert_int_equal(loans_listen(&w->lender), 0);           /* resumed */
    in_touch(w, "1");
    assert_int_equal(w->lender.nborrowers, 1);
    loans_keep(&w->borrower, NULL, 0);
    (void)turn(&w->lender, &gone);
    assert_true(gone);
    assert_int_equal(w->lender.nborrowers, 0);
}

/* Nobody accepts what comes between the last turn and the end: it ends all the same. */
static void latecomer_is_told(void **state)
{
    struct world *w = *state;
    assert_int_equal(borrow(&w->borrower, 1, 0, "3"), 0);
    loans_recall(&w->lender);
    assert_int_equal(loans_wait(&w->lender, 1000), 0);
    assert_string_equal(turn(&w->borrower, NULL), "3");
}

static void keeps_those_that_are_listed(void **state)
{
    struct world *w = *state;
    struct loans other;
    struct msg_loan first = {.job = 1, .step = 0};
    loans_init(&other, &w->node, 3, 0, &w->own);
    assert_int_equal(loans_listen(&other), 0);
    in_touch(w, "0");
    assert_int_equal(borrow(&w->borrower, 3, 0, "2"), 0);
    assert_int_equal(w->borrower.nlenders, 2);
    loans_keep(&w->borrower, &first, 1);
    assert_int_equal(w->borrower.nlenders, 1);
    assert_int_equal(w->borrower.lenders[0].job, 1);
    loans_free(&other);
}

static void lender_refuses_what_is_not_its_own(void **state)
{
    struct world *w = *state;
    assert_int_equal(borrow(&w->borrower, 1, 0, "3-4"), 0);
    for (int i = 0; i < 3; i++)
        (void)turn(&w->lender, NULL);
    assert_int_equal(w->lender.nborrowers, 0);
    assert_string_equal(turn(&w->borrower, NULL), "3-4");
}

static void nobody_there(void **state)
{
    struct world *w = *state;
    struct loans apart;
    struct nodedir none = {-1, -1};
    assert_int_equal(borrow(&w->borrower, 9, 9, "0"), -1);
    loans_init(&apart, &none, 4, 0, &w->own);
    assert_int_equal(loans_listen(&apart), -1);
    assert_int_equal(borrow(&apart, 1, 0, "0"), -1);
    loans_free(&apart);
}

static void garbage_is_cut_off(void **state)
{
    struct world *w = *state;
    static const char *const words[] = {
        "x", "borrow", "borrow 1", "borrow 1 2", "borrow -1 x 0", "borrow 1 2 0-", "borrow 1 2 0 3",
    };
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        char byte;
        snprintf(address.sun_path, sizeof address.sun_path, "%s/node/n1/1.0.sock", w->root);
        assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
        assert_true(send(fd, words[i], strlen(words[i]), MSG_NOSIGNAL) > 0);
        for (int k = 0; k < 3; k++)
            (void)turn(&w->lender, NULL);
        assert_int_equal(w->lender.nborrowers, 0);
        assert_int_equal(recv(fd, &byte, 1, 0), 0);
        close(fd);
    }
}

static void too_many_are_turned_away(void **state)
{
    enum { MANY = LOAN_BORROWERS_MAX + 8 };
    struct world *w = *state;
    static struct loans many[MANY];
    unsigned turned_away = 0;
    for (unsigned i = 0; i < MANY; i++) {
        loans_init(&many[i], &w->node, 100 + i, 0, &w->own);
        assert_int_equal(borrow(&many[i], 1, 0, "0"), 0);
        (void)turn(&w->lender, NULL);
        (void)turn(&w->lender, NULL);
    }
    assert_int_equal(w->lender.nborrowers, LOAN_BORROWERS_MAX);
    for (unsigned i = 0; i < MANY; i++) {
        turned_away += strcmp(turn(&many[i], NULL), "0") == 0;
        loans_free(&many[i]);
    }
    assert_int_equal(turned_away, 8);
}

static bool there(const struct world *w, const char *name)
{
    return faccessat(w->node.fd, name, F_OK, 0) == 0;
}

/* kill -9 of the lender: the kernel closes its side; its socket is swept by a later agent. */
static void killed_lender_ends_it(void **state)
{
    struct world *w = *state;
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct loans mine;
        loans_init(&mine, &w->node, 7, 0, &w->own);
        if (loans_listen(&mine) < 0 || write(ready[1], "r", 1) != 1)
            _exit(1);
        for (;;)
            (void)turn(&mine, NULL);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(borrow(&w->borrower, 7, 0, "1"), 0);
    struct timespec moment = {0, 50000000};
    (void)nanosleep(&moment, NULL);
    assert_string_equal(turn(&w->borrower, NULL), "");
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_string_equal(turn(&w->borrower, NULL), "1");
    assert_true(there(w, "7.0.sock"));
    loans_sweep(&w->node);
    assert_false(there(w, "7.0.sock"));
    assert_true(there(w, "1.0.sock"));
    close(ready[0]);
    close(ready[1]);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(lender_knows_its_borrowers),
        CASE(recall_ends_it),
        CASE(latecomer_is_told),
        CASE(keeps_those_that_are_listed),
        CASE(lender_refuses_what_is_not_its_own),
        CASE(nobody_there),
        CASE(garbage_is_cut_off),
        CASE(too_many_are_turned_away),
        CASE(killed_lender_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
