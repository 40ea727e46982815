/*
 * A libcuda.so.1 that is no driver: just enough of one for CUDA's runtime to ask its version and to start it,
 * so that what the program says of old and broken drivers can be seen on any machine. The environment says
 * what it answers: METIER_FAKE_CUDA_VERSION (1000 · major + 10 · minor) and METIER_FAKE_CUDA_INIT (CUresult).
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void (*driver_function)(void); // of whatever type

enum { SUCCESS = 0, NOT_INITIALIZED = 3 }; // of CUresult

int cuDriverGetVersion(int *version);
int cuInit(unsigned flags);
int cuGetProcAddress(const char *symbol, driver_function *function, int version, uint64_t flags);
int cuGetProcAddress_v2(const char *symbol, driver_function *function, int version, uint64_t flags,
                        int *found);

/* A number of the environment's; 0 where there is none. */
static int answer(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? (int)strtol(text, NULL, 10) : 0;
}

int cuDriverGetVersion(int *version)
{
    *version = answer("METIER_FAKE_CUDA_VERSION");
    return SUCCESS;
}

int cuInit(unsigned flags)
{
    (void)flags;
    return answer("METIER_FAKE_CUDA_INIT");
}

/* All the rest of the driver. */
static int refuse(void)
{
    return NOT_INITIALIZED;
}

int cuGetProcAddress_v2(const char *symbol, driver_function *function, int version, uint64_t flags,
                        int *found)
{
    (void)flags;
    *function = (driver_function)refuse;
    if (strcmp(symbol, "cuInit") == 0) *function = (driver_function)cuInit;
    if (strcmp(symbol, "cuDriverGetVersion") == 0) *function = (driver_function)cuDriverGetVersion;
    if (strcmp(symbol, "cuGetProcAddress") == 0) // what the name stands for changed with CUDA 12
        *function =
            version >= 12000 ? (driver_function)cuGetProcAddress_v2 : (driver_function)cuGetProcAddress;
    if (found != NULL) *found = 0; // CU_GET_PROC_ADDRESS_SUCCESS
    return SUCCESS;
}

int cuGetProcAddress(const char *symbol, driver_function *function, int version, uint64_t flags)
{
    return cuGetProcAddress_v2(symbol, function, version, flags, NULL);
}
