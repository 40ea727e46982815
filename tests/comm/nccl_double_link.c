/*
 * A link without anybody at its other end. On a GPU the time passes in a kernel, which keeps as many places
 * of the card busy as a library's might: written for the driver's translator, so that no compiler of CUDA is
 * needed.
 */
#define _DEFAULT_SOURCE
#include "nccl_double_link.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BLOCKS  16
#define THREADS 512

static const char kernel_text[] = ".version 7.0\n"
                                  ".target sm_80\n"
                                  ".address_size 64\n"
                                  ".visible .entry pass_time(.param .u64 ns)\n"
                                  "{\n"
                                  "    .reg .u64 %now, %end, %ns;\n"
                                  "    .reg .pred %more;\n"
                                  "    ld.param.u64 %ns, [ns];\n"
                                  "    mov.u64 %end, %globaltimer;\n"
                                  "    add.u64 %end, %end, %ns;\n"
                                  "again:\n"
                                  "    mov.u64 %now, %globaltimer;\n"
                                  "    setp.lt.u64 %more, %now, %end;\n"
                                  "    @%more bra again;\n"
                                  "    ret;\n"
                                  "}\n";

/* What is used of the driver, as cuda.h has it. */
struct driver {
    int (*load)(void **module, const void *image);
    int (*find)(void **function, void *module, const char *name);
    int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                  unsigned bz, unsigned shared, void *stream, void **arguments, void **extra);
    int (*copy)(uint64_t to, uint64_t from, size_t bytes, void *stream);
    void *kernel;
};

double link_speed(void)
{
    const char *text = getenv("METIER_DOUBLE_LINK");
    return text != NULL ? strtod(text, NULL) : 0.0;
}

static bool find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool refuse(const char *what, int error)
{
    (void)fprintf(stderr, "nccl_double: the GPU's driver cannot %s: error %d\n", what, error);
    return false;
}

/* The context is the one that is current: the module stays until it ends. */
static bool open_driver(struct driver *driver)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *module = NULL;
    if (library == NULL || !find(library, "cuModuleLoadData", &driver->load) ||
        !find(library, "cuModuleGetFunction", &driver->find) ||
        !find(library, "cuLaunchKernel", &driver->launch) ||
        !find(library, "cuMemcpyDtoDAsync_v2", &driver->copy))
        return refuse("be loaded", 0);
    int error = driver->load(&module, kernel_text);
    if (error != 0) return refuse("translate a kernel", error);
    error = driver->find(&driver->kernel, module, "pass_time");
    return error == 0 || refuse("find a kernel", error);
}

static bool pass_on_gpu(const struct link_copy *copies, size_t count, uint64_t nanoseconds, void *stream)
{
    static struct driver driver; // of the process, like the library it stands in for
    void *arguments[] = {&nanoseconds};
    if (driver.kernel == NULL && !open_driver(&driver)) return false;
    for (size_t i = 0; i < count; i++) {
        int error = driver.copy((uint64_t)(uintptr_t)copies[i].to, (uint64_t)(uintptr_t)copies[i].from,
                                copies[i].bytes, stream);
        if (error != 0) return refuse("copy", error);
    }
    int error = driver.launch(driver.kernel, BLOCKS, 1, 1, THREADS, 1, 1, 0, stream, arguments, NULL);
    return error == 0 || refuse("start a kernel", error);
}

bool link_pass(const struct link_copy *copies, size_t count, size_t bytes, void *stream)
{
    uint64_t nanoseconds = (uint64_t)((double)bytes / link_speed());
    if (stream != NULL) return pass_on_gpu(copies, count, nanoseconds, stream);
    for (size_t i = 0; i < count; i++) memcpy(copies[i].to, copies[i].from, copies[i].bytes);
    const struct timespec rest = {.tv_sec = (time_t)(nanoseconds / 1000000000),
                                  .tv_nsec = (long)(nanoseconds % 1000000000)};
    (void)nanosleep(&rest, NULL);
    return true;
}
