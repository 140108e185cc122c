/*
 * Being a daemon: the starter waits until the daemon is ready or prints why it cannot be; systemd
 * is told over NOTIFY_SOCKET (the protocol of sd_notify(3), without its library); one process a
 * pid file.
 */
#ifndef ADLOADER_DAEMON_H
#define ADLOADER_DAEMON_H

struct daemon {
    int starter; /* pipe to the waiting parent; -1 none */
    int pid_fd;  /* open and locked; -1 none */
    char *pid_file;
};

/*
 * Go into the background. Returns in the daemon only; the parent exits when daemon_ready() or
 * daemon_failed() was called there, or the daemon died. -1 with a sentence on stderr: still in the
 * caller.
 */
int daemon_detach(struct daemon *daemon);

/* Write and lock the pid file ("" none). 0, or -1 with a sentence in error. */
int daemon_pid_file(struct daemon *daemon, const char *path, char *error, unsigned long error_size);

/* Why that path cannot become a pid file, as far as whoever asks may see: "is a folder", or what is
 * there that must not be overwritten. NULL: for no such reason. */
const char *daemon_no_pid_file(const char *path);

/* Tell the parent and systemd. */
void daemon_ready(struct daemon *daemon);
void daemon_failed(struct daemon *daemon, const char *text);

/* "RELOADING=1", "STOPPING=1", ... to systemd, if it asked. */
void daemon_notify(const char *state);
void daemon_notify_reloading(void);

/* Removes the pid file, if it is the one that was written. */
void daemon_fini(struct daemon *daemon);

#endif
