/*
 * adloader-calibrate-gpu SECONDS: measures this node's GPUs with CUDA, cuBLAS and NCCL, and prints
 * key=value lines for a calibration. Run by adloader calibrate. Exit status 1, with the reason on
 * standard error, where there is no GPU; what one GPU cannot do stays out.
 */
#include "config.h"

#include "clock.h"

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_NCCL
#include <nccl.h>
#endif

#define SIZE     4096         /* of the square matrices */
#define COPY     (256u << 20) /* bytes copied to the GPU */
#define MOVE     (1u << 30)   /* bytes moved inside its memory */
#define LARGE    (256u << 20) /* bytes of a large all-reduce */
#define SMALL    256u         /* and of a small one, all latency */
#define GPUS_MAX 64

static bool good(cudaError_t rc, const char *what)
{
    if (rc != cudaSuccess)
        fprintf(stderr, "GPU: %s: %s\n", what, cudaGetErrorString(rc));
    return rc == cudaSuccess;
}

/* ---- one GPU ------------------------------------------------------------------------------------
 */

struct product {
    cublasHandle_t cublas;
    void *a, *b, *c;
    cudaDataType_t type;
    cublasComputeType_t compute;
};

static bool multiply(void *data)
{
    struct product *p = data;
    const float one = 1, zero = 0;

    return cublasGemmEx(p->cublas, CUBLAS_OP_N, CUBLAS_OP_N, SIZE, SIZE, SIZE, &one, p->a, p->type,
                        SIZE, p->b, p->type, SIZE, &zero, p->c, p->type, SIZE, p->compute,
                        CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS;
}

struct copy {
    void *to, *from;
    size_t bytes;
    enum cudaMemcpyKind kind;
};

static bool copy_once(void *data)
{
    struct copy *c = data;

    return cudaMemcpyAsync(c->to, c->from, c->bytes, c->kind, 0) == cudaSuccess;
}

/* Seconds of one call, over as many as fit into the time; NAN where one fails. */
static double seconds_each(bool (*call)(void *), void *data, double seconds)
{
    uint64_t begin, now;
    unsigned done = 0, batch = 1;

    if (!call(data) || cudaDeviceSynchronize() != cudaSuccess) /* warm up */
        return NAN;
    begin = clock_monotonic_ns();
    do {
        for (unsigned i = 0; i < batch; i++)
            if (!call(data))
                return NAN;
        if (cudaDeviceSynchronize() != cudaSuccess)
            return NAN;
        done += batch;
        batch = batch < 64 ? 2 * batch : batch;
        now = clock_monotonic_ns();
    } while ((double)(now - begin) / 1e9 < seconds);
    return (double)(now - begin) / 1e9 / done;
}

static void print_rate(const char *key, double amount, double each)
{
    if (each > 0)
        printf("%s=%.6g\n", key, amount / each);
}

static void measure_products(double seconds)
{
    const double flops = 2.0 * SIZE * SIZE * SIZE;
    struct product p = {0};
    size_t bytes = sizeof(float) * SIZE * SIZE;

    if (cublasCreate(&p.cublas) != CUBLAS_STATUS_SUCCESS) {
        fprintf(stderr, "GPU: cuBLAS does not start; no matrix rates\n");
        return;
    }
    if (good(cudaMalloc(&p.a, bytes), "memory") && good(cudaMalloc(&p.b, bytes), "memory") &&
        good(cudaMalloc(&p.c, bytes), "memory") && good(cudaMemset(p.a, 0, bytes), "memory") &&
        good(cudaMemset(p.b, 0, bytes), "memory")) {
        p.type = CUDA_R_32F;
        p.compute = CUBLAS_COMPUTE_32F_PEDANTIC;
        print_rate("fp32_flops_per_s", flops, seconds_each(multiply, &p, seconds));
        p.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
        print_rate("tf32_flops_per_s", flops, seconds_each(multiply, &p, seconds));
        p.type = CUDA_R_16F;
        p.compute = CUBLAS_COMPUTE_32F;
        print_rate("amp_flops_per_s", flops, seconds_each(multiply, &p, seconds));
    }
    (void)cudaFree(p.a);
    (void)cudaFree(p.b);
    (void)cudaFree(p.c);
    (void)cublasDestroy(p.cublas);
}

static void measure_copies(double seconds)
{
    void *host = NULL, *near = NULL, *far = NULL;

    if (good(cudaMallocHost(&host, COPY), "pinned memory") &&
        good(cudaMalloc(&near, MOVE), "memory") && good(cudaMalloc(&far, MOVE), "memory")) {
        struct copy up = {near, host, COPY, cudaMemcpyHostToDevice};
        struct copy inside = {far, near, MOVE, cudaMemcpyDeviceToDevice};

        print_rate("host_to_gpu_bytes_per_s", COPY, seconds_each(copy_once, &up, seconds));
        print_rate("gpu_memory_bytes_per_s", 2.0 * MOVE, seconds_each(copy_once, &inside, seconds));
    }
    (void)cudaFreeHost(host);
    (void)cudaFree(near);
    (void)cudaFree(far);
}

/* ---- all of them
 * --------------------------------------------------------------------------------- */

#ifdef HAVE_NCCL
struct exchange {
    int n;
    ncclComm_t comms[GPUS_MAX];
    cudaStream_t streams[GPUS_MAX];
    void *buffers[GPUS_MAX];
};

static bool reduce_all(struct exchange *x, size_t bytes)
{
    bool ok = ncclGroupStart() == ncclSuccess;

    for (int i = 0; ok && i < x->n; i++)
        ok = ncclAllReduce(x->buffers[i], x->buffers[i], bytes / sizeof(float), ncclFloat, ncclSum,
                           x->comms[i], x->streams[i]) == ncclSuccess;
    return ncclGroupEnd() == ncclSuccess && ok;
}

static bool wait_all(struct exchange *x)
{
    for (int i = 0; i < x->n; i++)
        if (cudaSetDevice(i) != cudaSuccess || cudaStreamSynchronize(x->streams[i]) != cudaSuccess)
            return false;
    return true;
}

static double exchange_s(struct exchange *x, size_t bytes, double seconds)
{
    uint64_t begin, now;
    unsigned done = 0;

    for (unsigned i = 0; i < 3; i++) /* the first ones set up connections */
        if (!reduce_all(x, bytes) || !wait_all(x))
            return NAN;
    begin = clock_monotonic_ns();
    do {
        for (unsigned i = 0; i < 8; i++)
            if (!reduce_all(x, bytes))
                return NAN;
        if (!wait_all(x))
            return NAN;
        done += 8;
        now = clock_monotonic_ns();
    } while ((double)(now - begin) / 1e9 < seconds);
    return (double)(now - begin) / 1e9 / done;
}

static bool prepare(struct exchange *x)
{
    for (int i = 0; i < x->n; i++)
        if (!good(cudaSetDevice(i), "device") ||
            !good(cudaMalloc(&x->buffers[i], LARGE), "memory") ||
            !good(cudaMemset(x->buffers[i], 0, LARGE), "memory") ||
            !good(cudaStreamCreate(&x->streams[i]), "stream"))
            return false;
    if (ncclCommInitAll(x->comms, x->n, NULL) == ncclSuccess)
        return true;
    fprintf(stderr, "NCCL: the GPUs cannot be joined; not measured\n");
    return false;
}

static void measure_exchange(int gpus, double seconds)
{
    struct exchange x = {.n = gpus};
    double steps = 2 * ceil(log2(gpus)), small, large;

    if (prepare(&x)) {
        small = exchange_s(&x, SMALL, seconds);
        large = exchange_s(&x, LARGE, seconds);
        if (small > 0)
            printf("nccl_alpha_s=%.6g\n", small / steps);
        if (large > 0)
            printf("nccl_bus_bytes_per_s=%.6g\n", 2.0 * (gpus - 1) / gpus * LARGE / large);
    }
    for (int i = 0; i < gpus; i++) {
        if (x.comms[i] != NULL)
            (void)ncclCommDestroy(x.comms[i]);
        (void)cudaSetDevice(i);
        (void)cudaFree(x.buffers[i]);
        if (x.streams[i] != NULL)
            (void)cudaStreamDestroy(x.streams[i]);
    }
}
#else
static void measure_exchange(int gpus, double seconds)
{
    (void)gpus;
    (void)seconds;
    fprintf(stderr, "NCCL: not measured, adloader was built without it\n");
}
#endif

/* A name without what a key=value line cannot hold. */
static void print_name(const char *name)
{
    printf("gpu=");
    for (unsigned n = 0; *name != '\0' && n < 60; name++, n++)
        putchar(*name > ' ' && *name < 127 && strchr("#=", *name) == NULL ? *name : '-');
    printf("\n");
}

int main(int argc, char **argv)
{
    struct cudaDeviceProp properties;
    double seconds = argc == 2 ? strtod(argv[1], NULL) : 0;
    int gpus = 0;

    if (!(seconds > 0 && seconds < 600)) {
        fprintf(stderr, "usage: %s SECONDS\n", argv[0]);
        return 2;
    }
    if (!good(cudaGetDeviceCount(&gpus), "not measured") || gpus < 1) {
        if (gpus < 1)
            fprintf(stderr, "GPU: none here; matrix rates, copies and exchange stay unknown\n");
        return 1;
    }
    gpus = gpus < GPUS_MAX ? gpus : GPUS_MAX;
    if (!good(cudaGetDeviceProperties(&properties, 0), "device 0") ||
        !good(cudaSetDevice(0), "device 0"))
        return 1;
    print_name(properties.name);
    printf("gpus=%d\n", gpus);
    measure_products(seconds / 7);
    measure_copies(seconds / 7);
    if (gpus > 1)
        measure_exchange(gpus, seconds / 7);
    else
        fprintf(stderr, "NCCL: one GPU, no exchange to measure\n");
    return fflush(stdout) == 0 ? 0 : 1;
}
