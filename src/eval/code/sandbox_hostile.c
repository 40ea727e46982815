/* Hostile programs, one for each class of harm. Many more are with the tests. */
#include "eval/code/sandbox_hostile.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct mt_hostile_case cases[] = {
    {"an honest program",
     "import math, os, re, threading\n"
     "open('/tmp/mine', 'w').write('x' * 1000)\n"
     "assert os.path.getsize('/tmp/mine') == 1000 and math.gcd(12, 18) == 6\n"
     "thread = threading.Thread(target=print, args=('hello',)); thread.start(); thread.join()\n"
     "child = os.fork()\n"
     "if child == 0: os._exit(7)\n"
     "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\n",
     0, 0, MT_ENDS(PASSED), NULL},

    // ---------------------------------------------------------------- using everything up
    {"endless loop", "while True: pass\n", 1, 0, MT_ENDS(TIMED_OUT), NULL},
    {"processor time, signal ignored",
     "import resource, signal\n"
     "signal.signal(signal.SIGXCPU, signal.SIG_IGN)\n"
     "try: resource.setrlimit(resource.RLIMIT_CPU, (1000, 1000))\n"
     "except ValueError: pass\n"
     "while True: pass\n",
     0, 1, MT_ENDS(KILLED), NULL},
    {"fork bomb",
     "import os\n"
     "while True:\n"
     "    try: os.fork()\n"
     "    except OSError: pass\n",
     1, 0, MT_ENDS(TIMED_OUT) | MT_ENDS(OUT_OF_MEMORY), NULL},
    {"memory bomb", "hoard = []\nwhile True: hoard.append(bytearray(1 << 20))\n", 0, 0,
     MT_ENDS(OUT_OF_MEMORY), "MemoryError"},
    {"endless output", "while True: print('x' * 4096)\n", 0, 0, MT_ENDS(TOO_MUCH_OUTPUT), NULL},
    {"a full /tmp", "for i in range(1000): open('/tmp/%d' % i, 'wb').write(bytes(1 << 20))\n", 0, 0,
     MT_ENDS(FAILED), "No space left"},
    {"memory behind a dead main thread",
     MT_PYTHON_CALLS "import threading, time\n"
                     "def hold():\n"
                     "    while open('/proc/self/stat').read().split()[2] != 'Z': time.sleep(0.01)\n"
                     "    hoard = bytearray(96 << 20); time.sleep(1000)\n"
                     "for i in range(4):\n"
                     "    if os.fork() == 0:\n"
                     "        threading.Thread(target=hold).start()\n"
                     "        call((60, 93), 0)\n"
                     "time.sleep(1000)\n",
     0, 0, MT_ENDS(OUT_OF_MEMORY), NULL},

    // ---------------------------------------------------------------- reaching out
    {"network",
     "import socket\n"
     "families = [socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET, 38, 40]\n"
     "opened = 0\n"
     "for family in families:\n"
     "    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):\n"
     "        try: socket.socket(family, kind); opened += 1\n"
     "        except OSError: pass\n"
     "try: socket.getaddrinfo('example.org', 80); opened += 1\n"
     "except OSError: pass\n"
     "import os\n"
     "others = [d for d in os.listdir('/proc/self/net/dev_snmp6')] if os.path.exists(\n"
     "    '/proc/self/net/dev_snmp6') else []\n"
     "opened += len([d for d in others if d != 'lo'])\n"
     "assert opened > 0\n",
     0, 0, MT_ENDS(FAILED), "AssertionError"},
    {"reading home and secrets",
     "import os\n"
     "seen = 0\n"
     "for path in [HOME, '/root', '/home', '/etc/shadow', '/etc/passwd', '/etc/ssh', '/var', '/run', "
     "'/sys',\n"
     "             '/boot', '/mnt', '/srv', '/opt', CANARY, os.path.dirname(CANARY)]:\n"
     "    try:\n"
     "        seen += len(os.listdir(path)) if os.path.isdir(path) and path != '/tmp' else 0\n"
     "        if os.path.isfile(path): open(path).read(); seen += 1\n"
     "    except OSError: pass\n"
     "assert seen > 0\n",
     0, 0, MT_ENDS(FAILED), "AssertionError"},
    {"reading the environment",
     "import os\n"
     "known = {'PATH', 'HOME', 'TMPDIR', 'LANG', 'PYTHONHASHSEED', 'PWD', 'LC_CTYPE', 'OMP_NUM_THREADS',\n"
     "         'OPENBLAS_NUM_THREADS'}\n"
     "others = set(os.environ) - known\n"
     "for name in os.listdir('/proc'):\n"
     "    if not name.isdigit(): continue\n"
     "    try: text = open('/proc/%s/environ' % name, 'rb').read()\n"
     "    except OSError: continue\n"
     "    others |= {v.split(b'=')[0].decode() for v in text.split(b'\\0') if v} - known\n"
     "assert others\n",
     0, 0, MT_ENDS(FAILED), "AssertionError"},
    {"descriptors left open",
     "import os\n"
     "others = []\n"
     "for name in os.listdir('/proc/self/fd'):\n"
     "    try: place = os.readlink('/proc/self/fd/' + name)\n"
     "    except OSError: continue\n"
     "    if int(name) > 2 and int(name) != 7: others.append(name + ' ' + place)\n"
     "for name in os.listdir('/proc/1/fd') if os.access('/proc/1/fd', os.R_OK) else []:\n"
     "    if int(name) > 2 and not os.readlink('/proc/1/fd/' + name).startswith('anon_inode:'):\n"
     "        others.append('1: ' + name)\n"
     "assert others\n",
     0, 0, MT_ENDS(FAILED), "AssertionError"},
    {"writing outside",
     "import os\n"
     "written = 0\n"
     "for path in [CANARY, os.path.dirname(CANARY) + '/new', '/new', '/usr/new', '/usr/bin/new', "
     "'/etc/new',\n"
     "             '/dev/new', '/home/new', HOME + '/new', '/program.py', '/proc/sys/kernel/core_pattern',\n"
     "             '/proc/sys/vm/drop_caches', '/proc/sysrq-trigger', '/dev/kmsg', '/dev/mem', '/dev/sda']:\n"
     "    try: written += os.write(os.open(path, os.O_WRONLY | os.O_CREAT), b'1')\n"
     "    except OSError: pass\n"
     "for path in ['/usr/bin/python3', '/program.py', '/usr', '/etc/ld.so.cache']:\n"
     "    for harm in (os.unlink, os.rmdir, lambda p: os.rename(p, p + 'x'), lambda p: os.chmod(p, 0o777)):\n"
     "        try: harm(path); written += 1\n"
     "        except OSError: pass\n"
     "assert written > 0\n",
     0, 0, MT_ENDS(FAILED), "AssertionError"},
    {"watches, locks and leases on files",
     MT_PYTHON_CALLS
     "import fcntl, struct\n"
     "done = []\n"
     "for numbers in ((294, 26), (253, 26), (254, 27), (300, 262)):\n"
     "    ctypes.set_errno(0)\n"
     "    if call(numbers, 0, 0, 0, 0, 0) >= 0 or ctypes.get_errno() != 1: done.append(numbers)\n"
     "os.close(os.open('/tmp/own', os.O_CREAT))\n"
     "lock = struct.pack('hhqqi', 0, 0, 0, 0, 0)\n"
     "for path in ('/usr/bin/env', '/usr', '/tmp/own', '/dev/null'):\n"
     "    file = os.open(path, os.O_RDONLY)\n"
     "    for harm in (lambda: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB),\n"
     "                 lambda: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK),\n"
     "                 lambda: fcntl.fcntl(file, fcntl.F_NOTIFY, fcntl.DN_ACCESS),\n"
     "                 lambda: fcntl.fcntl(file, 37, lock), lambda: fcntl.fcntl(file, 38, lock)):\n"
     "        try: harm(); done.append(path)\n"
     "        except PermissionError: pass\n"
     "        except OSError as error: done.append(str(error))\n"
     "print(done)\n"
     "assert done\n",
     0, 0, MT_ENDS(FAILED), "AssertionError"},
    {"terminals of its own",
     "import os, pty\n"
     "made = []\n"
     "for make in (os.openpty, pty.openpty, lambda: os.open('/dev/ptmx', os.O_RDWR),\n"
     "             lambda: os.open('/dev/pts/ptmx', os.O_RDWR), lambda: os.open('/dev/tty', os.O_RDWR)):\n"
     "    try: made.append(make())\n"
     "    except OSError: pass\n"
     "assert made\n",
     0, 0, MT_ENDS(FAILED), "AssertionError"},

    // ---------------------------------------------------------------- other processes
    {"signals to the parent",
     "import os, signal\n"
     "sent = 0\n"
     "for process in (PARENT, -PARENT):\n"
     "    for s in (0, signal.SIGTERM, signal.SIGKILL):\n"
     "        try: os.kill(process, s); sent += 1\n"
     "        except OSError: pass\n"
     "assert sent > 0\n",
     0, 0, MT_ENDS(FAILED), "AssertionError"},
    {"ptrace",
     MT_PYTHON_CALLS
     "traced = [call((101, 117), 0, 0, 0, 0) == 0, call((101, 117), 16, PARENT, 0, 0) == 0,\n"
     "          call((101, 117), 16, 1, 0, 0) == 0, call((310, 270), 1, 0, 0, 0, 0, 0) == 0]\n"
     "assert any(traced)\n",
     0, 0, MT_ENDS(FAILED), "AssertionError"},
    {"seeing other processes",
     "import os\n"
     "assert len([n for n in os.listdir('/proc') if n.isdigit()]) > 2 or os.path.exists('/proc/%d' % "
     "PARENT)\n",
     0, 0, MT_ENDS(FAILED), "AssertionError"},
    {"processes left behind",
     "import os, time\n"
     "for i in range(4):\n"
     "    if os.fork() == 0:\n"
     "        os.setsid()\n"
     "        if os.fork() == 0: time.sleep(1000)\n"
     "        os._exit(0)\n",
     0, 0, MT_ENDS(PASSED), NULL}, // no crime; but nothing may be left, which the caller looks at

    // ---------------------------------------------------------------- the kernel
    {"namespaces and mounts",
     MT_PYTHON_CALLS
     "name = ctypes.addressof(ctypes.create_string_buffer(b'tmpfs'))\n"
     "place = ctypes.addressof(ctypes.create_string_buffer(b'/tmp'))\n"
     "done = [call((272, 97), 0x10000000) == 0, call((272, 97), 0x00020000) == 0,\n"
     "        call((165, 40), name, place, name, 0, 0) == 0, call((166, 39), place, 2) == 0,\n"
     "        call((161, 51), place) == 0, call((155, 41), place, place) == 0,\n"
     "        call((435, 435), 0, 0) >= 0 or ctypes.get_errno() != 38]\n"
     "child = call((56, 220), 0x10000000 | 17, 0, 0, 0, 0)\n"
     "if child == 0: os._exit(0)\n"
     "done.append(child > 0)\n"
     "assert any(done)\n",
     0, 0, MT_ENDS(FAILED), "AssertionError"},
    {"kernel features",
     MT_PYTHON_CALLS
     "done = []\n"
     "for numbers in ((250, 219), (248, 217), (321, 280), (298, 241), (323, 282), (425, 425), (304, 265),\n"
     "                (175, 105), (246, 104), (169, 142), (167, 224), (29, 194), (68, 186), (135, 92)):\n"
     "    ctypes.set_errno(0)\n"
     "    if call(numbers, 0, 0, 0, 0, 0) >= 0 or ctypes.get_errno() != 1: done.append(numbers)\n"
     "print(done)\n"
     "assert done\n",
     0, 0, MT_ENDS(FAILED), "AssertionError"},
    {"calls nobody listed",
     MT_PYTHON_CALLS
     "made = []\n"
     "for numbers in ((444, 444), (451, 451), (453, 453), (457, 457), (462, 462), (317, 277), (162, 81),\n"
     "                (306, 267), (256, 238), (279, 239), (188, 5), (251, 30), (144, 119), (500, 500)):\n"
     "    ctypes.set_errno(0)\n"
     "    if call(numbers, 0, 0, 0, 0, 0) >= 0 or ctypes.get_errno() not in (1, 38): made.append(numbers)\n"
     "assert made\n",
     0, 0, MT_ENDS(FAILED), "AssertionError"},
    {"becoming somebody",
     "import os\n"
     "done = 0\n"
     "for become in (lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.setgroups([0]),\n"
     "               lambda: os.chown('/tmp', 0, 0), lambda: os.nice(-10), lambda: os.chroot('/tmp')):\n"
     "    try: become(); done += 1\n"
     "    except OSError: pass\n"
     "status = open('/proc/self/status').read().split('\\n')\n"
     "values = dict(line.split(':', 1) for line in status if ':' in line)\n"
     "done += any(int(values[k], 16) for k in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'))\n"
     "done += values['NoNewPrivs'].strip() != '1' or values['Seccomp'].strip() != '2' or os.getuid() == 0\n"
     "assert done > 0\n",
     0, 0, MT_ENDS(FAILED), "AssertionError"},

    // ---------------------------------------------------------------- cheating
    {"leaving early", "import sys\nsys.exit(0)\nassert False\n", 0, 0, MT_ENDS(FAILED),
     "before its last line"},
};

const struct mt_hostile_case *mt_hostile_cases(size_t *count)
{
    *count = sizeof cases / sizeof cases[0];
    return cases;
}

struct mt_sandbox_options mt_hostile_options(void)
{
    struct mt_sandbox_options options = mt_sandbox_defaults();
    options.seconds = 300; // for those that end by themselves: only one that hangs takes as long
    options.cpu_seconds = 100;
    options.memory = 192 << 20;
    options.processes = 12;
    options.output = 256 << 10;
    options.files = 8 << 20;
    return options;
}

/* NAME = text, whatever bytes the text has. */
static enum mt_status define(struct mt_byte_list *text, const char *name, const char *value)
{
    enum mt_status status = mt_byte_list_append_text(text, name);
    if (status == MT_OK)
        status = mt_byte_list_append_text(text, " = __import__('os').fsdecode(bytes.fromhex('");
    for (const char *byte = value; *byte != '\0' && status == MT_OK; byte++) {
        char digits[3];
        (void)snprintf(digits, sizeof digits, "%02x", (unsigned char)*byte);
        status = mt_byte_list_append_text(text, digits);
    }
    if (status == MT_OK) status = mt_byte_list_append_text(text, "'))\n");
    return status;
}

enum mt_status mt_hostile_program(const struct mt_hostile_case *hostile,
                                  const struct mt_hostile_setting *setting, struct mt_byte_list *text)
{
    char parent[48];
    (void)snprintf(parent, sizeof parent, "PARENT = %ld\n", (long)getpid());
    enum mt_status status = mt_byte_list_append_text(text, parent);
    if (status == MT_OK) status = define(text, "CANARY", setting->canary);
    if (status == MT_OK) status = define(text, "HOME", setting->home);
    if (status == MT_OK) status = mt_byte_list_append_text(text, hostile->program);
    return status;
}

void mt_hostile_limit(const struct mt_hostile_case *hostile, struct mt_sandbox_options *options)
{
    if (hostile->seconds > 0) options->seconds = hostile->seconds;
    if (hostile->cpu_seconds > 0) options->cpu_seconds = hostile->cpu_seconds;
}

bool mt_hostile_contained(const struct mt_hostile_case *hostile, const struct mt_sandbox_result *result)
{
    return (hostile->expected >> result->outcome & 1u) != 0 &&
           (hostile->contains == NULL || strstr(result->tail, hostile->contains) != NULL);
}
