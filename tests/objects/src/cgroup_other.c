#include "bpf.h"

LICENSE("GPL");

struct bpf_sysctl {
	u32 write, file_pos;
};

SEC("cgroup/sysctl")
int read_only(struct bpf_sysctl *ctx)
{
	char name[64] = {};

	bpf_sysctl_get_name(ctx, name, sizeof(name), 0);
	return !ctx->write || name[0] == 'n';
}

struct bpf_sockopt {
	void *sk, *optval, *optval_end;
	s32 level, optname, optlen, retval;
};

SEC("cgroup/getsockopt")
int get(struct bpf_sockopt *ctx)
{
	u8 *value = ctx->optval;

	if (value + 1 > (u8 *)ctx->optval_end)
		return 0;
	ctx->retval = 0;
	return 1;
}

SEC("cgroup/setsockopt")
int set(struct bpf_sockopt *ctx)
{
	ctx->optlen = -1;
	return 1;
}

struct bpf_cgroup_dev_ctx {
	u32 access_type, major, minor;
};

SEC("cgroup/dev")
int device(struct bpf_cgroup_dev_ctx *ctx)
{
	return ctx->major == 1 && (ctx->access_type & 0xffff) == 2;
}
