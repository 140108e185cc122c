/* Traces for the simulator: what is accepted prints as a trace that reads back to the same, and a
 * small one runs, or says why not. */
#include "config.h"

#include "fuzz.h"
#include "sim.h"
#include "trace.h"

#include <string.h>

const char fuzz_name[] = "trace";
const unsigned fuzz_inputs = 3000;

static char *print(const struct trace *trace, size_t *length)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, length);

    PROMISE(out != NULL);
    PROMISE(trace_print(trace, out) == 0);
    PROMISE(fclose(out) == 0);
    return text;
}

static void check_accepted(const struct trace *trace)
{
    char error[512] = "";
    size_t length = 0;
    char *text = print(trace, &length);
    struct trace *back = trace_parse(text, length, error, sizeof(error));

    /* work below one sample prints as none, which is refused */
    for (size_t i = 0; back == NULL && i < trace->njobs; i++)
        if (trace->jobs[i].work_samples < 1)
            error[0] = '\0';
    PROMISE(back != NULL || error[0] == '\0');
    if (back != NULL) {
        PROMISE(back->njobs == trace->njobs && back->ncurves == trace->ncurves);
        PROMISE(back->nnodes == trace->nnodes && back->cores == trace->cores);
    }
    trace_free(back);
    free(text);
}

static void run(const struct trace *trace)
{
    const struct sim_options options = {
        .policy = (enum alloc_policy)(trace->njobs % 4), .error = 0.1, .uncertainty = 0.1};
    char error[512] = "";
    struct sim_result result;

    if (sim_run(trace, &options, &result, error, sizeof(error)) < 0) {
        PROMISE(error[0] != '\0');
        return;
    }
    for (size_t j = 0; j < trace->njobs; j++)
        PROMISE(result.end_s[j] >= result.start_s[j] &&
                result.start_s[j] >= trace->jobs[j].arrival_s);
    sim_result_free(&result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[512] = "";
    struct trace *trace = trace_parse((const char *)data, size, error, sizeof(error));

    if (trace == NULL) {
        PROMISE(error[0] != '\0');
        return 0;
    }
    check_accepted(trace);
    if (trace->njobs <= 12 && trace->nnodes * trace->gpus <= 64 && trace->cores <= 256)
        run(trace);
    trace_free(trace);
    return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *buf, size_t size)
{
    const struct trace_spec spec = {.jobs = 2 + index % 8,
                                    .nodes = 1 + index % 3,
                                    .gpus = 1 + index % 4,
                                    .cores = 8 + index % 20,
                                    .job_gpus = 1,
                                    .job_nodes = 1,
                                    .load = 1,
                                    .hours = 1,
                                    .modest = 0.5,
                                    .seed = index,
                                    .pool_all = index % 2 == 0};
    char error[512];
    struct trace *trace = trace_generate(&spec, NULL, error, sizeof(error));
    size_t length = 0;
    char *text;

    PROMISE(trace != NULL);
    text = print(trace, &length);
    length = length < size ? length : size;
    memcpy(buf, text, length);
    free(text);
    trace_free(trace);
    return length;
}
