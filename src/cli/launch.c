/*
 * metier launch: several ranks of this program on this machine, which find each other over TCP.
 *
 * Ranks are a group of processes of their own, so that Ctrl-C reaches them once: through us. We wait for
 * signals and for ranks that end, and for nothing else; ranks write straight to our terminal or files.
 */
#define _GNU_SOURCE // program_invocation_name, strsignal
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"

#define MOST_RANKS  4096
#define TOKEN_BYTES 16
#define GRACE       5.0 // seconds for the others to end by themselves, after the first has failed

struct launch {
    struct mt_context *ctx; // borrowed
    int64_t ranks, nodes, node, port;
    const char *address; // HOST:PORT, or NULL
    char **words;        // the verb's
    pid_t *pids;         // [ranks]; 0: has ended
    pid_t group;         // of all ranks
    int running;
    int failed;      // exit status of the first rank that failed; 0: none has
    double deadline; // of the others, after that
    sigset_t waited, before;
};

// ------------------------------------------------------------------ what ranks are told

static enum mt_status set(struct launch *launch, const char *name, const char *value)
{
    if (setenv(name, value, 1) == 0) return MT_OK;
    return mt_fail(launch->ctx, MT_ERR_MEMORY, "cannot set %s: %s", name, strerror(errno));
}

static enum mt_status set_number(struct launch *launch, const char *name, int64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, value);
    return set(launch, name, text);
}

/* A port of this machine that nobody listens at now. */
static enum mt_status find_port(struct launch *launch)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool found = made >= 0 && bind(made, (struct sockaddr *)&at, length) == 0 &&
                 getsockname(made, (struct sockaddr *)&at, &length) == 0;
    if (made >= 0) (void)close(made);
    if (!found) return mt_fail(launch->ctx, MT_ERR_IO, "no free port: %s", strerror(errno));
    launch->port = ntohs(at.sin_port);
    return MT_OK;
}

/* A secret of this job; one that is there is kept: other machines have it, too. */
static enum mt_status set_token(struct launch *launch)
{
    unsigned char drawn[TOKEN_BYTES];
    char text[2 * TOKEN_BYTES + 1] = "";
    if (getenv("METIER_TOKEN") != NULL) return MT_OK;
    if (launch->nodes > 1) {
        return mt_fail(
            launch->ctx, MT_ERR_USAGE,
            "ranks on several machines need a token, or anybody could join: set METIER_TOKEN to the "
            "same secret on all of them (openssl rand -hex 16 makes one)");
    }
    if (getrandom(drawn, sizeof drawn, 0) != sizeof drawn)
        return mt_fail(launch->ctx, MT_ERR_IO, "cannot get random numbers from the system");
    for (int i = 0; i < TOKEN_BYTES; i++) (void)snprintf(text + 2 * i, 3, "%02x", drawn[i]);
    return set(launch, "METIER_TOKEN", text);
}

/* Where rank 0 is: HOST:PORT, with [] around an address that has colons. */
static enum mt_status set_place(struct launch *launch)
{
    char host[256] = "127.0.0.1";
    if (launch->address != NULL) {
        const char *colon = strrchr(launch->address, ':');
        char *end = NULL;
        long port = colon != NULL ? strtol(colon + 1, &end, 10) : 0;
        size_t length = colon != NULL ? (size_t)(colon - launch->address) : 0;
        if (length == 0 || length >= sizeof host || end == colon + 1 || *end != '\0' || port < 1 ||
            port > 65535)
            return mt_fail(launch->ctx, MT_ERR_USAGE,
                           "--address is '%.200s', expected HOST:PORT of the first machine", launch->address);
        bool brackets = launch->address[0] == '[' && colon[-1] == ']';
        (void)snprintf(host, sizeof host, "%.*s", (int)(length - (brackets ? 2 : 0)),
                       launch->address + (brackets ? 1 : 0));
        launch->port = port;
    }
    enum mt_status status = launch->port == 0 ? find_port(launch) : MT_OK;
    if (status == MT_OK) status = set(launch, "MASTER_ADDR", host);
    return status == MT_OK ? set_number(launch, "MASTER_PORT", launch->port) : status;
}

static enum mt_status set_environment(struct launch *launch)
{
    // A launcher around this one says nothing about these ranks.
    static const char *const others[] = {"OMPI_COMM_WORLD_SIZE",
                                         "OMPI_COMM_WORLD_RANK",
                                         "OMPI_COMM_WORLD_LOCAL_RANK",
                                         "PMI_SIZE",
                                         "PMI_RANK",
                                         "PMIX_RANK",
                                         "SLURM_STEP_ID",
                                         "SLURM_STEPID",
                                         "SLURM_STEP_NUM_TASKS",
                                         "SLURM_PROCID",
                                         "TORCHELASTIC_RUN_ID",
                                         "TORCHELASTIC_USE_AGENT_STORE",
                                         "METIER_TRANSPORT"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) (void)unsetenv(others[i]);
    enum mt_status status = set_place(launch);
    if (status == MT_OK) status = set_token(launch);
    if (status == MT_OK) status = set_number(launch, "WORLD_SIZE", launch->ranks * launch->nodes);
    return status == MT_OK ? set_number(launch, "LOCAL_WORLD_SIZE", launch->ranks) : status;
}

// ------------------------------------------------------------------ ranks

/* In the new process. Returns only if it cannot become a rank. */
static void become_rank(struct launch *launch, pid_t parent)
{
    // Ranks end after their step when we are killed.
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent) _exit(1);
    if (setpgid(0, launch->group) != 0) _exit(1);
    (void)sigprocmask(SIG_SETMASK, &launch->before, NULL);
    (void)execv("/proc/self/exe", launch->words);
    (void)fprintf(stderr, "metier launch: cannot start a rank: %s\n", strerror(errno));
    _exit(1);
}

static void signal_ranks(const struct launch *launch, int signal_number)
{
    if (launch->group > 0 && launch->running > 0) (void)kill(-launch->group, signal_number);
}

static enum mt_status start_ranks(struct launch *launch)
{
    pid_t own = getpid();
    enum mt_status status = MT_OK;
    for (int64_t i = 0; i < launch->ranks && status == MT_OK; i++) {
        status = set_number(launch, "RANK", launch->node * launch->ranks + i);
        if (status == MT_OK) status = set_number(launch, "LOCAL_RANK", i);
        if (status != MT_OK) break;
        pid_t pid = fork();
        if (pid == 0) become_rank(launch, own);
        if (pid < 0) {
            status =
                mt_fail(launch->ctx, MT_ERR_MEMORY, "cannot start rank %" PRId64 ": %s", i, strerror(errno));
            break;
        }
        if (launch->group == 0) launch->group = pid;
        (void)setpgid(pid, launch->group); // as the process does itself; whichever is first
        launch->pids[i] = pid;
        launch->running++;
    }
    if (status != MT_OK) signal_ranks(launch, SIGKILL);
    return status;
}

static int64_t rank_of(const struct launch *launch, pid_t pid)
{
    int64_t i = 0;
    while (i < launch->ranks && launch->pids[i] != pid) i++;
    return i;
}

/* Takes note of all that have ended. */
static void reap(struct launch *launch)
{
    int how = 0;
    pid_t pid = waitpid(-1, &how, WNOHANG);
    for (; pid > 0; pid = waitpid(-1, &how, WNOHANG)) {
        int64_t i = rank_of(launch, pid);
        if (i == launch->ranks) continue;
        launch->pids[i] = 0;
        launch->running--;
        int status = WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
        bool late = launch->failed != 0 && mt_clock_seconds() >= launch->deadline; // we did it
        if (status == 0 || late) continue;
        if (launch->failed == 0) launch->deadline = mt_clock_seconds() + GRACE;
        // Others fail because of a rank that was killed, and may be seen before it.
        if (launch->failed == 0 || WIFSIGNALED(how)) launch->failed = status;
        if (WIFSIGNALED(how))
            (void)fprintf(stderr, "metier launch: rank %" PRId64 " was ended by a signal: %s\n",
                          launch->node * launch->ranks + i, strsignal(WTERMSIG(how)));
    }
}

/* A terminal stops us and not the ranks, which are no group of its own. */
static void stop_with_ranks(const struct launch *launch)
{
    signal_ranks(launch, SIGSTOP);
    (void)raise(SIGSTOP);
    signal_ranks(launch, SIGCONT);
}

/* Until no rank is left. */
static void attend(struct launch *launch)
{
    while (launch->running > 0) {
        struct timespec limit = {.tv_sec = 1};
        int got = sigtimedwait(&launch->waited, NULL, &limit);
        if (got == SIGTSTP)
            stop_with_ranks(launch);
        else if (got > 0 && got != SIGCHLD)
            signal_ranks(launch, got);
        reap(launch);
        if (launch->failed != 0 && mt_clock_seconds() >= launch->deadline) signal_ranks(launch, SIGKILL);
    }
}

/* What we pass on, but for signals that this process ignores (nohup); they wait until we look. */
static void hold_signals(struct launch *launch)
{
    static const int all[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGTSTP};
    (void)sigemptyset(&launch->waited);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct sigaction action;
        if (sigaction(all[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            (void)sigaddset(&launch->waited, all[i]);
    }
    (void)signal(SIGCHLD, SIG_DFL); // ignored, ranks would end unseen
    (void)sigaddset(&launch->waited, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &launch->waited, &launch->before);
}

// ------------------------------------------------------------------ the verb

/* Words before the verb: options, each with a value of its own or behind "=". */
static int own_words(const struct cli_call *call)
{
    int count = 0;
    while (count < call->argc && call->argv[count][0] == '-') {
        const char *word = call->argv[count];
        if (strcmp(word, "--") == 0) break;
        count += strchr(word, '=') != NULL || strcmp(word, "--help") == 0 ? 1 : 2;
    }
    return count < call->argc ? count : call->argc;
}

static enum mt_status check(const struct cli_call *call, const struct launch *launch)
{
    const struct cli_limit limits[] = {{"-n", launch->ranks, 1, MOST_RANKS},
                                       {"--port", launch->port, 0, 65535},
                                       {"--nodes", launch->nodes, 1, MOST_RANKS},
                                       {"--node", launch->node, 0, launch->nodes - 1}};
    const struct cli_void rules[] = {
        {launch->nodes == 1, "--node --address", "without --nodes"},
        {launch->address != NULL, "--port", "with --address, which has one"},
    };
    for (int i = 0; i < 4; i++) { // each may be needed by the next
        enum mt_status status = cli_check_limits(call->ctx, &limits[i], 1);
        if (status != MT_OK) return status;
    }
    if (launch->nodes > 1 && (launch->address == NULL || !cli_is_given(call, "--node")))
        return mt_fail(
            call->ctx, MT_ERR_USAGE,
            "--nodes needs --node (this machine's number) and --address HOST:PORT (of the first machine)");
    return cli_refuse_void(call, rules, sizeof rules / sizeof rules[0]);
}

static enum mt_status run_ranks(struct cli_call *call, struct launch *launch)
{
    void *memory = NULL;
    enum mt_status status = set_environment(launch);
    if (status == MT_OK) status = mt_allocate_array(call->ctx, (size_t)launch->ranks, sizeof(pid_t), &memory);
    if (status != MT_OK) return status;
    launch->pids = memory;
    hold_signals(launch);
    status = start_ranks(launch);
    attend(launch);
    (void)sigprocmask(SIG_SETMASK, &launch->before, NULL);
    mt_release(call->ctx, memory, (size_t)launch->ranks * sizeof(pid_t));
    call->exit_status = launch->failed;
    return status;
}

static enum mt_status run_verb(struct cli_call *call)
{
    struct launch launch = {.ctx = call->ctx, .nodes = 1};
    const struct cli_option options[] = {
        {"-n", CLI_INTEGER, &launch.ranks, "P", "ranks to start on this machine"},
        {"--port", CLI_INTEGER, &launch.port, "N", "where rank 0 listens (default: one that is free)"},
        {"--nodes", CLI_INTEGER, &launch.nodes, "N",
         "machines, each of which runs this with its own --node (default 1)"},
        {"--node", CLI_INTEGER, &launch.node, "R", "which of the machines this is, from 0"},
        {"--address", CLI_TEXT, &launch.address, "HOST:PORT", "of the first machine, as the others reach it"},
        {0},
    };
    int all = call->argc;
    int own = own_words(call);
    call->argc = own;
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    if (!cli_is_given(call, "-n"))
        return mt_fail(call->ctx, MT_ERR_USAGE, "-n is missing: how many ranks to start");
    status = check(call, &launch);
    if (status != MT_OK) return status;
    if (own < all && strcmp(call->argv[own], "--") == 0) own++;
    if (own >= all)
        return mt_fail(call->ctx, MT_ERR_USAGE,
                       "the verb that ranks run is missing: metier launch -n 4 train run.yaml");
    if (strcmp(call->argv[own], call->verb->name) == 0)
        return mt_fail(call->ctx, MT_ERR_USAGE, "ranks cannot launch ranks");
    launch.words = call->argv + own - 1; // where there is a word of ours, which becomes the program's name
    launch.words[0] = program_invocation_name;
    return run_ranks(call, &launch);
}

const struct cli_verb cli_verb_launch = {
    .name = "launch",
    .summary = "start a verb as several ranks, on this machine or on many",
    .arguments = "VERB [WORDS...]",
    .details = "Options come before the verb. Ranks share the work of train, eval, analyze and compare. When "
               "one fails,\n"
               "the others end, and its exit status is that of launch. Ctrl-C and SIGTERM end all after the "
               "same step.\n"
               "METIER_TOKEN, the same secret on every machine, keeps strangers out; on one machine launch "
               "draws it.",
    .examples = "  metier launch -n 2 train run.yaml out=runs/ranks\n"
                "  METIER_TOKEN=$(cat token) metier launch -n 8 --nodes 2 --node 0 --address node0:29500 "
                "train run.yaml",
    .counts_arguments = true,
    .ranks = CLI_RANKS_EACH,
    .run = run_verb,
};
