/* How long threads that have nothing to do keep their processor. */
#ifndef MT_CLI_PATIENCE_H
#define MT_CLI_PATIENCE_H

/*
 * GNU's OpenMP lets a waiting thread spin for milliseconds before it sleeps. A step is hundreds of short
 * parallel loops: where other programs want the processors, a spinning thread holds up the very thread it
 * waits for. The runtime reads its settings before main, so the program starts itself again with a short
 * spin, once, unless the user has settings of their own. Where that fails it goes on as it is.
 */
void cli_shorten_waiting(char **argv);

#endif
