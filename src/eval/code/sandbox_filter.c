/*
 * The system calls a program may make, as a seccomp filter in classic BPF: what Python and its modules need
 * to compute, to use files, threads, processes and pipes. Everything else is refused, whatever the kernel
 * offers today or will tomorrow: what talks to other processes, builds namespaces or mounts, holds memory
 * that no limit sees, or opens rarely visited parts of the kernel.
 *
 *     other machine word, other table of calls   -> the process is killed
 *     clone with a namespace flag                -> EPERM
 *     socket or socketpair of another family     -> EPERM: only Unix's; some (vsock) know no namespace
 *     ioctl that types into a terminal           -> EPERM
 *     mmap of anonymous shared memory            -> EPERM: it can be held without being mapped in
 *     fcntl beyond a descriptor's own affairs    -> EPERM: leases, watches, sizes of pipes
 *     a socket's peer as a handle on a process   -> EPERM: the peer may be ours
 *     prlimit64 of another process               -> EPERM
 *     a call of the list below                   -> allowed
 *     clone3, and calls newer than the list      -> ENOSYS: libc then uses an older one
 *     everything else                            -> EPERM
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "eval/code/sandbox.h"

#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#endif

#define X32_CALLS   0x40000000u // x86-64: calls of the x32 table have this bit
#define CALL_CLONE3 435         // the same number on every machine, like all since 424
#define NAMESPACE_FLAGS                                                                                      \
    (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC |               \
     CLONE_NEWCGROUP)
#define NEWEST_KNOWN     452 // calls after it may be tried by a libc newer than this list
#define SHARED_ANONYMOUS (MAP_SHARED | MAP_ANONYMOUS)
#define OPTION_PASSPIDFD 76 // newer than some libc's headers
#define OPTION_PEERPIDFD 77
#define MAX_INSTRUCTIONS 1024

// Calls with a number newer than some libc's headers know are given by number: the same on every machine.
static const unsigned allowed_calls[] = {
    // files
    SYS_read, SYS_write, SYS_close, SYS_lseek, SYS_pread64, SYS_pwrite64, SYS_readv, SYS_writev, SYS_preadv,
    SYS_pwritev, SYS_preadv2, SYS_pwritev2, SYS_openat, SYS_fstat, SYS_newfstatat, SYS_statx, SYS_readlinkat,
    SYS_faccessat, SYS_getdents64, SYS_getcwd, SYS_chdir, SYS_fchdir, SYS_mkdirat, SYS_unlinkat, SYS_renameat,
    SYS_renameat2, SYS_linkat, SYS_symlinkat, SYS_mknodat, SYS_fchmod, SYS_fchmodat, SYS_fchown, SYS_fchownat,
    SYS_utimensat, SYS_truncate, SYS_ftruncate, SYS_fallocate, SYS_fadvise64, SYS_statfs, SYS_fstatfs,
    SYS_fsync, SYS_fdatasync, SYS_umask, SYS_dup, SYS_dup3, SYS_sendfile, SYS_splice, SYS_tee,
    SYS_copy_file_range, SYS_readahead, SYS_getxattr, SYS_lgetxattr, SYS_fgetxattr, SYS_listxattr,
    SYS_llistxattr, SYS_flistxattr,
    // waiting
    SYS_pipe2, SYS_ppoll, SYS_pselect6, SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, SYS_eventfd2,
    SYS_timerfd_create, SYS_timerfd_settime, SYS_timerfd_gettime, SYS_signalfd4,
    // memory
    SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_brk, SYS_mincore, SYS_msync, SYS_membarrier,
    // processes and threads
    SYS_execve, SYS_execveat, SYS_exit, SYS_exit_group, SYS_wait4, SYS_waitid, SYS_kill, SYS_tkill,
    SYS_tgkill, SYS_getpid, SYS_gettid, SYS_getppid, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid,
    SYS_getresuid, SYS_getresgid, SYS_getgroups, SYS_setpgid, SYS_getpgid, SYS_getsid, SYS_setsid, SYS_capget,
    SYS_prctl, SYS_set_tid_address, SYS_set_robust_list, SYS_futex, SYS_sched_yield, SYS_sched_getaffinity,
    SYS_sched_setaffinity, SYS_sched_getparam, SYS_sched_getscheduler, SYS_sched_get_priority_max,
    SYS_sched_get_priority_min, SYS_getpriority, SYS_setpriority, SYS_getrlimit, SYS_setrlimit, SYS_getrusage,
    SYS_getcpu,
    // signals
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigsuspend, SYS_rt_sigpending,
    SYS_rt_sigtimedwait, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_sigaltstack, SYS_restart_syscall,
    // time
    SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday, SYS_times,
    SYS_getitimer, SYS_setitimer, SYS_timer_create, SYS_timer_settime, SYS_timer_gettime,
    SYS_timer_getoverrun, SYS_timer_delete,
    // the rest of a program's needs
    SYS_uname, SYS_sysinfo, SYS_getrandom,
    // sockets between its own processes
    SYS_connect, SYS_accept, SYS_accept4, SYS_bind, SYS_listen, SYS_getsockname, SYS_getpeername,
    SYS_shutdown, SYS_sendto, SYS_recvfrom, SYS_sendmsg, SYS_recvmsg, SYS_sendmmsg, SYS_recvmmsg,
#ifdef SYS_rseq
    SYS_rseq,
#endif
    424 /* pidfd_send_signal */, 434 /* pidfd_open */, 436 /* close_range */, 437 /* openat2 */,
    439 /* faccessat2 */, 441 /* epoll_pwait2 */, 449 /* futex_waitv */, 452 /* fchmodat2 */,
#ifdef __x86_64__
    // older forms of the above
    SYS_open, SYS_creat, SYS_stat, SYS_lstat, SYS_access, SYS_pipe, SYS_dup2, SYS_fork, SYS_vfork, SYS_rename,
    SYS_mkdir, SYS_rmdir, SYS_link, SYS_unlink, SYS_symlink, SYS_readlink, SYS_chmod, SYS_chown, SYS_lchown,
    SYS_utime, SYS_utimes, SYS_futimesat, SYS_select, SYS_poll, SYS_epoll_create, SYS_epoll_wait, SYS_eventfd,
    SYS_signalfd, SYS_getdents, SYS_mknod, SYS_alarm, SYS_pause, SYS_time, SYS_getpgrp, SYS_arch_prctl
#endif
};

// What fcntl is for. Locks are those of POSIX, which sqlite3 and dbm need.
static const unsigned fcntl_commands[] = {F_DUPFD, F_GETFD, F_SETFD,  F_GETFL,         F_SETFL,
                                          F_GETLK, F_SETLK, F_SETLKW, F_DUPFD_CLOEXEC, F_GETPIPE_SZ};

struct filter {
    struct sock_filter code[MAX_INSTRUCTIONS];
    unsigned short count;
};

static void add(struct filter *filter, struct sock_filter instruction)
{
    filter->code[filter->count++] = instruction;
}

static void load(struct filter *filter, size_t offset)
{
    add(filter, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset));
}

static void answer(struct filter *filter, unsigned value)
{
    add(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, value));
}

/* If the number loaded is `value`, the answer is `then`. */
static void answer_if(struct filter *filter, unsigned value, unsigned then)
{
    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    answer(filter, then);
}

/* The low half of a call's argument; the high one is zero or of no meaning where this is used. */
static size_t argument(int index)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return offsetof(struct seccomp_data, args) + 8 * (size_t)index;
#else
    return offsetof(struct seccomp_data, args) + 8 * (size_t)index + 4;
#endif
}

/*
 * If the call is `call`: loads one of its arguments, and refuses when, of the bits of `mask`, exactly those
 * of `value` are set (`equal`), or unless they are. The call is allowed otherwise.
 */
static void judge_argument(struct filter *filter, unsigned call, int index, unsigned mask, unsigned value,
                           bool equal)
{
    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 5));
    load(filter, argument(index));
    add(filter, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask));
    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, equal ? 0 : 1, equal ? 1 : 0));
    answer(filter, SECCOMP_RET_ERRNO | EPERM);
    answer(filter, SECCOMP_RET_ALLOW);
}

/* If the call is `call`: allowed with one of these values in an argument, refused with any other. */
static void allow_values(struct filter *filter, unsigned call, int index, const unsigned *values,
                         size_t count)
{
    unsigned char rest = (unsigned char)(2 * count + 2);
    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, rest));
    load(filter, argument(index));
    for (size_t i = 0; i < count; i++) answer_if(filter, values[i], SECCOMP_RET_ALLOW);
    answer(filter, SECCOMP_RET_ERRNO | EPERM);
}

static void build(struct filter *filter)
{
    const unsigned all = ~0u;
    load(filter, offsetof(struct seccomp_data, arch));
    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0));
    answer(filter, SECCOMP_RET_KILL_PROCESS);
    load(filter, offsetof(struct seccomp_data, nr));
    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_CALLS, 0, 1));
    answer(filter, SECCOMP_RET_KILL_PROCESS);
    for (size_t i = 0; i < sizeof allowed_calls / sizeof allowed_calls[0]; i++) {
        answer_if(filter, allowed_calls[i], SECCOMP_RET_ALLOW);
    }
    judge_argument(filter, SYS_clone, 0, NAMESPACE_FLAGS, 0, false); // flags come first on both machines
    judge_argument(filter, SYS_socket, 0, all, AF_UNIX, false);
    judge_argument(filter, SYS_socketpair, 0, all, AF_UNIX, false);
    judge_argument(filter, SYS_mmap, 3, SHARED_ANONYMOUS, SHARED_ANONYMOUS, true);
    judge_argument(filter, SYS_prlimit64, 0, all, 0, false);
    judge_argument(filter, SYS_getsockopt, 2, all, OPTION_PEERPIDFD, true);
    judge_argument(filter, SYS_setsockopt, 2, all, OPTION_PASSPIDFD, true);
    allow_values(filter, SYS_fcntl, 1, fcntl_commands, sizeof fcntl_commands / sizeof fcntl_commands[0]);

    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 6));
    load(filter, argument(1));
    answer_if(filter, TIOCSTI, SECCOMP_RET_ERRNO | EPERM);
    answer_if(filter, TIOCLINUX, SECCOMP_RET_ERRNO | EPERM);
    answer(filter, SECCOMP_RET_ALLOW);

    answer_if(filter, CALL_CLONE3, SECCOMP_RET_ERRNO | ENOSYS);
    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, NEWEST_KNOWN, 0, 1));
    answer(filter, SECCOMP_RET_ERRNO | ENOSYS);
    answer(filter, SECCOMP_RET_ERRNO | EPERM);
}

int mt_sandbox_write_filter(int descriptor)
{
    struct filter filter = {.count = 0};
    build(&filter);
    return mt_sandbox_write_whole(descriptor, filter.code, filter.count * sizeof filter.code[0]);
}
