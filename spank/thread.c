/* Threads in programs that are not ours: see thread.h. */
#include "config.h"

#include "thread.h"

#include <signal.h>

static int create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                  void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    int rc = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (rc != 0)
        return rc;
    rc = pthread_create(thread, attributes, run, argument);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int thread_start(pthread_t *thread, size_t stack_bytes, void *(*run)(void *), void *argument)
{
    pthread_attr_t attributes;
    pthread_t unnamed;
    int rc = pthread_attr_init(&attributes);
    if (rc != 0)
        return rc;
    rc = pthread_attr_setstacksize(&attributes, stack_bytes);
    if (rc == 0 && thread == NULL)
        rc = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (rc == 0)
        rc = create(thread != NULL ? thread : &unnamed, &attributes, run, argument);
    (void)pthread_attr_destroy(&attributes);
    return rc;
}
