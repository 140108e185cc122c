/* Making a data set of photograph-like pictures. */
#include "config.h"

#include "dataset.h"

#include "files.h"
#include "jpeg.h"
#include "log.h"
#include "picture.h"
#include "raw.h"
#include "rng.h"
#include "tokens.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Changes whenever the same seed would give other bytes. */
#define DATASET_FORMAT 1

#define VOCABULARY 50000.0 /* tokens; that of usual language models */

#define QUALITY_MIN 30
#define QUALITY_MAX 98

/* ---- one image --------------------------------------------------------------------------- */

/*
 * The size a file is to have: the mean, more for larger pictures, with the spread of real ones
 * (log-normal, standard deviation 0.35; the factor makes its mean the wanted one over the sizes
 * that picture_draw_size() draws).
 */
static double draw_target_bytes(struct rng *rng, double mean_kb, unsigned width, unsigned height)
{
    const double usual_pixels = 500.0 * 375.0, deviation = 0.35, mean_factor = 0.94;
    double area = pow((double)width * height / usual_pixels, 0.8);

    return 1000.0 * mean_kb * mean_factor * area *
           exp(deviation * rng_normal(rng) - 0.5 * deviation * deviation);
}

struct encoded {
    uint8_t *data;
    size_t length;
};

static double distance(const struct encoded *encoded, double target)
{
    return fabs((double)encoded->length - target);
}

/* Keep the nearer one of both to target; the other is freed. */
static void keep_nearer(struct encoded *best, struct encoded candidate, double target)
{
    if (best->data != NULL && distance(best, target) <= distance(&candidate, target)) {
        free(candidate.data);
        return;
    }
    free(best->data);
    *best = candidate;
}

/* File size grows with quality: bisect to the quality whose size is nearest to target. */
static int encode_to_size(const struct picture *picture, double target, struct encoded *best,
                          char *error)
{
    int low = QUALITY_MIN, high = QUALITY_MAX;

    while (low <= high) {
        int quality = (low + high) / 2;
        struct encoded candidate;

        if (jpeg_encode(picture->rgb, picture->width, picture->height, quality, &candidate.data,
                        &candidate.length, error) < 0) {
            free(best->data);
            return -1;
        }
        if ((double)candidate.length > target)
            high = quality - 1;
        else
            low = quality + 1;
        keep_nearer(best, candidate, target);
    }
    return 0;
}

static int out_of_memory(uint32_t number)
{
    log_error("image %" PRIu32 ": out of memory", number);
    return -1;
}

static int make_jpeg(const struct dataset_config *config, uint32_t number, uint8_t **data,
                     size_t *length)
{
    struct rng rng = rng_for(config->seed, number);
    struct picture picture;
    struct encoded best = {NULL, 0};
    char error[JPEG_ERROR_MAX];
    unsigned width, height;
    double target;
    int rc;

    picture_draw_size(&rng, &width, &height);
    target = draw_target_bytes(&rng, config->mean_kb, width, height);
    if (picture_paint(&rng, width, height, &picture) < 0)
        return out_of_memory(number);
    rc = encode_to_size(&picture, target, &best, error);
    picture_free(&picture);
    if (rc < 0) {
        log_error("image %" PRIu32 ": cannot encode: %s", number, error);
        return -1;
    }
    *data = best.data;
    *length = best.length;
    return 0;
}

static int make_raw(const struct dataset_config *config, uint32_t number, uint8_t **data,
                    size_t *length)
{
    struct rng rng = rng_for(config->seed, number);
    struct picture picture;
    int rc;

    if (picture_paint(&rng, config->side, config->side, &picture) < 0)
        return out_of_memory(number);
    rc = raw_encode(picture.rgb, picture.width, picture.height, data, length);
    picture_free(&picture);
    return rc < 0 ? out_of_memory(number) : 0;
}

/* Tokens as often as words are: each about as often as its rank in the vocabulary says (Zipf). */
static int make_tokens(const struct dataset_config *config, uint32_t number, uint8_t **data,
                       size_t *length)
{
    struct rng rng = rng_for(config->seed, number);
    uint32_t *tokens = calloc(config->length, sizeof *tokens);
    int rc = -1;

    if (tokens != NULL) {
        for (unsigned i = 0; i < config->length; i++)
            tokens[i] = (uint32_t)(pow(VOCABULARY, rng_unit(&rng)) - 1.0);
        rc = tokens_encode(tokens, config->length, data, length);
    }
    free(tokens);
    return rc < 0 ? out_of_memory(number) : 0;
}

int dataset_picture(const struct dataset_config *config, uint32_t number, uint8_t **data,
                    size_t *length)
{
    switch (config->format) {
    case SAMPLE_RAW:
        return make_raw(config, number, data, length);
    case SAMPLE_TOKENS:
        return make_tokens(config, number, data, length);
    case SAMPLE_JPEG:
    case SAMPLE_FORMATS:
        break;
    }
    return make_jpeg(config, number, data, length);
}

/* ---- the folder -------------------------------------------------------------------------- */

static int make_folder(const char *path)
{
    if (mkdir(path, 0777) < 0 && errno != EEXIST) {
        log_error("cannot make the folder %s: %s", path, strerror(errno));
        return -1;
    }
    return 0;
}

static int make_folders(const struct dataset_config *config)
{
    if (make_folder(config->folder) < 0)
        return -1;
    for (unsigned i = 0; config->pack == 0 && i < config->classes && i < config->images; i++) {
        char *path;
        int rc;

        if (asprintf(&path, "%s/class-%03u", config->folder, i) < 0) {
            log_error("out of memory");
            return -1;
        }
        rc = make_folder(path);
        free(path);
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* ---- dataset.json: what makes file i what it is ------------------------------------------- */

/* The words of JPEG files have stayed the same, so that older data sets can be continued. */
static char *description(const struct dataset_config *config)
{
    char variant[96] = "", *text;

    if (config->format == SAMPLE_RAW)
        (void)snprintf(variant, sizeof variant, ", \"samples\": \"raw\", \"side\": %u",
                       config->side);
    if (config->format == SAMPLE_TOKENS)
        (void)snprintf(variant, sizeof variant, ", \"samples\": \"tokens\", \"length\": %u",
                       config->length);
    if (config->pack > 0)
        (void)snprintf(variant + strlen(variant), sizeof variant - strlen(variant),
                       ", \"pack\": %" PRIu32, config->pack);
    if (asprintf(&text,
                 "{\"made_by\": \"adltrain make-data\", \"format\": %d, \"seed\": %" PRIu64
                 ", \"size_mean_kb\": %g, \"classes\": %u%s}\n",
                 DATASET_FORMAT, config->seed, config->mean_kb, config->classes, variant) < 0) {
        log_error("out of memory");
        return NULL;
    }
    return text;
}

/* What fits into a message: the first line. */
static size_t first_line(const struct file_bytes *bytes)
{
    size_t length = 0;

    while (length < bytes->length && length < 300 && bytes->data[length] != '\n')
        length++;
    return length;
}

/* The folder is new, or holds the same data set (perhaps fewer or more images of it). */
static int check_description(const char *path, const char *wanted)
{
    struct file_bytes found = {0};
    char error[FILES_ERROR_MAX];
    bool same;

    if (file_read(path, &found, error) < 0) {
        if (errno != ENOENT) {
            log_error("%s", error);
            return -1;
        }
        if (file_write_atomically(path, wanted, strlen(wanted), error) < 0) {
            log_error("%s", error);
            return -1;
        }
        return 0;
    }
    same = found.length == strlen(wanted) && memcmp(found.data, wanted, found.length) == 0;
    if (!same)
        log_error("%s describes another data set (%.*s): give the same --seed, --size-mean, "
                  "--classes, --format, --side, --length and --pack to continue it, or choose "
                  "another folder",
                  path, (int)first_line(&found), (const char *)found.data);
    file_bytes_free(&found);
    return same ? 0 : -1;
}

static int describe(const struct dataset_config *config)
{
    char *wanted = description(config), *path = NULL;
    int rc = -1;

    if (wanted != NULL && asprintf(&path, "%s/dataset.json", config->folder) >= 0)
        rc = check_description(path, wanted);
    free(path);
    free(wanted);
    return rc;
}

/* ---- making it --------------------------------------------------------------------------- */

struct making {
    const struct dataset_config *config;
    atomic_int *stop;
    atomic_uint next;
    atomic_uint made, kept;
    atomic_uint_fast64_t bytes;
    atomic_bool failed;
};

static bool exists(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0;
}

static int make_file(struct making *making, uint32_t number, const char *path)
{
    const struct dataset_config *config = making->config;
    char error[FILES_ERROR_MAX];
    uint8_t *data;
    size_t length;
    int rc;

    if (dataset_picture(config, number, &data, &length) < 0)
        return -1;
    rc = file_write_atomically(path, data, length, error);
    free(data);
    if (rc < 0) {
        log_error("%s", error);
        return -1;
    }
    atomic_fetch_add(&making->made, 1);
    atomic_fetch_add(&making->bytes, length);
    return 0;
}

static int make_or_keep(struct making *making, uint32_t number)
{
    static const char *const endings[] = {
        [SAMPLE_JPEG] = "jpg", [SAMPLE_RAW] = "raw", [SAMPLE_TOKENS] = "tokens"};
    const struct dataset_config *config = making->config;
    char *path;
    int rc = 0;

    if (asprintf(&path, "%s/class-%03u/image-%08" PRIu32 ".%s", config->folder,
                 number % config->classes, number, endings[config->format]) < 0) {
        log_error("out of memory");
        return -1;
    }
    if (exists(path))
        atomic_fetch_add(&making->kept, 1);
    else
        rc = make_file(making, number, path);
    free(path);
    return rc;
}

/* ---- packs --------------------------------------------------------------------------------- */

static uint32_t pack_pictures(const struct dataset_config *config, uint32_t number)
{
    uint32_t first = number * config->pack, left = config->images - first;

    return left < config->pack ? left : config->pack;
}

/* A pack that holds as many pictures as it is to, or more. */
static bool pack_exists(const char *data_path, const char *index_path, uint32_t pictures)
{
    struct pack_index index;
    char ignored[FILES_ERROR_MAX];
    struct stat status;
    bool there = false;

    if (stat(data_path, &status) < 0)
        return false;
    if (pack_index_read(index_path, (uint64_t)status.st_size, &index, ignored) == 0) {
        there = index.count >= pictures;
        pack_index_free(&index);
    }
    return there;
}

static int add_picture(struct making *making, struct pack_writer *writer, uint32_t number)
{
    char error[FILES_ERROR_MAX];
    uint8_t *data;
    size_t length;
    int rc;

    if (dataset_picture(making->config, number, &data, &length) < 0) {
        pack_writer_abandon(writer);
        return -1;
    }
    rc = pack_writer_add(writer, data, length, error);
    free(data);
    if (rc < 0)
        log_error("%s", error);
    return rc;
}

/* 0, or -1; a stop leaves nothing of this pack. */
static int write_pack(struct making *making, uint32_t number, const char *data_path,
                      const char *index_path)
{
    const struct dataset_config *config = making->config;
    uint32_t pictures = pack_pictures(config, number);
    struct pack_writer writer;
    char error[FILES_ERROR_MAX];
    uint64_t bytes;

    if (pack_writer_open(&writer, data_path, config->format, pictures, error) < 0) {
        log_error("%s", error);
        return -1;
    }
    for (uint32_t i = 0; i < pictures; i++) {
        if (atomic_load(making->stop) != 0) {
            pack_writer_abandon(&writer);
            return 0;
        }
        if (add_picture(making, &writer, number * config->pack + i) < 0)
            return -1;
    }
    bytes = writer.bytes;
    if (pack_writer_finish(&writer, index_path, error) < 0) {
        log_error("%s", error);
        return -1;
    }
    atomic_fetch_add(&making->made, pictures);
    atomic_fetch_add(&making->bytes, bytes);
    return 0;
}

static int make_or_keep_pack(struct making *making, uint32_t number)
{
    const struct dataset_config *config = making->config;
    char *data_path = NULL, *index_path = NULL;
    int rc = 0;

    if (asprintf(&data_path, "%s/pack-%05" PRIu32 ".bin", config->folder, number) < 0)
        data_path = NULL;
    if (asprintf(&index_path, "%s/pack-%05" PRIu32 ".idx", config->folder, number) < 0)
        index_path = NULL;
    if (data_path == NULL || index_path == NULL) {
        log_error("out of memory");
        rc = -1;
    } else if (pack_exists(data_path, index_path, pack_pictures(config, number))) {
        atomic_fetch_add(&making->kept, pack_pictures(config, number));
    } else {
        rc = write_pack(making, number, data_path, index_path);
    }
    free(index_path);
    free(data_path);
    return rc;
}

/* ---- all of it ----------------------------------------------------------------------------- */

static unsigned units(const struct dataset_config *config)
{
    return config->pack == 0 ? config->images : (config->images - 1) / config->pack + 1;
}

static void *make_files(void *argument)
{
    struct making *making = argument;

    while (atomic_load(making->stop) == 0 && !atomic_load(&making->failed)) {
        unsigned number = atomic_fetch_add(&making->next, 1);
        int rc;

        if (number >= units(making->config))
            break;
        rc = making->config->pack == 0 ? make_or_keep(making, number)
                                       : make_or_keep_pack(making, number);
        if (rc < 0)
            atomic_store(&making->failed, true);
    }
    return NULL;
}

/* The calling thread works too, so that one job needs no thread. */
static void run_jobs(struct making *making)
{
    unsigned jobs = making->config->jobs, started = 0;
    pthread_t *threads = calloc(jobs, sizeof *threads);

    while (threads != NULL && started + 1 < jobs &&
           pthread_create(&threads[started], NULL, make_files, making) == 0)
        started++;
    (void)make_files(making);
    for (unsigned i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
    free(threads);
}

int dataset_make(const struct dataset_config *config, atomic_int *stop,
                 struct dataset_result *result)
{
    struct making making = {.config = config, .stop = stop};

    if (make_folders(config) < 0 || describe(config) < 0)
        return -1;
    run_jobs(&making);
    result->made = atomic_load(&making.made);
    result->kept = atomic_load(&making.kept);
    result->bytes = atomic_load(&making.bytes);
    if (atomic_load(&making.failed))
        return -1;
    return result->made + result->kept < config->images ? 1 : 0;
}
