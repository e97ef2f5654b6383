/*
 * A child process that is there, with its pid, before it becomes a program.
 *
 * Between fork and execve only what POSIX calls async-signal-safe runs: threads that the child does
 * not have may hold the locks of Python and of the C library. It also keeps the child quiet: whoever
 * traces it sees the end of one read(), then the execve().
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
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

static void wait_and_become(int held, const char *path, char *const *argv, char *const *otherwise)
{
	char go;

	if (read(held, &go, 1) != 1)
		return;
	execve(path, argv, environ);
	execve(otherwise[0], otherwise, environ);
}

int child_start(int held, int release, int death_signal, const char *path, char *const *argv,
		char *const *otherwise)
{
	const pid_t parent = getpid();
	sigset_t all, before;
	pid_t pid;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	pid = fork();
	if (pid == 0) {
		close(release);
		prctl(PR_SET_PDEATHSIG, death_signal);
		if (getppid() != parent) /* it has died before that */
			_exit(127);
		reset_signals();
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		wait_and_become(held, path, argv, otherwise);
		_exit(127);
	}
	if (pid < 0)
		pid = -errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return pid;
}
