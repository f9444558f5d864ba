/* The installed `squeue`, `sbatch` and others where a C compiler was found at install: what caller.py does, without the
 * start of a Python. caller.py describes the protocol; each step here has the name of its function there.
 *
 * The kernel runs this program as the interpreter of the installed file (`#!PROGRAM squeue`), with the command's name,
 * the path of the installed file and the user's arguments. That file is also a Python program. Where no service takes
 * the call, Python runs it, and nothing has happened yet. EXECUTABLE, IDENTITY and MESSAGE are set by the compiler's
 * command line. IDENTITY is that of the Phalanx which compiled this, so after an upgrade the service declines the call
 * and Python runs the installed file until `phalanx slurm install` is run again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
enum { ANSWER_S = 2, SIGNALS = 32, NUMBER_BYTES = 4 };
static const char *const LOCALES[] = {"C.UTF-8", "C.utf8", "UTF-8"}; /* PEP 538 */
static const int PASSED_ON[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGTSTP};
static int handle = -1; /* of the process that runs the command */

struct text {
    char *bytes;
    size_t length, room;
};

static int add(struct text *body, const void *bytes, size_t length) {
    if (body->length + length > body->room) {
        size_t room = 2 * (body->length + length) + 4096;
        char *larger = realloc(body->bytes, room);
        if (larger == NULL) return -1;
        body->bytes = larger, body->room = room;
    }
    memcpy(body->bytes + body->length, bytes, length);
    body->length += length;
    return 0;
}

/* Add a field. Each but the first has a null byte before it. */
static int field(struct text *body, const char *format, ...) {
    char *made = NULL;
    va_list values;
    va_start(values, format);
    int length = vasprintf(&made, format, values);
    va_end(values);
    if (length < 0) return -1;
    int failed = (body->length > NUMBER_BYTES && add(body, "", 1)) || add(body, made, (size_t)length);
    free(made);
    return failed ? -1 : 0;
}

/* Return the error handler of a Python's standard output; NULL: it would not write UTF-8. `coerced` is set to the
 * locale that Python puts into LC_CTYPE (PEP 538). */
static const char *errors_of_streams(const char **coerced) {
    const char *name = setlocale(LC_CTYPE, "");
    if (name == NULL) name = "C";
    for (size_t at = 0; at < sizeof LOCALES / sizeof *LOCALES; at++)
        if (strcmp(name, LOCALES[at]) == 0) return "surrogateescape";
    if (strcmp(name, "C") != 0 && strcmp(name, "POSIX") != 0)
        return strcmp(nl_langinfo(CODESET), "UTF-8") == 0 ? "strict" : NULL;
    const char *all = getenv("LC_ALL");
    for (size_t at = 0; at < sizeof LOCALES / sizeof *LOCALES && (all == NULL || *all == '\0'); at++)
        if (setlocale(LC_CTYPE, LOCALES[at]) != NULL) {
            *coerced = LOCALES[at];
            break;
        }
    return "surrogateescape";
}

/* Return whether the text names a path that the service would open as its own. */
static int names_own_path(const char *text) {
    return strstr(text, "/dev/fd/") || strstr(text, "/dev/tty") || strstr(text, "/proc/");
}

static int may_be_passed_on(int count, char **words) {
    for (int number = 0; number < 3; number++)
        if (fcntl(number, F_GETFD) < 0) return 0;
    for (int at = 0; at < count; at++)
        if (names_own_path(words[at])) return 0;
    const char *kubeconfig = getenv("KUBECONFIG");
    return kubeconfig == NULL || !names_own_path(kubeconfig);
}

/* Put the numbers of the signals that a Python started here would ignore, or would have blocked, into `listed`. */
static void list_signals(char *listed, size_t room, int blocked) {
    sigset_t mask;
    size_t used = 0;
    *listed = '\0';
    sigprocmask(SIG_BLOCK, NULL, &mask);
    for (int number = 1; number < (blocked ? NSIG : SIGNALS) && used < room; number++) {
        struct sigaction now;
        int is_ignored = number == SIGPIPE || number == SIGXFSZ ||
                         (sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN);
        if (blocked ? sigismember(&mask, number) == 1 : is_ignored)
            used += (size_t)snprintf(listed + used, room - used, used ? " %d" : "%d", number);
    }
}

static int is_repeated(char **variable) {
    size_t length = strcspn(*variable, "=") + 1;
    for (char **before = environ; before < variable; before++)
        if (strncmp(*before, *variable, length) == 0) return 1;
    return 0;
}

/* Write the request, with its length before it. */
static int write_request(struct text *body, const char *name, int count, char **words) {
    const char *coerced = NULL, *errors = errors_of_streams(&coerced);
    char ignored[4 * SIGNALS], blocked[4 * NSIG];
    if (errors == NULL || add(body, "\0\0\0\0", NUMBER_BYTES)) return -1;
    mode_t mask = umask(077);
    umask(mask);
    list_signals(ignored, sizeof ignored, 0);
    list_signals(blocked, sizeof blocked, 1);
    int failed = field(body, "%s", IDENTITY) || field(body, "%s", name) || field(body, "%s", EXECUTABLE) ||
                 field(body, "%s", errors) || field(body, "%u", (unsigned)mask) ||
                 field(body, "%d", (int)getppid()) || field(body, "%s", ignored) || field(body, "%s", blocked) ||
                 field(body, "%d", count);
    for (int at = 0; at < count && !failed; at++) failed = field(body, "%s", words[at]);
    for (char **one = environ; *one != NULL && !failed; one++) {
        int is_replaced = coerced != NULL && strncmp(*one, "LC_CTYPE=", 9) == 0;
        if (strchr(*one, '=') != NULL && !is_replaced && !is_repeated(one)) failed = field(body, "%s", *one);
    }
    if (coerced != NULL && !failed) failed = field(body, "LC_CTYPE=%s", coerced);
    uint32_t length = __builtin_bswap32((uint32_t)(body->length - NUMBER_BYTES));
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) length = __builtin_bswap32(length);
    memcpy(body->bytes, &length, NUMBER_BYTES);
    return failed ? -1 : 0;
}

/* Put the path of the first or second socket to try into `path`; 0: there is none. */
static int socket_path(int which, char *path, size_t room) {
    const char *said = getenv("PHALANX_SLURM_SOCKET"), *kubeconfig = getenv("KUBECONFIG");
    const char *data_home = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int length = 0;
    if (said != NULL)
        length = which == 0 ? snprintf(path, room, "%s", said) : 0;
    else if (which == 1)
        length = snprintf(path, room, "/run/phalanx/slurm-commands.sock");
    else if (kubeconfig != NULL && strcspn(kubeconfig, ":") > 0) {
        size_t end = strcspn(kubeconfig, ":");
        while (end > 0 && kubeconfig[end - 1] != '/') end--;
        if (end > 1) length = snprintf(path, room, "%.*s/slurm-commands.sock", (int)end - 1, kubeconfig);
        else length = snprintf(path, room, "./slurm-commands.sock");
    } else if (data_home != NULL && *data_home == '/')
        length = snprintf(path, room, "%s/phalanx/slurm-commands.sock", data_home);
    else
        length = snprintf(path, room, "%s/.phalanx/slurm-commands.sock", home ? home : "");
    return length > 0 && (size_t)length < room;
}

/* Return a connection to the service at `path`; -1: no process listens, or another user's process does. */
static int connected(const struct sockaddr_un *address) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    struct timeval patience = {ANSWER_S, 0};
    int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (connection < 0) return -1;
    if (connect(connection, (const struct sockaddr *)address, sizeof *address) == 0 &&
        getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
        (peer.uid == 0 || peer.uid == geteuid()) && fcntl(connection, F_SETFL, 0) == 0 &&
        setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0 &&
        setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0)
        return connection;
    close(connection);
    return -1;
}

/* Send the request with the standard streams and the current directory. */
static int send_request(int connection, const struct text *body) {
    int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC), handles[4] = {0, 1, 2, here};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof handles)];
    } control = {.header = {CMSG_LEN(sizeof handles), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec bytes = {body->bytes, body->length};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (here < 0) return -1;
    memcpy(CMSG_DATA(&control.header), handles, sizeof handles);
    ssize_t sent = sendmsg(connection, &message, MSG_NOSIGNAL);
    close(here);
    for (size_t at = sent < 0 ? 0 : (size_t)sent; sent > 0 && at < body->length; at += (size_t)sent)
        sent = send(connection, body->bytes + at, body->length - at, MSG_NOSIGNAL);
    return sent > 0 ? 0 : -1;
}

/* Return the number of the next message, if it is of this kind; -1: it is not. */
static int64_t received(int connection, char kind) {
    unsigned char found[1 + NUMBER_BYTES];
    for (size_t at = 0; at < sizeof found;) {
        ssize_t part = recv(connection, found + at, sizeof found - at, 0);
        if (part > 0) at += (size_t)part;
        else if (part == 0 || errno != EINTR) return -1;
    }
    int64_t number = (int64_t)found[1] << 24 | found[2] << 16 | found[3] << 8 | found[4];
    return found[0] == (unsigned char)kind ? number : -1;
}

static void pass_on(int number) {
    int before = errno;
    syscall(SYS_pidfd_send_signal, handle, number == SIGTSTP ? SIGSTOP : number, NULL, 0);
    if (number == SIGTSTP) { /* Ctrl-Z: the command stops with this process, and goes on with it */
        kill(getpid(), SIGSTOP);
        syscall(SYS_pidfd_send_signal, handle, SIGCONT, NULL, 0);
    }
    errno = before;
}

/* Let the command run, pass signals on to it, and end as it ended. */
static _Noreturn void attend(int connection) {
    struct timeval forever = {0, 0};
    struct sigaction now, passing = {.sa_handler = pass_on};
    for (size_t at = 0; at < sizeof PASSED_ON / sizeof *PASSED_ON; at++)
        if (sigaction(PASSED_ON[at], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaction(PASSED_ON[at], &passing, NULL);
    setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &forever, sizeof forever);
    int64_t status = send(connection, "g", 1, MSG_NOSIGNAL) == 1 ? received(connection, 's') : -1;
    if (status < 0) {
        if (write(2, MESSAGE, sizeof MESSAGE - 1) < 0) _exit(1);
        _exit(1);
    }
    if (!WIFSIGNALED((int)status)) _exit(WEXITSTATUS((int)status));
    int number = WTERMSIG((int)status);
    signal(number, SIG_DFL);
    kill(getpid(), number);
    _exit(128 + number); /* the signal is blocked */
}

/* End this process as the command ended. Return if no service takes the call. */
static void call(const char *name, int count, char **words) {
    struct text body = {NULL, 0, 0};
    if (!may_be_passed_on(count, words) || write_request(&body, name, count, words)) return;
    for (int which = 0; which < 2; which++) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        if (!socket_path(which, address.sun_path, sizeof address.sun_path)) continue;
        int connection = connected(&address);
        if (connection < 0) continue;
        int64_t pid = send_request(connection, &body) ? -1 : received(connection, 'p');
        if (pid >= 0) handle = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
        if (handle >= 0) attend(connection);
        close(connection);
    }
    free(body.bytes);
}

int main(int count, char **words) {
    if (count < 3) return 0; /* the installation tries whether this program runs */
    const char *script = words[2];
    call(words[1], count - 3, words + 3);
    words[0] = EXECUTABLE, words[1] = "-IS", words[2] = (char *)script;
    execv(EXECUTABLE, words);
    fprintf(stderr, "%s: %s: run `phalanx slurm install` again\n", EXECUTABLE, strerror(errno));
    return 127;
}
