/* Log lines: formatted whole on the stack, then written by one call. */
#include "base/log.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/columns.h"

#define LINE_BYTES 2048

void mt_log_init(struct mt_log *log, FILE *stream, enum mt_log_level level)
{
    *log = (struct mt_log){.stream = stream, .level = level};
    log->terminal = stream != NULL && isatty(fileno(stream)) == 1;
}

bool mt_log_enabled(const struct mt_log *log, enum mt_log_level level)
{
    return log != NULL && log->stream != NULL && level <= log->level;
}

static void write_line(const struct mt_log *log, const char *prefix, const char *format, va_list args)
{
    static const char ellipsis[] = "...";
    static const char wipe[] = "\r\033[K";
    char line[LINE_BYTES + sizeof ellipsis + 1];
    size_t wiped = log->terminal ? sizeof wipe - 1 : 0;
    memcpy(line, wipe, wiped);
    size_t length = wiped + (size_t)snprintf(line + wiped, LINE_BYTES - wiped, "metier: %s", prefix);
    int wanted = vsnprintf(line + length, LINE_BYTES - length, format, args);
    if (wanted < 0) return;
    bool cut = (size_t)wanted >= LINE_BYTES - length;
    char *message = line + length;
    length += cut ? LINE_BYTES - length - 1 : (size_t)wanted;
    while (!cut && line + length > message && line[length - 1] == '\n') length--;
    line[length] = '\0';
    // A message may quote a file name or model text: it must not move the cursor or forge a second line.
    mt_make_printable(message, strlen(message), false);
    if (cut) {
        memcpy(line + length, ellipsis, sizeof ellipsis - 1);
        length += sizeof ellipsis - 1;
    }
    line[length++] = '\n';
    (void)fwrite(line, 1, length, log->stream);
    (void)fflush(log->stream);
}

void mt_log_line(const struct mt_log *log, enum mt_log_level level, const char *format, ...)
{
    static const char *const prefixes[] = {[MT_LOG_ERROR] = "error: ",
                                           [MT_LOG_WARNING] = "warning: ",
                                           [MT_LOG_INFO] = "",
                                           [MT_LOG_DEBUG] = "debug: "};
    if (!mt_log_enabled(log, level)) return;
    va_list args;
    va_start(args, format);
    write_line(log, prefixes[level], format, args);
    va_end(args);
}
