#!/bin/sh
# Run demo.ply live or, where the kernel does not let us trace, on recorded events in the VM.
set -eu
cd "$(dirname "$0")/.."
pybpf="${PYTHON:-python3} -m pybpf"
# What is shown can be pasted: by what an installed checkout has, or as it is run here.
shown=$pybpf
[ -x .venv/bin/pybpf ] && shown=.venv/bin/pybpf
prompt='$'
[ "$(id -u)" = 0 ] && prompt='#'

command='cat compiler/*.py > /dev/null'
# If it works it is the demonstration, else it says why it does not.
if live=$($pybpf run -c "$command" examples/demo.ply 2>&1); then
    echo "$prompt $shown run -c '$command' examples/demo.ply"
    echo "$live"
    echo
    echo "This ran live on Linux $(uname -r)."
    exit
fi
case $live in
    *"internal error"*) echo "$live"; exit 1 ;;
esac

events=examples/demo-events.jsonl
# The process that the events were recorded of.
target=$(sed -n '1s/.*"pid": \([0-9]*\).*/\1/p' "$events")
export target
set -- --vm --target examples/demo-target.tar.gz --events "$events" examples/demo.ply
echo "$prompt target=$target $shown run $*"
$pybpf run "$@"
echo "This ran in the VM, on recorded events. Live, the answer is:"
echo "$live" | head -n 1
