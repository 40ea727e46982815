/*
 * The process itself. Standard input, output and error: there from the first line of main on, and what was
 * written to standard output is known to have arrived before the program says that all is well.
 */
#ifndef MT_CLI_PROCESS_H
#define MT_CLI_PROCESS_H

/*
 * Call first. A descriptor among 0 to 2 that the caller closed is taken: the first file the program opens
 * would get its number, and messages would be written into that file. Using one that was closed is an error
 * still.
 *
 * A write to a closed pipe or past the limit of a file's size fails instead of ending the process: a training
 * whose output goes to `head` goes on, and keeps its checkpoints.
 */
void cli_streams_open(void);

/* Call last. Returns the exit status: the one given, or 1 where standard output could not be written. */
int cli_streams_close(int status);

/*
 * GNU's OpenMP lets a waiting thread spin for milliseconds before it sleeps. A step is hundreds of short
 * parallel loops: where other programs want the processors, a spinning thread holds up the very thread it
 * waits for. The runtime reads its settings before main, so the program starts itself again with a short
 * spin, once, unless the user has settings of their own. Where that fails it goes on as it is.
 */
void cli_shorten_waiting(char **argv);

#endif
