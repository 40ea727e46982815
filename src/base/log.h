/*
 * Log: one line per event, "metier: warning: ...", to a stream the caller owns. Each line is one write,
 * so lines of several threads never mix.
 */
#ifndef MT_BASE_LOG_H
#define MT_BASE_LOG_H

#include <stdbool.h>
#include <stdio.h>

enum mt_log_level {
    MT_LOG_ERROR,
    MT_LOG_WARNING,
    MT_LOG_INFO,
    MT_LOG_DEBUG,
};

struct mt_log {
    FILE *stream;            // borrowed; NULL drops everything
    enum mt_log_level level; // the wordiest level that is written
    bool terminal;           // the stream is a terminal: a progress line there is wiped first
};

/* Prepares a caller-owned log; looks whether the stream is a terminal. */
void mt_log_init(struct mt_log *log, FILE *stream, enum mt_log_level level);

/* True when a line of this level would be written: saves preparing costly arguments. */
bool mt_log_enabled(const struct mt_log *log, enum mt_log_level level);

/* Writes one line. Control characters become '?', a newline at the end is dropped, a log of NULL is silent.
 */
void mt_log_line(const struct mt_log *log, enum mt_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define mt_log_error(log, ...)   mt_log_line((log), MT_LOG_ERROR, __VA_ARGS__)
#define mt_log_warning(log, ...) mt_log_line((log), MT_LOG_WARNING, __VA_ARGS__)
#define mt_log_info(log, ...)    mt_log_line((log), MT_LOG_INFO, __VA_ARGS__)
#define mt_log_debug(log, ...)   mt_log_line((log), MT_LOG_DEBUG, __VA_ARGS__)

#endif
