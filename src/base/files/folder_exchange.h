/* Two folders change names. */
#ifndef MT_BASE_FOLDER_EXCHANGE_H
#define MT_BASE_FOLDER_EXCHANGE_H

/* In one step where the system can do that, else by turns. 0, or the error number; then nothing changed. */
int mt_folder_exchange(const char *one, const char *other);

/*
 * Three renames: for a moment `other` is not there. A process killed then leaves what `other` was at
 * "ONE.aside".
 */
int mt_folder_exchange_by_turns(const char *one, const char *other);

#endif
