/* Configuration files: what is accepted prints as a file that reads back to itself. */
#include "config.h"

#include "conf.h"
#include "fuzz.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char fuzz_name[] = "conf";
const unsigned fuzz_inputs = 6000;

/* Read bytes through a file in memory. */
static struct conf *read_bytes(const void *data, size_t size, char *error, size_t error_size)
{
    char path[64];
    int fd = memfd_create("conf", MFD_CLOEXEC);
    PROMISE(fd >= 0);
    PROMISE(write(fd, data, size) == (ssize_t)size);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    struct conf *conf = conf_read(path, error, error_size);
    PROMISE(close(fd) == 0);
    return conf;
}

static char *print(const struct conf *conf, size_t *length)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, length);
    PROMISE(out != NULL);
    PROMISE(conf_print(conf, out) == 0);
    PROMISE(fclose(out) == 0);
    return text;
}

static void check_accepted(const struct conf *conf)
{
    char error[1024];
    size_t once_length, twice_length;
    char *once = print(conf, &once_length);
    struct conf *back = read_bytes(once, once_length, error, sizeof(error));
    PROMISE(back != NULL);
    char *twice = print(back, &twice_length);
    PROMISE(once_length == twice_length && memcmp(once, twice, once_length) == 0);
    for (size_t i = 0; i < conf->nnodes; i++)
        PROMISE(conf_node(back, conf->nodes[i].name) != NULL);
    free(once);
    free(twice);
    conf_free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[1024];
    struct conf *conf = read_bytes(data, size, error, sizeof(error));
    if (conf) {
        PROMISE(error[0] == '\0');
        /* Thousands of nodes are right, but printing them says no more than a few do. */
        if (conf->nnodes < 1000)
            check_accepted(conf);
    } else {
        size_t length = strnlen(error, sizeof(error));
        PROMISE(length > 0 && length < sizeof(error) && error[length - 1] == '\n');
    }
    conf_free(conf);

    char *text = malloc(size + 1);
    PROMISE(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    size_t count = 0, listed = 0;
    char **names = conf_hostlist(text, &count);
    while (names && names[listed])
        listed++;
    PROMISE(count <= CONF_NODES_MAX && (!names || listed == count));
    conf_hostlist_free(names);
    free(text);
    return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *buf, size_t size)
{
    static const char *const texts[] = {
        "# comment\nControllerSocket = /run/a.sock\nListenAddress=::1\nControllerPort=7000\n",
        "LeaseTime=5s\nReportInterval=500ms\nScanInterval=0.25\nAckTimeout=.1 # fast\n",
        "NodeName=n[01-03],gpu PoolCores=0-1,5 ReservedCores=7 MainCoresPerTask=2\nMinGain=0.05\n",
        "Policy=nash\nGuarantee=none\nLogTarget=syslog\nLogLevel=debug\nSlurmUser=\n",
        "r[1-2]n[1-4,7]-ib,login[001-010]",
        "StateDir=/var/lib/x\nPidFile=/run/x.pid\nMungeSocket=/run/munge.socket\nMaxAgents=10\n",
        "SettleTime=0\nLearnTime=3600\nMinHoldTime=0\nMainCoresPerTask=0\n",
    };
    const char *text = texts[index % (sizeof(texts) / sizeof(texts[0]))];
    size_t length = strlen(text);
    PROMISE(length <= size);
    memcpy(buf, text, length);
    return length;
}
