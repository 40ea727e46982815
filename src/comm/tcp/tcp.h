/* Ranks over TCP, without MPI: they find each other by a launcher's variables (place.h). */
#ifndef MT_COMM_TCP_TCP_H
#define MT_COMM_TCP_TCP_H

#include "comm/transport.h"

extern const struct mt_transport mt_transport_tcp;

#endif
