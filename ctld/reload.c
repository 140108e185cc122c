/* Reading the configuration again. See reload.h. */
#include "config.h"

#include "reload.h"

#include "confcheck.h"
#include "control.h"
#include "ctld.h"
#include "log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void warn(const char *sentence)
{
    log_warning("%s", sentence);
}

void reload_apply(struct ctld *ctld, bool foreground)
{
    log_set_level(ctld->conf->log_level);
    if (foreground && ctld->conf->log_target == CONF_LOG_STDERR) /* else it leads nowhere */
        log_to_stderr("adloaderctld");
    else
        log_to_syslog("adloaderctld");
    ctld->slurm_uid = confcheck_user(ctld->conf, warn);
    confcheck_suspect(ctld->conf, &ctld->self, warn);
}

/* Keep the old value of what was bound to at the start. */
static void keep(char **fresh, char **old, const char *key)
{
    char *swap;

    if (strcmp(*fresh, *old) == 0)
        return;
    log_warning("%s=%s takes a restart; %s stays", key, *fresh, *old);
    swap = *fresh;
    *fresh = *old;
    *old = swap;
}

static void keep_bound(struct conf *fresh, struct conf *old)
{
    keep(&fresh->socket, &old->socket, "ControllerSocket");
    keep(&fresh->listen_address, &old->listen_address, "ListenAddress");
    keep(&fresh->controllers, &old->controllers, "Controllers");
    keep(&fresh->munge_socket, &old->munge_socket, "MungeSocket");
    keep(&fresh->pid_file, &old->pid_file, "PidFile");
    keep(&fresh->state_dir, &old->state_dir, "StateDir");
    if (fresh->port != old->port) {
        log_warning("ControllerPort=%u takes a restart; %u stays", fresh->port, old->port);
        fresh->port = old->port;
    }
    if (fresh->log_target != old->log_target) {
        log_warning("LogTarget takes a restart");
        fresh->log_target = old->log_target;
    }
}

void reload_conf(struct ctld *ctld)
{
    char error[4096] = "";
    struct conf *fresh = conf_read(ctld->conf_file, error, sizeof(error));

    if (fresh == NULL) {
        char *state = NULL;

        for (char *line = strtok_r(error, "\n", &state); line != NULL;
             line = strtok_r(NULL, "\n", &state))
            log_error("%s", line);
        log_error("the new configuration is refused; the old one stays in force");
        return;
    }
    keep_bound(fresh, ctld->conf);
    conf_free(ctld->conf);
    ctld->conf = fresh;
    ctld->registry.conf_generation++;
    warnonce_forget(&ctld->warned);
    log_set_level(fresh->log_level);
    ctld->slurm_uid = confcheck_user(fresh, warn);
    confcheck_suspect(fresh, &ctld->self, warn);
    log_info("configuration read again; %zu agents keep their connections",
             ctld->registry.nmembers);
    control_touch_all(ctld);
}
