/*
 * Run a command: timed PROGRAM [ARG...]; its output is thrown away.
 *
 * Prints its exit status, the nanoseconds from start to exit, those of CPU time that it used, and the
 * most memory it had in KiB.
 * The kernel counts the memory of whoever starts a process as its own until the process becomes the
 * program, so whoever measures small programs must be small.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long us(struct timeval t)
{
	return t.tv_sec * 1000000L + t.tv_usec;
}

int main(int argc, char **argv)
{
	struct timespec start, end;
	struct rusage usage;
	int status, null;
	pid_t pid;

	if (argc < 2)
		return 2;
	clock_gettime(CLOCK_MONOTONIC, &start);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		null = open("/dev/null", O_RDWR);
		dup2(null, 0);
		dup2(null, 1);
		execvp(argv[1], argv + 1);
		perror(argv[1]);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &usage) < 0) {
		perror("timed");
		return 1;
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%d %ld %ld %ld\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
	       (end.tv_sec - start.tv_sec) * 1000000000L + end.tv_nsec - start.tv_nsec,
	       1000 * (us(usage.ru_utime) + us(usage.ru_stime)), usage.ru_maxrss);
	return 0;
}
