/*
 * Answers of a controller: what status and explain take is printed without harm, as printable ASCII
 * alone, and what they refuse has a reason.
 */
#include "explain.h"
#include "fuzz.h"
#include "status.h"

#include <json-c/json.h>
#include <string.h>

const char fuzz_name[] = "answers";
const unsigned fuzz_inputs = 20000;

static void check_output(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        PROMISE((text[i] >= ' ' && text[i] <= '~') || text[i] == '\n');
}

static void take(struct json_object *document, const char *error,
                 int (*print)(struct json_object *document, FILE *out))
{
    char *text = NULL;
    size_t length = 0;

    if (document == NULL) {
        PROMISE(error[0] != '\0');
        return;
    }
    FILE *out = open_memstream(&text, &length);
    PROMISE(out != NULL && print(document, out) == 0 && fclose(out) == 0);
    check_output(text, length);
    free(text);
    json_object_put(document);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[512] = "";
    char *text = malloc(size + 1);

    PROMISE(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    take(status_parse(text, size, error, sizeof(error)), error, status_print);
    error[0] = '\0';
    take(explain_parse(text, size, error, sizeof(error)), error, explain_print);
    free(text);
    return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *buf, size_t size)
{
    static const char *const texts[] = {
        "{\"controller\":{\"version\":\"1\",\"uptime_s\":93784.2,\"policy\":\"nash\",\"settling\":"
        "true,"
        "\"agents\":2,\"nodes\":1},\"nodes\":[{\"name\":\"n1\",\"topology\":\"known\",\"pus\":4,"
        "\"pool_cpus\":\"0-3\",\"free_cpus\":\"\",\"members\":2}],\"members\":[{\"id\":\"12.0\","
        "\"node\":\"n1\",\"state\":\"managed\",\"loader_cores\":3,\"own_loader_cores\":2,"
        "\"borrowed_cores\":1,\"borrowed_from\":[{\"id\":\"13.0\",\"cpus\":\"3\"}],"
        "\"loader_use_cores\":1.5,\"gpu_busy_share\":0.5,\"verdict\":\"cpu-starved\"}]}",
        "{\"controller\":{},\"members\":[{\"id\":\"12.0\",\"node\":\"n1\",\"loader_tasks\":4,"
        "\"own_cpus\":\"0-3\",\"loader_cores\":2,\"own_loader_cores\":1,\"demand_cores\":1.5,"
        "\"rate_now\":2,\"rate_own\":1,\"predicted_error\":0.1,\"age_s\":1e9,\"curve\":{\"unit\":"
        "\"relative\",\"rate\":[0,1,2,3],\"low\":[0,1,null],\"high\":[0,1e300,-1],\"limit\":"
        "[\"loader\",null],\"gpu_rate\":2.5},\"history\":[{\"age_s\":-1,\"cores\":2,\"reason\":"
        "\"x\"}]}]}",
    };
    const char *text = texts[index % (sizeof(texts) / sizeof(texts[0]))];
    size_t length = strlen(text);

    PROMISE(length <= size);
    memcpy(buf, text, length);
    return length;
}
