/*
 * The system calls a program does without, as a seccomp filter in classic BPF: what a Python program of a
 * benchmark may need stays, what talks to other processes, builds namespaces or mounts, or opens rarely
 * visited parts of the kernel is refused with EPERM.
 *
 *     other machine word, other table of calls   -> the process is killed
 *     clone3                                     -> ENOSYS: its flags are out of sight; libc then uses clone
 *     clone with a namespace flag                -> EPERM
 *     socket of any family but Unix's            -> EPERM: some (vsock) know no network namespace
 *     ioctl that types into a terminal           -> EPERM
 *     a call of the list below                   -> EPERM
 *     everything else                            -> allowed
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "eval/sandbox_parts.h"

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
#define MAX_INSTRUCTIONS 256

// Calls with a number newer than some libc's headers know are given by number.
static const unsigned refused_calls[] = {
    // other processes
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kcmp,
    438 /* pidfd_getfd */,
    440 /* process_madvise */,
    448 /* process_mrelease */,
    // namespaces, mounts, roots
    SYS_unshare,
    SYS_setns,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    428 /* open_tree */,
    429 /* move_mount */,
    430 /* fsopen */,
    431 /* fsconfig */,
    432 /* fsmount */,
    433 /* fspick */,
    442 /* mount_setattr */,
    SYS_open_by_handle_at,
    SYS_name_to_handle_at,
    // keys, programs and counters inside the kernel, asynchronous rings, faults handled by the program
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    425 /* io_uring_setup */,
    426 /* io_uring_enter */,
    427 /* io_uring_register */,
    SYS_fanotify_init,
    // memory that no limit of ours sees
    SYS_memfd_create,
    447 /* memfd_secret */,
    SYS_shmget,
    SYS_shmat,
    SYS_shmctl,
    SYS_msgget,
    SYS_semget,
    SYS_mq_open,
    SYS_vmsplice,
    // the machine: modules, kernels, swap, clocks, names, accounting, quotas, logs
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_acct,
    SYS_quotactl,
    443 /* quotactl_fd */,
    SYS_syslog,
    SYS_vhangup,
    SYS_personality,
#ifdef __x86_64__
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
    SYS_uselib,
    SYS_ustat,
    SYS_sysfs,
    SYS__sysctl,
#endif
};

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

static void build(struct filter *filter)
{
    const unsigned refuse = SECCOMP_RET_ERRNO | EPERM;
    load(filter, offsetof(struct seccomp_data, arch));
    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0));
    answer(filter, SECCOMP_RET_KILL_PROCESS);
    load(filter, offsetof(struct seccomp_data, nr));
    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_CALLS, 0, 1));
    answer(filter, SECCOMP_RET_KILL_PROCESS);
    for (size_t i = 0; i < sizeof refused_calls / sizeof refused_calls[0]; i++) {
        answer_if(filter, refused_calls[i], refuse);
    }
    answer_if(filter, CALL_CLONE3, SECCOMP_RET_ERRNO | ENOSYS);

    // clone(flags, ...): the first argument on both machines.
    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4));
    load(filter, argument(0));
    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NAMESPACE_FLAGS, 0, 1));
    answer(filter, refuse);
    answer(filter, SECCOMP_RET_ALLOW);

    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 4));
    load(filter, argument(0));
    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 1, 0));
    answer(filter, refuse);
    answer(filter, SECCOMP_RET_ALLOW);

    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 5));
    load(filter, argument(1));
    answer_if(filter, TIOCSTI, refuse);
    answer_if(filter, TIOCLINUX, refuse);
    answer(filter, SECCOMP_RET_ALLOW);
}

int mt_sandbox_write_filter(int descriptor)
{
    struct filter filter = {.count = 0};
    build(&filter);
    return mt_sandbox_write_whole(descriptor, filter.code, filter.count * sizeof filter.code[0]);
}
