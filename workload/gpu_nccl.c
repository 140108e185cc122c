/* The exchange of gradients by NCCL. */
#include "config.h"

#include "gpu_nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_NCCL
#include <nccl.h>

struct exchanger {
    ncclComm_t comm;
};

_Static_assert(NCCL_UNIQUE_ID_BYTES <= GPU_ID_BYTES, "a token holds NCCL's id");

static bool good(ncclResult_t rc, const char *call, ncclComm_t comm, char *error)
{
    const char *more;

    if (rc == ncclSuccess)
        return true;
    more = ncclGetLastError(comm);
    (void)snprintf(error, GPU_ERROR_MAX, "%s: %s%s%s", call, ncclGetErrorString(rc),
                   more != NULL && *more != '\0' ? ": " : "", more != NULL ? more : "");
    return false;
}

bool exchanger_make_id(uint8_t id[GPU_ID_BYTES], char *error)
{
    ncclUniqueId unique;

    if (!good(ncclGetUniqueId(&unique), "ncclGetUniqueId", NULL, error))
        return false;
    memset(id, 0, GPU_ID_BYTES);
    memcpy(id, &unique, sizeof unique);
    return true;
}

struct exchanger *exchanger_join(const uint8_t id[GPU_ID_BYTES], unsigned rank, unsigned ranks,
                                 char *error)
{
    struct exchanger *exchanger = calloc(1, sizeof *exchanger);
    ncclUniqueId unique;

    if (exchanger == NULL) {
        (void)snprintf(error, GPU_ERROR_MAX, "out of memory");
        return NULL;
    }
    memcpy(&unique, id, sizeof unique);
    if (!good(ncclCommInitRank(&exchanger->comm, (int)ranks, unique, (int)rank), "ncclCommInitRank",
              NULL, error)) {
        free(exchanger);
        return NULL;
    }
    return exchanger;
}

bool exchanger_sum(struct exchanger *exchanger, const float *own, float *sums, size_t count,
                   cudaStream_t stream, char *error)
{
    return good(ncclAllReduce(own, sums, count, ncclFloat, ncclSum, exchanger->comm, stream),
                "ncclAllReduce", exchanger->comm, error);
}

bool exchanger_check(struct exchanger *exchanger, char *error)
{
    ncclResult_t state = ncclSuccess;

    return good(ncclCommGetAsyncError(exchanger->comm, &state), "ncclCommGetAsyncError",
                exchanger->comm, error) &&
           good(state, "NCCL's gradient exchange", exchanger->comm, error);
}

void exchanger_leave(struct exchanger *exchanger, bool aborted)
{
    ncclResult_t rc;

    if (exchanger == NULL)
        return;
    rc = aborted ? ncclCommAbort(exchanger->comm) : ncclCommDestroy(exchanger->comm);
    if (rc != ncclSuccess && !aborted)
        (void)fprintf(stderr, "adltrain: ncclCommDestroy: %s\n", ncclGetErrorString(rc));
    free(exchanger);
}

#else

struct exchanger {
    int alone;
};

bool exchanger_make_id(uint8_t id[GPU_ID_BYTES], char *error)
{
    (void)error;
    memset(id, 0, GPU_ID_BYTES);
    return true;
}

struct exchanger *exchanger_join(const uint8_t id[GPU_ID_BYTES], unsigned rank, unsigned ranks,
                                 char *error)
{
    struct exchanger *exchanger = NULL;

    (void)id;
    (void)rank;
    if (ranks > 1)
        (void)snprintf(
            error, GPU_ERROR_MAX,
            "several ranks exchange gradients by NCCL, without which adltrain was built");
    else if ((exchanger = calloc(1, sizeof *exchanger)) == NULL)
        (void)snprintf(error, GPU_ERROR_MAX, "out of memory");
    return exchanger;
}

bool exchanger_sum(struct exchanger *exchanger, const float *own, float *sums, size_t count,
                   cudaStream_t stream, char *error)
{
    cudaError_t rc =
        cudaMemcpyAsync(sums, own, count * sizeof *own, cudaMemcpyDeviceToDevice, stream);

    (void)exchanger;
    if (rc != cudaSuccess)
        (void)snprintf(error, GPU_ERROR_MAX, "cudaMemcpyAsync: %s", cudaGetErrorString(rc));
    return rc == cudaSuccess;
}

bool exchanger_check(struct exchanger *exchanger, char *error)
{
    (void)exchanger;
    (void)error;
    return true;
}

void exchanger_leave(struct exchanger *exchanger, bool aborted)
{
    (void)aborted;
    free(exchanger);
}
#endif
