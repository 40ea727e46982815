/* Which rank this process is and where rank 0 is found, as a launcher's variables say. */
#ifndef MT_COMM_TCP_PLACE_H
#define MT_COMM_TCP_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/tcp/hello.h"
#include "metier/context.h"

#define MT_TCP_MOST_RANKS 4096
#define MT_TCP_HOST_BYTES 256

struct mt_tcp_place {
    int rank, size;
    int port;                     // where rank 0 listens
    bool loopback;                // this machine alone is meant
    char host[MT_TCP_HOST_BYTES]; // rank 0's name or address
    const char *token;            // of the environment; "": none
    uint64_t machine;             // the same for ranks of one machine
    char build[MT_TCP_BUILD];     // the program's version and commit
};

/* Reads RANK, WORLD_SIZE (or SLURM_PROCID, SLURM_STEP_NUM_TASKS), MASTER_ADDR, MASTER_PORT and METIER_TOKEN;
 * what is missing or impossible is named. */
enum mt_status mt_tcp_place_read(struct mt_context *ctx, struct mt_tcp_place *place);

#endif
