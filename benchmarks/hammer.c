/*
 * Make events: hammer CPU, then on standard input lines "EVENTS RATE".
 *
 * Calls getppid EVENTS times on that CPU, RATE times a second or (0) as fast as it can, and answers
 * each line with the nanoseconds that took. Its name is the command that scripts filter on.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void sleep_until(long ns)
{
	struct timespec t = { ns / 1000000000L, ns % 1000000000L };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
		;
}

static void call(long times)
{
	while (times-- > 0)
		syscall(SYS_getppid);
}

static void hammer(long events, long rate)
{
	/* A step takes a millisecond; where one comes late, the next ones make up for it. */
	long start = now(), step = rate ? rate / 1000 + 1 : events, done, left;

	for (done = 0; done < events; done += step) {
		left = events - done;
		call(left < step ? left : step);
		if (rate)
			sleep_until(start + (long)((double)(done + step) / rate * 1e9));
	}
}

int main(int argc, char **argv)
{
	long events, rate, start;
	cpu_set_t cpus;

	if (argc != 2)
		return 2;
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[1]), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus)) {
		perror("hammer: sched_setaffinity");
		return 1;
	}
	while (scanf("%ld %ld", &events, &rate) == 2) {
		start = now();
		hammer(events, rate);
		printf("%ld\n", now() - start);
		fflush(stdout);
	}
	return 0;
}
