/* What the controller's words mean: see words.h. adloader(7) lists the same verdicts. */
#include "config.h"

#include "words.h"

#include <stddef.h>
#include <string.h>

struct word {
    const char *word, *meaning;
};

static const struct word verdicts[] = {
    {"gpu-bound", "data is never late: the GPU itself is the limit, and more cores will not help"},
    {"cpu-starved", "the GPU waits for data, and more loader cores would help"},
    {"worker-limited",
     "the GPU waits for data, but the program runs fewer loader workers than it has "
     "cores: start more workers"},
    {"io-bound", "the loaders wait for storage: more cores will not help"},
    {"main-thread-bound",
     "the loaders are ahead, but the rank's main thread keeps the GPU waiting: "
     "more loader cores will not help"},
    {"stalled", "nothing moves: no CPU use, no samples, no GPU work"},
    {"orphaned", "the ranks are gone, but their loader workers still run"},
    {"unmanaged", "it is left on the cores that Slurm gave it"},
    {"unknown", "nothing has been measured yet that would tell"},
};

static const struct word states[] = {
    {"managed", "its loaders are measured, and it takes part in loans"},
    {"learning",
     "it has just started: it keeps its own cores until its loaders have been measured"},
    {"bystander", "it is counted, but lends and borrows nothing"},
    {"settling", "the controller has just started and changes nothing yet"},
};

static const char *find(const struct word *words, size_t nwords, const char *word)
{
    for (size_t i = 0; word != NULL && i < nwords; i++)
        if (strcmp(words[i].word, word) == 0)
            return words[i].meaning;
    return NULL;
}

const char *words_verdict(const char *verdict)
{
    return find(verdicts, sizeof(verdicts) / sizeof(verdicts[0]), verdict);
}

const char *words_state(const char *state)
{
    return find(states, sizeof(states) / sizeof(states[0]), state);
}
