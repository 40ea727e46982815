/* Finding and loading the CUDA module. */
#define _GNU_SOURCE // dladdr1
#include "ops/module.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "metier/version.h"
#include "ops/card.h"

#define PATH_BYTES 4096

/* The file that this is part of: a shared library, or the program. */
static bool find_self(char file[PATH_BYTES])
{
    Dl_info self;
    struct link_map *map = NULL;
    if (dladdr1((const void *)mt_device_kinds, &self, (void **)&map, RTLD_DL_LINKMAP) == 0) return false;
    bool is_program = map == NULL || map->l_name[0] == '\0';
    ssize_t length = is_program ? readlink("/proc/self/exe", file, PATH_BYTES - 1)
                                : (ssize_t)snprintf(file, PATH_BYTES, "%s", map->l_name);
    if (length <= 0 || length >= PATH_BYTES) return false;
    file[length] = '\0';
    return true;
}

/* Seen from bin/metier, from lib/libmetier.so, and from lib/TRIPLET/libmetier.so where systems have that. */
static bool find_module(char path[PATH_BYTES])
{
    static const char *const places[] = {"../lib/metier", "metier", "../metier"};
    char file[PATH_BYTES];
    if (!find_self(file)) return false;
    char *slash = strrchr(file, '/');
    if (slash == NULL) return false;
    *slash = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        int written = snprintf(path, PATH_BYTES, "%s/%s/metier_cuda.so", file, places[i]);
        if (written > 0 && written < PATH_BYTES && access(path, R_OK) == 0) return true;
    }
    return false;
}

bool mt_cuda_module_is_there(void)
{
    char path[PATH_BYTES];
    return find_module(path);
}

enum mt_status mt_cuda_module_init(struct mt_device *device, int threads)
{
    char path[PATH_BYTES];
    struct mt_nvidia_card card;
    if (!find_module(path)) return mt_fail(device->ctx, MT_ERR_UNSUPPORTED, "the CUDA module is gone");
    if (mt_card_find(&card) && !mt_card_is_recent(&card)) return mt_card_refuse(device, &card);
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (module == NULL) {
        return mt_fail(device->ctx, MT_ERR_UNSUPPORTED,
                       "device %s: the CUDA module cannot be loaded: %.700s; compute on the device cpu",
                       device->name, dlerror());
    }
    const struct mt_device_module *found = dlsym(module, MT_DEVICE_MODULE_SYMBOL);
    const int version[] = {MT_VERSION_MAJOR, MT_VERSION_MINOR, MT_VERSION_PATCH};
    if (found == NULL || memcmp(found->version, version, sizeof version) != 0 ||
        found->device_bytes != sizeof *device || found->ops != MT_OP_COUNT) {
        return mt_fail(device->ctx, MT_ERR_UNSUPPORTED,
                       "device %s: %.800s is of another build of metier; install both again", device->name,
                       path);
    }
    return strcmp(device->name, "cuda") == 0 ? found->init(device, threads) : found->bf16(device, threads);
}
