/* What-if documents: what is accepted is solved, and no CPU is given twice or to nobody's pool. */
#include "config.h"

#include "fuzz.h"
#include "whatif.h"

#include <string.h>

const char fuzz_name[] = "whatif";
const unsigned fuzz_inputs = 6000;

static void check_solved(const struct whatif *w)
{
    for (size_t n = 0; n < w->nnodes; n++) {
        struct cpus seen = CPUS_EMPTY;

        for (size_t i = 0; i < w->nmembers; i++) {
            const struct whatif_member *m = &w->members[i];

            if (m->node != n)
                continue;
            PROMISE(cpus_count(&m->cpus) == m->cores);
            PROMISE(!cpus_intersects(&m->cpus, &seen));
            PROMISE(cpus_is_subset(&m->cpus, &w->nodes[n].pool));
            PROMISE(cpus_or(&seen, &m->cpus) == 0);
        }
        cpus_free(&seen);
    }
    PROMISE(w->result.upper_bound >= w->result.value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[512] = "";
    struct whatif *w = whatif_read((const char *)data, size, "/nonexistent", error, sizeof(error));

    if (w == NULL) {
        PROMISE(error[0] != '\0');
        return 0;
    }
    if (whatif_solve(w, error, sizeof(error)) == 0)
        check_solved(w);
    else
        PROMISE(error[0] != '\0');
    whatif_free(w);
    return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *buf, size_t size)
{
    static const char *const policies[] = {"gpu-busy", "nash", "max-min", "makespan", "even"};
    static const char *const guarantees[] = {"own", "even", "none"};
    int n =
        snprintf((char *)buf, size,
                 "{\"policy\": \"%s\", \"guarantee\": \"%s\", \"main_cores_per_task\": %u, "
                 "\"min_gain\": 0.0%u,\n"
                 " \"nodes\": [{\"name\": \"a\", \"pool_cpus\": \"9\"}, {\"name\": \"b\", "
                 "\"reserved_cpus\": \"1\"}],\n"
                 " \"members\": [{\"id\": \"1\", \"job\": \"j\", \"node\": \"a\", \"own_cpus\": "
                 "\"0-3\", \"gpu_rate\": %u, \"core_rate\": 50, \"beta\": 0.1},\n"
                 "  {\"id\": \"2\", \"job\": \"j\", \"node\": \"b\", \"own_cpus\": \"0-%u\", "
                 "\"held_cpus\": \"2\", \"gpu_rate\": 300, \"core_rate\": 60, \"io_rate\": 250},\n"
                 "  {\"id\": \"3\", \"node\": \"a\", \"own_cpus\": \"4-7\", \"tasks\": 2, "
                 "\"weight\": 2, \"uncertainty\": 0.1, \"work_samples\": 1000,\n"
                 "   \"workers_min\": 1, \"workers_max\": 6, \"curve_samples_per_s\": [0, 10, 30, "
                 "30, %u]}]}",
                 policies[index % 5], guarantees[index % 3], index % 3, index % 4,
                 100 + index % 400, 2 + index % 6, 30 + index % 50);

    PROMISE(n > 0 && (size_t)n < size);
    return (size_t)n;
}
