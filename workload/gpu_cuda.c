/*
 * A real GPU, by CUDA and cuBLAS; a module of its own (gpu_module.c loads it).
 *
 * Three streams: `arriving` brings batches from pinned memory while the step before is in work;
 * `work` does the forward pass, then the backward pass bucket by bucket, as matrix products of the
 * model's FLOPs and moves of its activations through the GPU's memory; `sums` exchanges each
 * bucket's gradients as soon as an event says that the backward pass has made them. The weights are
 * updated when all have come.
 *
 * What is multiplied is noise; the batch is really read (its mean picture is made), and the sums of
 * the gradients are checked in every step.
 */
#include "config.h"

#include "gpu.h"

#include "clock.h"
#include "gpu_nccl.h"
#include "gpu_plan.h"

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOVE_BYTES  ((size_t)128 << 20) /* of one move of activations: more than caches hold */
#define LEARNING    1e-9f
#define PAUSE_NS    50000
#define PLACES      3u      /* of the gradients, looked at after each step */
#define FP16_SPAN   0x1c00u /* of exponents and mantissas from 2^-8 to just below 2^-1 */
#define FP16_LOWEST 0x1c00u

struct cuda {
    struct gpu gpu;
    struct gpu_work work;
    struct gpu_plan plan;
    struct gpu_owner owner;
    int device;
    cublasHandle_t cublas;
    cudaStream_t arriving, stream, sums;
    cudaEvent_t arrived, computed, summed, ready[GPU_BUCKETS_MAX];
    void *factors[2], *product; /* side x side, of the precision */
    void *activations[2];
    float *slots[GPU_SLOTS], *ones, *mean;
    float *own, *gradients, *weights;
    float *seen; /* pinned: what came out of the exchange at PLACES places */
    struct exchanger *exchanger;
    bool exchanging; /* begun, and not known to be over */
};

static struct cuda *cuda_of(struct gpu *gpu)
{
    return (struct cuda *)(void *)gpu;
}

/* ---- complaints ---------------------------------------------------------------------------- */

static void complain(const struct cuda *cuda, const char *call, const char *why)
{
    char sentence[2 * GPU_ERROR_MAX];

    (void)snprintf(sentence, sizeof sentence, "GPU %d (%s) of rank %u: %s: %s", cuda->device,
                   cuda->gpu.name[0] != '\0' ? cuda->gpu.name : "?", cuda->owner.rank, call, why);
    cuda->owner.complain(sentence);
}

static bool good(const struct cuda *cuda, cudaError_t rc, const char *call)
{
    if (rc != cudaSuccess)
        complain(cuda, call, cudaGetErrorString(rc));
    return rc == cudaSuccess;
}

static bool good_cublas(const struct cuda *cuda, cublasStatus_t rc, const char *call)
{
    if (rc != CUBLAS_STATUS_SUCCESS)
        complain(cuda, call, cublasGetStatusString(rc));
    return rc == CUBLAS_STATUS_SUCCESS;
}

/* Each thread has a present device of its own. */
static bool enter(const struct cuda *cuda)
{
    return good(cuda, cudaSetDevice(cuda->device), "cudaSetDevice");
}

/* ---- memory -------------------------------------------------------------------------------- */

static bool reserve(const struct cuda *cuda, void *pointer, size_t bytes, const char *what)
{
    char call[96];
    void *memory = NULL;

    (void)snprintf(call, sizeof call, "cudaMalloc of %.0f MB for %s", 1e-6 * (double)bytes, what);
    if (!good(cuda, cudaMalloc(&memory, bytes), call))
        return false;
    memcpy(pointer, &memory, sizeof memory);
    return true;
}

static void *pin(struct gpu *gpu, size_t bytes)
{
    struct cuda *cuda = cuda_of(gpu);
    void *memory = NULL;
    char call[96];

    (void)snprintf(call, sizeof call, "cudaMallocHost of %.0f MB of pinned memory",
                   1e-6 * (double)bytes);
    return enter(cuda) && good(cuda, cudaMallocHost(&memory, bytes), call) ? memory : NULL;
}

static void unpin(struct gpu *gpu, void *memory)
{
    if (memory != NULL)
        (void)good(cuda_of(gpu), cudaFreeHost(memory), "cudaFreeHost");
}

/* Small numbers of either sign, as weights and activations are: zeros would let the GPU run cooler
 * and faster than it does in a training. */
static uint32_t noise(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 32);
}

static void fill_noise(void *memory, size_t count, bool half, uint64_t seed)
{
    uint16_t *halves = memory;
    float *floats = memory;

    for (size_t i = 0; i < count; i++) {
        uint32_t value = noise(&seed);

        if (half)
            halves[i] =
                (uint16_t)((value & 0x8000u) | (FP16_LOWEST + (value & 0x7fffu) % FP16_SPAN));
        else
            floats[i] = (float)(int32_t)value * 0x1p-32f;
    }
}

static bool upload_noise(const struct cuda *cuda, void *to, size_t count, uint64_t seed)
{
    bool half = cuda->work.precision == PRED_AMP, done;
    size_t bytes = count * (half ? sizeof(uint16_t) : sizeof(float));
    void *memory = malloc(bytes);

    if (memory == NULL) {
        complain(cuda, "malloc", "out of memory");
        return false;
    }
    fill_noise(memory, count, half, seed);
    done = good(cuda, cudaMemcpy(to, memory, bytes, cudaMemcpyHostToDevice), "cudaMemcpy of noise");
    free(memory);
    return done;
}

static bool upload_constant(const struct cuda *cuda, float *to, size_t count, float value)
{
    enum { CHUNK = 1 << 18 };
    float *chunk = malloc(CHUNK * sizeof *chunk);
    bool done = chunk != NULL;

    if (chunk == NULL) {
        complain(cuda, "malloc", "out of memory");
        return false;
    }
    for (size_t i = 0; i < CHUNK; i++)
        chunk[i] = value;
    for (size_t at = 0; done && at < count; at += CHUNK) {
        size_t now = count - at < CHUNK ? count - at : CHUNK;

        done = good(cuda, cudaMemcpy(to + at, chunk, now * sizeof *to, cudaMemcpyHostToDevice),
                    "cudaMemcpy of a constant");
    }
    free(chunk);
    return done;
}

/* What a rank brings to the exchange: small whole numbers, whose sum is exact. */
static float own_gradient(unsigned rank)
{
    return (float)(rank % 64 + 1);
}

static float gradient_sum(unsigned ranks)
{
    float sum = 0.0f;

    for (unsigned rank = 0; rank < ranks; rank++)
        sum += own_gradient(rank);
    return sum;
}

static bool prepare_gradients(struct cuda *cuda)
{
    size_t count = cuda->plan.gradient_floats, bytes = count * sizeof(float);

    return reserve(cuda, &cuda->own, bytes, "gradients") &&
           reserve(cuda, &cuda->gradients, bytes, "sums of gradients") &&
           reserve(cuda, &cuda->weights, bytes, "weights") &&
           upload_constant(cuda, cuda->own, count, own_gradient(cuda->owner.rank)) &&
           good(cuda, cudaMemset(cuda->weights, 0, bytes), "cudaMemset of weights") &&
           (cuda->seen = pin(&cuda->gpu, PLACES * sizeof(float))) != NULL;
}

static bool prepare_factors(struct cuda *cuda)
{
    size_t count = (size_t)cuda->plan.side * cuda->plan.side;
    size_t bytes = count * (cuda->work.precision == PRED_AMP ? sizeof(uint16_t) : sizeof(float));

    for (unsigned i = 0; i < 2; i++)
        if (!reserve(cuda, &cuda->factors[i], bytes, "a factor") ||
            !upload_noise(cuda, cuda->factors[i], count, i + 1))
            return false;
    return reserve(cuda, &cuda->product, bytes, "a product");
}

static bool prepare_batches(struct cuda *cuda)
{
    size_t floats = cuda->work.sample_floats;

    for (unsigned i = 0; i < GPU_SLOTS; i++)
        if (!reserve(cuda, &cuda->slots[i], cuda->work.batch * floats * sizeof(float), "a batch"))
            return false;
    if (cuda->plan.forward_traffic > 0)
        for (unsigned i = 0; i < 2; i++)
            if (!reserve(cuda, &cuda->activations[i], MOVE_BYTES, "activations"))
                return false;
    return reserve(cuda, &cuda->ones, cuda->work.batch * sizeof(float), "a vector") &&
           reserve(cuda, &cuda->mean, floats * sizeof(float), "the mean picture") &&
           upload_constant(cuda, cuda->ones, cuda->work.batch, 1.0f);
}

/* ---- streams and events -------------------------------------------------------------------- */

static bool make_stream(const struct cuda *cuda, cudaStream_t *stream)
{
    return good(cuda, cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking),
                "cudaStreamCreateWithFlags");
}

/* Whoever waits for it sleeps: the CPU is the loaders'. */
static bool make_event(const struct cuda *cuda, cudaEvent_t *event)
{
    return good(cuda,
                cudaEventCreateWithFlags(event, cudaEventDisableTiming | cudaEventBlockingSync),
                "cudaEventCreateWithFlags");
}

static bool prepare_streams(struct cuda *cuda)
{
    cublasMath_t math =
        cuda->work.precision == PRED_TF32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH;

    for (unsigned i = 0; i < cuda->plan.buckets; i++)
        if (!make_event(cuda, &cuda->ready[i]))
            return false;
    return make_stream(cuda, &cuda->arriving) && make_stream(cuda, &cuda->stream) &&
           make_stream(cuda, &cuda->sums) && make_event(cuda, &cuda->arrived) &&
           make_event(cuda, &cuda->computed) && make_event(cuda, &cuda->summed) &&
           good_cublas(cuda, cublasCreate(&cuda->cublas), "cublasCreate") &&
           good_cublas(cuda, cublasSetStream(cuda->cublas, cuda->stream), "cublasSetStream") &&
           good_cublas(cuda, cublasSetMathMode(cuda->cublas, math), "cublasSetMathMode");
}

/* ---- the device ---------------------------------------------------------------------------- */

static void refuse(const struct gpu_owner *owner, const char *what, const char *detail)
{
    char sentence[GPU_ERROR_MAX];

    (void)snprintf(sentence, sizeof sentence, "--gpu=cuda: %s%.300s; use --gpu=emulated", what,
                   detail);
    owner->complain(sentence);
}

/* One GPU a rank: Slurm may show each task its own alone, or all tasks of the node all of them. */
static bool choose_device(struct cuda *cuda)
{
    int local = cuda->owner.local_rank >= 0 ? cuda->owner.local_rank : (int)cuda->owner.rank;
    int devices = 0;
    cudaError_t rc = cudaGetDeviceCount(&devices);
    struct cudaDeviceProp properties;
    char detail[128];

    if (rc != cudaSuccess || devices < 1) {
        refuse(&cuda->owner,
               "no CUDA device: ", rc != cudaSuccess ? cudaGetErrorString(rc) : "none is visible");
        return false;
    }
    if (devices > 1 && local >= devices) {
        (void)snprintf(detail, sizeof detail,
                       "rank %u is number %d on its node, where %d GPUs are visible",
                       cuda->owner.rank, local, devices);
        refuse(&cuda->owner, "a GPU for each rank is wanted: ", detail);
        return false;
    }
    cuda->device = devices > 1 ? local : 0;
    if (!enter(cuda) ||
        !good(cuda, cudaGetDeviceProperties(&properties, cuda->device), "cudaGetDeviceProperties"))
        return false;
    (void)snprintf(cuda->gpu.name, sizeof cuda->gpu.name, "%.63s", properties.name);
    return true;
}

/* ---- the exchange's beginning -------------------------------------------------------------- */

static int make_id(struct gpu *gpu, uint8_t id[GPU_ID_BYTES])
{
    char error[GPU_ERROR_MAX];

    if (exchanger_make_id(id, error))
        return 0;
    complain(cuda_of(gpu), "the meeting of the ranks", error);
    return -1;
}

static int join_ranks(struct gpu *gpu, const uint8_t id[GPU_ID_BYTES])
{
    struct cuda *cuda = cuda_of(gpu);
    char error[GPU_ERROR_MAX];

    if (!enter(cuda))
        return -1;
    cuda->exchanger = exchanger_join(id, cuda->owner.rank, cuda->owner.ranks, error);
    if (cuda->exchanger != NULL)
        return 0;
    complain(cuda, "the meeting of the ranks", error);
    return -1;
}

/* ---- a step -------------------------------------------------------------------------------- */

static int copy(struct gpu *gpu, unsigned slot, const float *samples)
{
    struct cuda *cuda = cuda_of(gpu);
    size_t bytes = cuda->work.batch * cuda->work.sample_floats * sizeof(float);

    return enter(cuda) &&
                   good(cuda,
                        cudaMemcpyAsync(cuda->slots[slot], samples, bytes, cudaMemcpyHostToDevice,
                                        cuda->arriving),
                        "cudaMemcpyAsync of a batch") &&
                   good(cuda, cudaEventRecord(cuda->arrived, cuda->arriving), "cudaEventRecord") &&
                   good(cuda, cudaEventSynchronize(cuda->arrived), "copying a batch")
               ? 0
               : -1;
}

static bool read_batch(struct cuda *cuda, unsigned slot)
{
    const float share = 1.0f / (float)cuda->work.batch, zero = 0.0f;
    int floats = (int)cuda->work.sample_floats;

    return good_cublas(cuda,
                       cublasSgemv(cuda->cublas, CUBLAS_OP_N, floats, (int)cuda->work.batch, &share,
                                   cuda->slots[slot], floats, cuda->ones, 1, &zero, cuda->mean, 1),
                       "cublasSgemv over a batch");
}

static bool multiply(struct cuda *cuda, unsigned rows)
{
    bool half = cuda->work.precision == PRED_AMP;
    cudaDataType_t type = half ? CUDA_R_16F : CUDA_R_32F;
    cublasComputeType_t compute = cuda->work.precision == PRED_TF32   ? CUBLAS_COMPUTE_32F_FAST_TF32
                                  : cuda->work.precision == PRED_FP32 ? CUBLAS_COMPUTE_32F_PEDANTIC
                                                                      : CUBLAS_COMPUTE_32F;
    const float one = 1.0f, zero = 0.0f;
    int side = (int)cuda->plan.side;

    return good_cublas(cuda,
                       cublasGemmEx(cuda->cublas, CUBLAS_OP_N, CUBLAS_OP_N, (int)rows, side, side,
                                    &one, cuda->factors[0], type, side, cuda->factors[1], type,
                                    side, &zero, cuda->product, type, side, compute,
                                    CUBLAS_GEMM_DEFAULT),
                       "cublasGemmEx");
}

static bool move_activations(struct cuda *cuda, size_t bytes)
{
    for (bytes /= 2; bytes > 0;) { /* a copy reads and writes */
        size_t now = bytes < MOVE_BYTES ? bytes : MOVE_BYTES;

        if (!good(cuda,
                  cudaMemcpyAsync(cuda->activations[1], cuda->activations[0], now,
                                  cudaMemcpyDeviceToDevice, cuda->stream),
                  "cudaMemcpyAsync of activations"))
            return false;
        bytes -= now;
    }
    return true;
}

/* The products of a bucket's layers, `times` over: once forward, twice backward. */
static bool work_on_bucket(struct cuda *cuda, unsigned times)
{
    const struct gpu_plan *plan = &cuda->plan;

    for (unsigned i = 0; i < times * plan->whole; i++)
        if (!multiply(cuda, plan->side))
            return false;
    for (unsigned i = 0; plan->rows > 0 && i < times; i++)
        if (!multiply(cuda, plan->rows))
            return false;
    return move_activations(cuda, times * plan->forward_traffic);
}

/* When the bucket's gradients are made, they are summed, while the work goes on. */
static bool send_bucket(struct cuda *cuda, unsigned bucket)
{
    size_t at = cuda->plan.bucket_floats * bucket, count = gpu_plan_floats(&cuda->plan, bucket);
    char error[GPU_ERROR_MAX];

    if (!good(cuda, cudaEventRecord(cuda->ready[bucket], cuda->stream), "cudaEventRecord") ||
        !good(cuda, cudaStreamWaitEvent(cuda->sums, cuda->ready[bucket], 0), "cudaStreamWaitEvent"))
        return false;
    if (count == 0 || exchanger_sum(cuda->exchanger, cuda->own + at, cuda->gradients + at, count,
                                    cuda->sums, error))
        return true;
    complain(cuda, "the gradient exchange", error);
    return false;
}

static bool pass_forward(struct cuda *cuda, unsigned slot)
{
    bool done = read_batch(cuda, slot);

    for (unsigned i = 0; done && i < cuda->plan.buckets; i++)
        done = work_on_bucket(cuda, 1);
    return done;
}

static bool pass_backward(struct cuda *cuda, bool work)
{
    bool done = true;

    for (unsigned i = cuda->plan.buckets; done && i-- > 0;)
        done = (!work || work_on_bucket(cuda, 2)) && send_bucket(cuda, i);
    return done && good(cuda, cudaEventRecord(cuda->computed, cuda->stream), "cudaEventRecord");
}

static size_t place(const struct cuda *cuda, unsigned i)
{
    return (cuda->plan.gradient_floats - 1) * i / (PLACES - 1);
}

/* Behind the last bucket: the weights' update, and some of the sums to look at. */
static bool finish_step(struct cuda *cuda)
{
    const float rate = -LEARNING;
    bool done =
        good(cuda, cudaEventRecord(cuda->summed, cuda->sums), "cudaEventRecord") &&
        good(cuda, cudaStreamWaitEvent(cuda->stream, cuda->summed, 0), "cudaStreamWaitEvent");

    for (unsigned i = 0; done && i < cuda->plan.buckets; i++) {
        size_t at = cuda->plan.bucket_floats * i;

        done = good_cublas(cuda,
                           cublasSaxpy(cuda->cublas, (int)gpu_plan_floats(&cuda->plan, i), &rate,
                                       cuda->gradients + at, 1, cuda->weights + at, 1),
                           "cublasSaxpy of weights");
    }
    for (unsigned i = 0; done && i < PLACES; i++)
        done = good(cuda,
                    cudaMemcpyAsync(&cuda->seen[i], cuda->gradients + place(cuda, i), sizeof(float),
                                    cudaMemcpyDeviceToHost, cuda->stream),
                    "cudaMemcpyAsync of a gradient");
    return done && good(cuda, cudaEventRecord(cuda->summed, cuda->stream), "cudaEventRecord");
}

static int begin(struct gpu *gpu, unsigned slot)
{
    struct cuda *cuda = cuda_of(gpu);
    bool work = slot != GPU_NO_BATCH;

    cuda->exchanging = true;
    return enter(cuda) && (!work || pass_forward(cuda, slot)) && pass_backward(cuda, work) &&
                   finish_step(cuda)
               ? 0
               : -1;
}

static int compute(struct gpu *gpu)
{
    struct cuda *cuda = cuda_of(gpu);

    return good(cuda, cudaEventSynchronize(cuda->computed), "the passes of a step") ? 0 : -1;
}

static bool check_sums(const struct cuda *cuda)
{
    float expected = gradient_sum(cuda->owner.ranks);
    char why[128];

    for (unsigned i = 0; i < PLACES; i++) {
        if (cuda->seen[i] >= expected && cuda->seen[i] <= expected)
            continue;
        (void)snprintf(why, sizeof why, "gradient %zu is %g instead of %g", place(cuda, i),
                       (double)cuda->seen[i], (double)expected);
        complain(cuda, "after the exchange", why);
        return false;
    }
    return true;
}

/* A peer that dies leaves the exchange standing: so no blind wait here. */
static int exchange(struct gpu *gpu)
{
    struct cuda *cuda = cuda_of(gpu);
    uint64_t deadline = clock_monotonic_ns() + (uint64_t)(cuda->owner.peer_timeout_s * 1e9);
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    char error[GPU_ERROR_MAX];
    cudaError_t rc;

    while ((rc = cudaEventQuery(cuda->summed)) == cudaErrorNotReady) {
        if (!exchanger_check(cuda->exchanger, error)) {
            complain(cuda, "the gradient exchange", error);
            return -1;
        }
        if (clock_monotonic_ns() >= deadline) {
            complain(cuda, "the gradient exchange", "stands still for too long (--peer-timeout)");
            return -1;
        }
        (void)nanosleep(&pause, NULL);
    }
    if (!good(cuda, rc, "the gradient exchange") || !check_sums(cuda))
        return -1;
    cuda->exchanging = false;
    return 0;
}

/* ---- the end ------------------------------------------------------------------------------- */

/* By now nothing can be done about a failure; the process's end frees the rest. */
static void close_gpu(struct gpu *gpu)
{
    struct cuda *cuda = cuda_of(gpu);
    void *memory[] = {cuda->factors[0],     cuda->factors[1], cuda->product,   cuda->activations[0],
                      cuda->activations[1], cuda->slots[0],   cuda->slots[1],  cuda->ones,
                      cuda->mean,           cuda->own,        cuda->gradients, cuda->weights};
    cudaStream_t streams[] = {cuda->arriving, cuda->stream, cuda->sums};
    cudaEvent_t events[] = {cuda->arrived, cuda->computed, cuda->summed};

    exchanger_leave(cuda->exchanger, cuda->exchanging);
    if (cuda->cublas != NULL)
        (void)cublasDestroy(cuda->cublas);
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
        (void)cudaFree(memory[i]);
    if (cuda->seen != NULL)
        (void)cudaFreeHost(cuda->seen);
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        if (events[i] != NULL)
            (void)cudaEventDestroy(events[i]);
    for (unsigned i = 0; i < GPU_BUCKETS_MAX; i++)
        if (cuda->ready[i] != NULL)
            (void)cudaEventDestroy(cuda->ready[i]);
    for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++)
        if (streams[i] != NULL)
            (void)cudaStreamDestroy(streams[i]);
    free(cuda);
}

/* ---- the beginning ------------------------------------------------------------------------- */

static const struct gpu_ops OPS = {
    .kind = "cuda",
    .sums = true,
    .alloc = pin,
    .release = unpin,
    .make_id = make_id,
    .join = join_ranks,
    .copy = copy,
    .begin = begin,
    .compute = compute,
    .exchange = exchange,
    .close = close_gpu,
};

static struct gpu *open_gpu(const struct gpu_work *work, const struct gpu_owner *owner)
{
    struct cuda *cuda = calloc(1, sizeof *cuda);

    if (cuda == NULL) {
        owner->complain("out of memory");
        return NULL;
    }
    cuda->gpu.ops = &OPS;
    cuda->work = *work;
    cuda->owner = *owner;
    cuda->plan = gpu_plan_make(work);
    if (choose_device(cuda) && prepare_streams(cuda) && prepare_factors(cuda) &&
        prepare_batches(cuda) && prepare_gradients(cuda))
        return &cuda->gpu;
    close_gpu(&cuda->gpu);
    return NULL;
}

extern const struct gpu_module adltrain_gpu_module;
__attribute__((visibility("default")))
const struct gpu_module adltrain_gpu_module = {.version = GPU_MODULE_VERSION, .open = open_gpu};
