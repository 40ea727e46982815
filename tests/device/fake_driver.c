/*
 * A libcuda.so.1 that is no driver: just enough of one for CUDA's runtime to ask its version and to start it,
 * and for the program to ask which card there is, so that what it says of cards, and of old and broken
 * drivers, can be seen on any machine. The environment says what it answers: METIER_FAKE_CUDA_VERSION (1000 ·
 * major + 10 · minor), METIER_FAKE_CUDA_INIT (CUresult), METIER_FAKE_CUDA_CARD (a name; none: there is no
 * card) and METIER_FAKE_CUDA_CAPABILITY (10 · major + minor).
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*driver_function)(void); // of whatever type

enum { SUCCESS = 0, NOT_INITIALIZED = 3 };             // of CUresult
enum { CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 }; // of CUdevice_attribute

int cuDriverGetVersion(int *version);
int cuInit(unsigned flags);
int cuDeviceGetCount(int *count);
int cuDeviceGet(int *card, int index);
int cuDeviceGetName(char *name, int bytes, int card);
int cuDeviceGetAttribute(int *value, int attribute, int card);
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

int cuDeviceGetCount(int *count)
{
    *count = getenv("METIER_FAKE_CUDA_CARD") != NULL;
    return SUCCESS;
}

int cuDeviceGet(int *card, int index)
{
    *card = index;
    return SUCCESS;
}

int cuDeviceGetName(char *name, int bytes, int card)
{
    (void)card;
    (void)snprintf(name, (size_t)bytes, "%s", getenv("METIER_FAKE_CUDA_CARD"));
    return SUCCESS;
}

int cuDeviceGetAttribute(int *value, int attribute, int card)
{
    int capability = answer("METIER_FAKE_CUDA_CAPABILITY");
    (void)card;
    if (attribute != CAPABILITY_MAJOR && attribute != CAPABILITY_MINOR) return NOT_INITIALIZED;
    *value = attribute == CAPABILITY_MAJOR ? capability / 10 : capability % 10;
    return SUCCESS;
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
