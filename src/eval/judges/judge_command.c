/* A judge that is a program: starting it, talking to it, and not believing it. */
#define _GNU_SOURCE // pipe2, posix_spawn_file_actions_addchdir_np
#include "eval/judges/judge_command.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "formats/text/json.h"
#include "formats/text/printable.h"

#define START_SECONDS 60.0
#define ROW_SECONDS   10.0
#define MOST_LINE     ((size_t)64 << 10)
#define READ_BYTES    4096
#define TAIL_BYTES    200 // of what it says of its own errors
#define TURN_MS       200 // between two looks at the time

static const struct mt_json_limits verdict_limits = {
    .max_bytes = MOST_LINE, .max_values = 4096, .max_depth = 16};

struct talk {
    struct mt_context *ctx;
    pid_t program;
    int input, output, errors; // our ends; -1: closed
    struct mt_text rows;       // not written yet
    struct mt_byte_list line;  // that is coming in
    struct mt_code_verdict *verdicts;
    size_t count, given; // rows, and lines that came for them
    char tail[TAIL_BYTES + 1];
    char *problem;
};

struct mt_judge_command mt_judge_command_for(const char *const *arguments, const char *folder)
{
    return (struct mt_judge_command){
        .arguments = arguments, .folder = folder, .seconds = START_SECONDS, .row_seconds = ROW_SECONDS};
}

// ------------------------------------------------------------------ starting and ending

static void close_end(int *end)
{
    if (*end >= 0) (void)close(*end);
    *end = -1;
}

/* The program with its three streams, in a group of processes of its own. Returns errno. */
static int spawn(const struct mt_judge_command *command, int streams[3], pid_t *program)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigset_t all;
    extern char **environ;
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) return error;
    error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        for (int i = 0; i < 3 && error == 0; i++)
            error = posix_spawn_file_actions_adddup2(&actions, streams[i], i);
        if (error == 0 && command->folder != NULL)
            error = posix_spawn_file_actions_addchdir_np(&actions, command->folder);
        (void)posix_spawnattr_setpgroup(&attributes, 0);
        (void)posix_spawnattr_setsigmask(&attributes, &none);
        (void)posix_spawnattr_setsigdefault(&attributes, &all);
        (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                        POSIX_SPAWN_SETSIGDEF);
        if (error == 0)
            error = posix_spawnp(program, command->arguments[0], &actions, &attributes,
                                 (char *const *)command->arguments, environ);
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* Opens the pipes and starts the program. One that cannot be started is a problem, no failure. */
static enum mt_status begin(const struct mt_judge_command *command, struct talk *talk)
{
    int ends[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    int error = 0;
    for (int i = 0; i < 3 && error == 0; i++) error = pipe2(ends[i], O_CLOEXEC) == 0 ? 0 : errno;
    if (error != 0) {
        for (int i = 0; i < 6; i++) close_end(&ends[i / 2][i % 2]);
        return mt_fail(talk->ctx, MT_ERR_IO, "cannot open a pipe: %s", strerror(error));
    }
    int streams[3] = {ends[0][0], ends[1][1], ends[2][1]};
    error = spawn(command, streams, &talk->program);
    for (int i = 0; i < 3; i++) close_end(&streams[i]);
    talk->input = ends[0][1];
    talk->output = ends[1][0];
    talk->errors = ends[2][0];
    (void)fcntl(talk->input, F_SETFL, O_NONBLOCK);
    if (error == 0) return MT_OK;
    talk->program = -1;
    (void)snprintf(talk->problem, MT_COMMAND_PROBLEM_BYTES, "cannot be started: %s", strerror(error));
    return MT_OK;
}

/* Ends the program and its group, and says how it ended unless something worse is known. */
static void end(struct talk *talk, bool finished)
{
    int status = 0;
    if (talk->program < 0) return;
    if (!finished) (void)kill(-talk->program, SIGKILL);
    while (waitpid(talk->program, &status, 0) < 0 && errno == EINTR) continue;
    (void)kill(-talk->program, SIGKILL); // what it has left behind
    if (talk->problem[0] != '\0') return;
    struct mt_text said = mt_text_trimmed(mt_text_of(talk->tail));
    size_t last = said.bytes;
    while (last > 0 && said.text[last - 1] != '\n') last--;
    said = mt_text_from(said, last);
    const char *before = said.bytes > 0 ? ": " : "";
    struct mt_printable shown = mt_printable_bytes(said.text, said.bytes);
    if (WIFSIGNALED(status)) {
        (void)snprintf(talk->problem, MT_COMMAND_PROBLEM_BYTES,
                       "was ended by signal %d after %zu of %zu verdicts%s%s", WTERMSIG(status), talk->given,
                       talk->count, before, shown.text);
    } else if (WEXITSTATUS(status) != 0 || talk->given < talk->count) {
        (void)snprintf(talk->problem, MT_COMMAND_PROBLEM_BYTES,
                       "ended with status %d after %zu of %zu verdicts%s%s", WEXITSTATUS(status), talk->given,
                       talk->count, before, shown.text);
    }
}

// ------------------------------------------------------------------ verdicts

static void take_back(struct mt_code_verdict *verdict, const char *why)
{
    *verdict = (struct mt_code_verdict){.score = NAN};
    (void)snprintf(verdict->why, sizeof verdict->why, "%.*s", MT_CODE_WHY_BYTES - 1, why);
}

/* A line of its output, which is the verdict of the next row; what cannot be read is none. */
static enum mt_status take_line(struct talk *talk, struct mt_text line)
{
    struct mt_code_verdict *verdict = &talk->verdicts[talk->given++];
    struct mt_json json = {0};
    double score = NAN;
    const char *reason = "";
    char name[64];
    (void)snprintf(name, sizeof name, "line %zu of its output", talk->given);
    enum mt_status status = mt_json_parse(talk->ctx, name, line.text, line.bytes, &verdict_limits, &json);
    if (status == MT_OK) {
        struct mt_json_node root = mt_json_root(&json);
        status = mt_json_expect_object(&root);
        if (status == MT_OK) status = mt_json_get_real(&root, "score", 0.0, 1.0, &score);
        if (status == MT_OK) status = mt_json_optional_string(&root, "reason", &reason);
        *verdict = (struct mt_code_verdict){.passed = score == 1.0, .score = score};
        struct mt_printable shown = mt_printable(reason);
        (void)snprintf(verdict->why, sizeof verdict->why, "%.*s", MT_CODE_WHY_BYTES - 1, shown.text);
    }
    mt_json_free(&json);
    if (status == MT_OK || status == MT_ERR_MEMORY) return status;
    if (talk->problem[0] == '\0')
        (void)snprintf(talk->problem, MT_COMMAND_PROBLEM_BYTES, "wrote no verdict: %.400s",
                       talk->ctx->message);
    take_back(verdict, talk->ctx->message);
    return MT_OK;
}

/* What it wrote: whole lines are verdicts. *more is false once nothing it writes can be believed. */
static enum mt_status take_output(struct talk *talk, struct mt_text text, bool *more)
{
    enum mt_status status = MT_OK;
    while (text.bytes > 0 && *more && status == MT_OK) {
        size_t end = mt_text_find(text, 0, "\n");
        bool whole = end < text.bytes;
        status = mt_byte_list_append(&talk->line, text.text, end);
        text = mt_text_from(text, whole ? end + 1 : end);
        struct mt_text line = mt_text_trimmed(mt_text_in(&talk->line));
        if (talk->line.count > MOST_LINE || (talk->given == talk->count && line.bytes > 0)) {
            // Whose verdict is whose is known by the order alone.
            (void)snprintf(talk->problem, MT_COMMAND_PROBLEM_BYTES, "%s",
                           talk->line.count > MOST_LINE
                               ? "wrote a line of more than 64 KiB"
                               : "wrote more verdicts than there are rows: none counts");
            if (talk->line.count <= MOST_LINE) talk->given = 0;
            *more = false;
        } else if (whole && status == MT_OK) {
            if (talk->given < talk->count) status = take_line(talk, line);
            talk->line.count = 0;
        }
    }
    return status;
}

// ------------------------------------------------------------------ talking

/* Writes what fits; a program that reads no more is left alone. */
static void give_input(struct talk *talk)
{
    ssize_t written = write(talk->input, talk->rows.text, talk->rows.bytes);
    if (written > 0) talk->rows = mt_text_from(talk->rows, (size_t)written);
    bool over = written < 0 && errno != EAGAIN && errno != EINTR;
    if (over || talk->rows.bytes == 0) close_end(&talk->input);
}

/* The end of what it says on its standard error. */
static void keep_tail(struct talk *talk, const char *text, size_t bytes)
{
    size_t old = strlen(talk->tail);
    size_t keep = bytes < TAIL_BYTES ? bytes : TAIL_BYTES;
    size_t kept = old + keep > TAIL_BYTES ? TAIL_BYTES - keep : old;
    memmove(talk->tail, talk->tail + old - kept, kept);
    memcpy(talk->tail + kept, text + bytes - keep, keep);
    talk->tail[kept + keep] = '\0';
    for (size_t i = 0; i < kept + keep; i++) {
        if (talk->tail[i] == '\0') talk->tail[i] = ' ';
    }
}

static enum mt_status read_stream(struct talk *talk, int *stream, bool *more)
{
    char text[READ_BYTES];
    ssize_t bytes = read(*stream, text, sizeof text);
    if (bytes < 0 && errno == EINTR) return MT_OK;
    if (bytes <= 0) {
        close_end(stream);
    } else if (stream == &talk->errors) {
        keep_tail(talk, text, (size_t)bytes);
    } else {
        return take_output(talk, (struct mt_text){.text = text, .bytes = (size_t)bytes}, more);
    }
    return MT_OK;
}

/* Until its output ends, or nothing more is wanted of it. *finished: it has closed its output by itself. */
static enum mt_status converse(struct talk *talk, double until, bool *finished)
{
    enum mt_status status = MT_OK;
    bool more = true;
    while (status == MT_OK && more && talk->output >= 0) {
        struct pollfd waits[] = {{.fd = talk->output, .events = POLLIN},
                                 {.fd = talk->errors, .events = POLLIN},
                                 {.fd = talk->input, .events = POLLOUT}};
        if (mt_clock_seconds() > until) {
            (void)snprintf(talk->problem, MT_COMMAND_PROBLEM_BYTES,
                           "took too long: %zu of %zu verdicts in time", talk->given, talk->count);
            return MT_OK;
        }
        if (poll(waits, 3, TURN_MS) <= 0) continue;
        if (waits[2].revents != 0) give_input(talk);
        if (waits[1].revents != 0) status = read_stream(talk, &talk->errors, &more);
        if (status == MT_OK && waits[0].revents != 0) status = read_stream(talk, &talk->output, &more);
    }
    *finished = talk->output < 0;
    return status;
}

/* Waits for a program that has closed its output, reading what it still says; false: the time is over. */
static bool has_ended(struct talk *talk, double until)
{
    bool more = true;
    siginfo_t info = {0};
    const struct timespec rest = {.tv_nsec = 5000000};
    close_end(&talk->input);
    while (waitid(P_PID, (id_t)talk->program, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0) {
        struct pollfd wait = {.fd = talk->errors, .events = POLLIN};
        if (mt_clock_seconds() > until) return false;
        if (talk->errors < 0 || poll(&wait, 1, TURN_MS) <= 0) (void)nanosleep(&rest, NULL);
        if (wait.revents != 0) (void)read_stream(talk, &talk->errors, &more);
    }
    struct pollfd left = {.fd = talk->errors, .events = POLLIN};
    if (talk->errors >= 0 && poll(&left, 1, 0) > 0) (void)read_stream(talk, &talk->errors, &more);
    return true;
}

enum mt_status mt_judge_command_run(struct mt_context *ctx, const struct mt_judge_command *command,
                                    struct mt_text rows, size_t count, struct mt_code_verdict *verdicts,
                                    char problem[MT_COMMAND_PROBLEM_BYTES])
{
    struct talk talk = {.ctx = ctx,
                        .input = -1,
                        .output = -1,
                        .errors = -1,
                        .rows = rows,
                        .line = {.ctx = ctx},
                        .verdicts = verdicts,
                        .count = count,
                        .problem = problem};
    sigset_t broken;
    sigset_t before;
    bool finished = false;
    double until = mt_clock_seconds() + command->seconds + command->row_seconds * (double)count;
    problem[0] = '\0';
    // A program that stops reading must not end this one; the signal is taken back below.
    (void)sigemptyset(&broken);
    (void)sigaddset(&broken, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &broken, &before);
    enum mt_status status = begin(command, &talk);
    if (status == MT_OK && talk.program >= 0) status = converse(&talk, until, &finished);
    if (status == MT_OK && finished && talk.program >= 0) finished = has_ended(&talk, until);
    end(&talk, finished);
    const struct timespec now = {0};
    if (sigismember(&before, SIGPIPE) == 0) (void)sigtimedwait(&broken, NULL, &now);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    for (size_t i = talk.given; i < count; i++) take_back(&verdicts[i], problem);
    close_end(&talk.input);
    close_end(&talk.output);
    close_end(&talk.errors);
    mt_byte_list_free(&talk.line);
    return status;
}
