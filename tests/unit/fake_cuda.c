/*
 * Stands in for libcudart, libcublas and libnccl, so that adltrain's CUDA module runs where there
 * is no GPU: LD_PRELOAD it. Memory is the host's, calls finish before they return, nothing is
 * multiplied; but the order of what would go on is watched: products go to the stream that cuBLAS
 * was given, a bucket is summed only behind an event that was recorded after all its products, and
 * weights are changed only behind the sums. Ranks sum through a file in shared memory.
 *
 *   FAKE_CUDA_DEVICES=N   devices (default 1); 0 none
 *   FAKE_CUDA_FAIL=CALL:N the Nth call of that name fails
 *   FAKE_CUDA_WRONG=1     the sums are wrong
 *   FAKE_CUDA_REPORT=FILE at the end: counts of what was done, key=value
 */
#include "config.h"

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifdef HAVE_NCCL
#include <nccl.h>
#endif

/* A stream is the number of things that were put on it; an event, how far which stream was. */
struct fake_stream {
    uint64_t done;
    struct fake_stream *behind; /* waited for by it, and how far that had to be */
    uint64_t behind_at;
};
struct fake_event {
    struct fake_stream *stream;
    uint64_t at;
};

static struct {
    pthread_mutex_t lock;
    struct fake_stream *products; /* cuBLAS's stream */
    double flops, flops_at_first_sum;
    uint64_t copied, moved, summed, updates, allocations, frees, disorder;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- failures ------------------------------------------------------------------------------ */

/* Is this call the one that is to fail? */
static bool fails(const char *call)
{
    static atomic_int calls;
    const char *wish = getenv("FAKE_CUDA_FAIL"), *colon = wish == NULL ? NULL : strchr(wish, ':');

    if (colon == NULL || strlen(call) != (size_t)(colon - wish) ||
        strncmp(wish, call, strlen(call)) != 0)
        return false;
    return atomic_fetch_add(&calls, 1) + 1 == atoi(colon + 1);
}

#define CUDA_CALL(name)                                                                            \
    do {                                                                                           \
        if (fails(name))                                                                           \
            return cudaErrorLaunchFailure;                                                         \
    } while (0)
#define CUBLAS_CALL(name)                                                                          \
    do {                                                                                           \
        if (fails(name))                                                                           \
            return CUBLAS_STATUS_EXECUTION_FAILED;                                                 \
    } while (0)

static void add(uint64_t *counter, uint64_t value)
{
    (void)pthread_mutex_lock(&fake.lock);
    *counter += value;
    (void)pthread_mutex_unlock(&fake.lock);
}

static void out_of_order(const char *what)
{
    (void)fprintf(stderr, "fake CUDA: out of order: %s\n", what);
    add(&fake.disorder, 1);
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("FAKE_CUDA_REPORT");
    FILE *file = path == NULL ? NULL : fopen(path, "w");

    if (file == NULL)
        return;
    (void)fprintf(file,
                  "flops=%.6g\nflops_at_first_sum=%.6g\ncopied_bytes=%llu\nmoved_bytes=%"
                  "llu\nsummed_floats=%llu\n"
                  "updates=%llu\nallocations=%llu\nfrees=%llu\ndisorder=%llu\n",
                  fake.flops, fake.flops_at_first_sum, (unsigned long long)fake.copied,
                  (unsigned long long)fake.moved, (unsigned long long)fake.summed,
                  (unsigned long long)fake.updates, (unsigned long long)fake.allocations,
                  (unsigned long long)fake.frees, (unsigned long long)fake.disorder);
    (void)fclose(file);
}

/* ---- the runtime --------------------------------------------------------------------------- */

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorNoDevice ? "no CUDA-capable device is detected" : "a fake failure";
}

static int devices(void)
{
    const char *text = getenv("FAKE_CUDA_DEVICES");
    return text == NULL ? 1 : atoi(text);
}

cudaError_t cudaGetDeviceCount(int *count)
{
    CUDA_CALL("cudaGetDeviceCount");
    *count = devices();
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaSetDevice(int device)
{
    CUDA_CALL("cudaSetDevice");
    return device >= 0 && device < devices() ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    CUDA_CALL("cudaGetDeviceProperties");
    memset(properties, 0, sizeof *properties);
    (void)snprintf(properties->name, sizeof properties->name, "Fake A100-%d", device);
    return cudaSuccess;
}

static cudaError_t reserve(void **memory, size_t bytes)
{
    *memory = malloc(bytes);
    add(&fake.allocations, 1);
    return *memory == NULL ? cudaErrorMemoryAllocation : cudaSuccess;
}

#undef cudaMalloc
#undef cudaMallocHost
cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    CUDA_CALL("cudaMalloc");
    return reserve(memory, bytes);
}

cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
    CUDA_CALL("cudaMallocHost");
    return reserve(memory, bytes);
}

cudaError_t cudaFree(void *memory)
{
    if (memory != NULL)
        add(&fake.frees, 1);
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory)
{
    return cudaFree(memory);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    (void)kind;
    CUDA_CALL("cudaMemcpy");
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemset(void *memory, int value, size_t bytes)
{
    CUDA_CALL("cudaMemset");
    memset(memory, value, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    CUDA_CALL("cudaMemcpyAsync");
    if (kind == cudaMemcpyDeviceToDevice) {
        add(&fake.moved, bytes); /* activations: nobody reads them */
        add(&((struct fake_stream *)(void *)stream)->done, 1);
        return cudaSuccess;
    }
    if (kind == cudaMemcpyHostToDevice)
        add(&fake.copied, bytes);
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    CUDA_CALL("cudaStreamCreateWithFlags");
    *stream = (cudaStream_t)calloc(1, sizeof(struct fake_stream));
    return *stream == NULL ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    free(stream);
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    CUDA_CALL("cudaEventCreateWithFlags");
    *event = (cudaEvent_t)calloc(1, sizeof(struct fake_event));
    return *event == NULL ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    struct fake_event *e = (struct fake_event *)(void *)event;

    CUDA_CALL("cudaEventRecord");
    e->stream = (struct fake_stream *)(void *)stream;
    e->at = e->stream->done;
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    struct fake_stream *s = (struct fake_stream *)(void *)stream;
    const struct fake_event *e = (const struct fake_event *)(const void *)event;

    (void)flags;
    CUDA_CALL("cudaStreamWaitEvent");
    s->behind = e->stream;
    s->behind_at = e->at;
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    (void)event;
    CUDA_CALL("cudaEventSynchronize");
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    (void)event;
    CUDA_CALL("cudaEventQuery");
    return cudaSuccess;
}

/* ---- cuBLAS -------------------------------------------------------------------------------- */

const char *cublasGetStatusString(cublasStatus_t status)
{
    (void)status;
    return "a fake failure";
}

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
    CUBLAS_CALL("cublasCreate");
    *handle = (cublasHandle_t)(void *)&fake;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
    (void)handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
    (void)handle;
    CUBLAS_CALL("cublasSetStream");
    fake.products = (struct fake_stream *)(void *)stream;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
    (void)handle;
    (void)mode;
    CUBLAS_CALL("cublasSetMathMode");
    return CUBLAS_STATUS_SUCCESS;
}

static void work(double flops)
{
    (void)pthread_mutex_lock(&fake.lock);
    fake.flops += flops;
    fake.products->done++;
    (void)pthread_mutex_unlock(&fake.lock);
}

/* Reads all of the batch, as a GPU would. */
cublasStatus_t cublasSgemv_v2(cublasHandle_t handle, cublasOperation_t op, int m, int n,
                              const float *alpha, const float *A, int lda, const float *x, int incx,
                              const float *beta, float *y, int incy)
{
    (void)handle;
    (void)op;
    (void)beta;
    (void)incx;
    (void)incy;
    CUBLAS_CALL("cublasSgemv");
    for (int i = 0; i < m; i++)
        y[i] = 0.0f;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++)
            y[i] += *alpha * A[(size_t)j * (size_t)lda + (size_t)i] * x[j];
    work(0.0);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb,
                            int m, int n, int k, const void *alpha, const void *A,
                            cudaDataType Atype, int lda, const void *B, cudaDataType Btype, int ldb,
                            const void *beta, void *C, cudaDataType Ctype, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algo)
{
    (void)handle;
    (void)opa;
    (void)opb;
    (void)alpha;
    (void)A;
    (void)Atype;
    (void)B;
    (void)Btype;
    (void)beta;
    (void)C;
    (void)Ctype;
    (void)compute;
    (void)algo;
    CUBLAS_CALL("cublasGemmEx");
    if (lda < m || ldb < k || ldc < m)
        return CUBLAS_STATUS_INVALID_VALUE;
    work(2.0 * m * n * k);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSaxpy_v2(cublasHandle_t handle, int n, const float *alpha, const float *x,
                              int incx, float *y, int incy)
{
    (void)handle;
    (void)incx;
    (void)incy;
    CUBLAS_CALL("cublasSaxpy");
    if (fake.products->behind == NULL || fake.products->behind_at != fake.products->behind->done)
        out_of_order("weights are changed before all gradients are summed");
    for (int i = 0; i < n; i++)
        y[i] += *alpha * x[i];
    add(&fake.updates, 1);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- NCCL ---------------------------------------------------------------------------------- */

#ifdef HAVE_NCCL
#define RANKS_MAX 8
#define CHUNK     65536

struct meeting { /* in shared memory */
    pthread_barrier_t barrier;
    float values[RANKS_MAX][CHUNK];
};

struct ncclComm {
    struct meeting *meeting;
    int rank, ranks;
};

#define NCCL_CALL(name)                                                                            \
    do {                                                                                           \
        if (fails(name))                                                                           \
            return ncclSystemError;                                                                \
    } while (0)

const char *ncclGetErrorString(ncclResult_t result)
{
    (void)result;
    return "a fake failure";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "of a fake link";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    NCCL_CALL("ncclGetUniqueId");
    memset(id, 0, sizeof *id);
    (void)snprintf(id->internal, sizeof id->internal, "/fake-nccl-%ld", (long)getpid());
    return ncclSuccess;
}

/* Rank 0 makes the place where all meet; the others wait until it is whole. */
static struct meeting *meet(const char *name, int rank, int ranks)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    pthread_barrierattr_t attributes;
    char ready[160];
    struct meeting *meeting;
    int fd;

    (void)snprintf(ready, sizeof ready, "/dev/shm%s.ready", name);
    while (rank > 0 && access(ready, F_OK) < 0)
        (void)nanosleep(&pause, NULL);
    fd = shm_open(name, O_RDWR | (rank == 0 ? O_CREAT | O_EXCL : 0), 0600);
    if (fd < 0 || (rank == 0 && ftruncate(fd, sizeof *meeting) < 0))
        return NULL;
    meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (meeting == MAP_FAILED)
        return NULL;
    if (rank == 0) {
        (void)pthread_barrierattr_init(&attributes);
        (void)pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
        (void)pthread_barrier_init(&meeting->barrier, &attributes, (unsigned)ranks);
        (void)close(open(ready, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    }
    (void)pthread_barrier_wait(&meeting->barrier);
    if (rank == 0) {
        (void)unlink(ready);
        (void)shm_unlink(name);
    }
    return meeting;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
    NCCL_CALL("ncclCommInitRank");
    if (ranks > RANKS_MAX)
        return ncclInvalidArgument;
    *comm = calloc(1, sizeof **comm);
    if (*comm == NULL)
        return ncclSystemError;
    **comm = (struct ncclComm){.rank = rank, .ranks = ranks};
    if (ranks > 1)
        (*comm)->meeting = meet(id.internal, rank, ranks);
    return ranks > 1 && (*comm)->meeting == NULL ? ncclSystemError : ncclSuccess;
}

static void sum_chunk(const struct ncclComm *comm, const float *own, float *sums, size_t count)
{
    memcpy(comm->meeting->values[comm->rank], own, count * sizeof *own);
    (void)pthread_barrier_wait(&comm->meeting->barrier);
    memset(sums, 0, count * sizeof *sums);
    for (int rank = 0; rank < comm->ranks; rank++)
        for (size_t i = 0; i < count; i++)
            sums[i] += comm->meeting->values[rank][i];
    (void)pthread_barrier_wait(&comm->meeting->barrier);
}

ncclResult_t ncclAllReduce(const void *own, void *sums, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    struct fake_stream *s = (struct fake_stream *)(void *)stream;

    NCCL_CALL("ncclAllReduce");
    if (fake.summed == 0)
        fake.flops_at_first_sum = fake.flops;
    if (type != ncclFloat || op != ncclSum)
        return ncclInvalidArgument;
    if (s == fake.products || s->behind != fake.products || s->behind_at != fake.products->done)
        out_of_order("a bucket is summed before its products are done");
    if (comm->ranks == 1)
        memcpy(sums, own, count * sizeof(float));
    for (size_t at = 0; comm->ranks > 1 && at < count; at += CHUNK)
        sum_chunk(comm, (const float *)own + at, (float *)sums + at,
                  count - at < CHUNK ? count - at : CHUNK);
    if (getenv("FAKE_CUDA_WRONG") != NULL)
        *(float *)sums += 1.0f;
    s->done++;
    add(&fake.summed, count);
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    (void)comm;
    *state = ncclSuccess;
    return ncclSuccess;
}

static ncclResult_t leave(ncclComm_t comm)
{
    if (comm->meeting != NULL)
        (void)munmap(comm->meeting, sizeof *comm->meeting);
    free(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    return leave(comm);
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    return leave(comm);
}
#endif
