/*
 * A child process that is there, with its pid, before it becomes a program.
 *
 * Between fork and execve only what POSIX calls async-signal-safe runs: threads that the child does
 * not have may hold the locks of Python and of the C library.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#pragma GCC visibility push(hidden)
#include "bpf_syscall.cdef.h"
#pragma GCC visibility pop

extern char **environ;

/* Handlers are the parent's; that it ignores SIGPIPE and SIGXFSZ is Python's doing, not a wish. */
static void reset_signals(void)
{
	struct sigaction action;

	for (int number = 1; number < NSIG; number++) {
		if (sigaction(number, NULL, &action))
			continue;
		if (action.sa_handler == SIG_IGN && number != SIGPIPE && number != SIGXFSZ)
			continue;
		signal(number, SIG_DFL);
	}
}

/*
 * The stop comes after the trace of the system call that asks for it, so whoever traces the child
 * from then on sees nothing of it but the execve(). raise() would make a system call afterwards.
 */
static void stop_and_become(const char *path, char *const *argv, char *const *otherwise)
{
	syscall(SYS_kill, getpid(), SIGSTOP);
	execve(path, argv, environ);
	execve(otherwise[0], otherwise, environ);
}

static int until_stopped(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, WUNTRACED) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFSTOPPED(status) ? 0 : -ECHILD;
}

int child_start(int death_signal, const char *path, char *const *argv, char *const *otherwise)
{
	const pid_t parent = getpid();
	sigset_t all, before;
	int stopped = 0;
	pid_t pid;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, death_signal);
		if (getppid() != parent) /* it has died before that */
			_exit(127);
		reset_signals();
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		stop_and_become(path, argv, otherwise);
		_exit(127);
	}
	if (pid < 0)
		pid = -errno;
	else
		stopped = until_stopped(pid);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return stopped < 0 ? stopped : pid;
}
