/* Asks the driver's own library, which is there wherever a driver is. */
#include "ops/card.h"

#include <dlfcn.h>
#include <string.h>

enum { CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 }; // of CUdevice_attribute

/* What is called of the driver; each returns 0 where all is well. */
struct driver {
    int (*init)(unsigned flags);
    int (*count)(int *count);
    int (*get)(int *card, int index);
    int (*name)(char *text, int bytes, int card);
    int (*attribute)(int *value, int attribute, int card);
};

/* `function`: a pointer to a function, in which the address is left. */
static bool find(void *library, const char *name, void *function)
{
    void *address = dlsym(library, name);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

/* The library stays loaded: drivers do not expect to be unloaded. */
static bool open_driver(struct driver *driver)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return library != NULL && find(library, "cuInit", (void *)&driver->init) &&
           find(library, "cuDeviceGetCount", (void *)&driver->count) &&
           find(library, "cuDeviceGet", (void *)&driver->get) &&
           find(library, "cuDeviceGetName", (void *)&driver->name) &&
           find(library, "cuDeviceGetAttribute", (void *)&driver->attribute);
}

static bool read_card(const struct driver *driver, int index, struct mt_nvidia_card *card)
{
    int id = 0;
    *card = (struct mt_nvidia_card){0};
    return driver->get(&id, index) == 0 && driver->name(card->name, (int)sizeof card->name, id) == 0 &&
           driver->attribute(&card->major, CAPABILITY_MAJOR, id) == 0 &&
           driver->attribute(&card->minor, CAPABILITY_MINOR, id) == 0;
}

bool mt_card_find(struct mt_nvidia_card *card)
{
    struct driver driver = {0};
    int count = 0;
    bool found = false;
    *card = (struct mt_nvidia_card){0};
    if (!open_driver(&driver) || driver.init(0) != 0 || driver.count(&count) != 0) return false;
    for (int i = 0; i < count; i++) {
        struct mt_nvidia_card one;
        if (!read_card(&driver, i, &one)) continue;
        bool better = one.major > card->major || (one.major == card->major && one.minor > card->minor);
        if (!found || better) *card = one;
        found = true;
    }
    return found;
}

bool mt_card_is_recent(const struct mt_nvidia_card *card)
{
    return card->major >= MT_CARD_LEAST_MAJOR;
}

enum mt_status mt_card_refuse(const struct mt_device *device, const struct mt_nvidia_card *card)
{
    return mt_fail(device->ctx, MT_ERR_UNSUPPORTED,
                   "device %s: %s (compute capability %d.%d) cannot run metier: it needs %d.0 or newer; "
                   "compute on the device cpu",
                   device->name, card->name, card->major, card->minor, MT_CARD_LEAST_MAJOR);
}
