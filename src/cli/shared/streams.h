/*
 * Standard input, output and error: there from the first line of main on, and what was written to standard
 * output is known to have arrived before the program says that all is well.
 */
#ifndef MT_CLI_STREAMS_H
#define MT_CLI_STREAMS_H

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

#endif
