/* Two folders change names in one step, where the system can do that. */
#ifndef MT_BASE_FOLDER_EXCHANGE_H
#define MT_BASE_FOLDER_EXCHANGE_H

/* 0, or the error number: EINVAL or ENOSYS where there is no such thing. */
int mt_folder_exchange(const char *one, const char *other);

#endif
