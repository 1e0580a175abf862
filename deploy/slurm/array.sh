#!/bin/bash
# A run in shards as an array of SLURM: a task for each shard, then the merge.
#
# Copy this file, fill in the settings below, and submit it from the folder that holds the cases, in a shell in
# which `evigraph` works: tasks inherit the environment and the folder.
#
#   mkdir -p night/log
#   job=$(sbatch --parsable array.sh)
#   sbatch --dependency="afterok:$job" --kill-on-invalid-dep=yes --output=night/log/merge.txt \
#     --wrap='evigraph merge night/shards/* --out night/run'
#
# A task whose shard has begun resumes it, so any task may be started again: after a time limit, a lost node or a
# kill only the calls in flight are made again.
#
# The tests run this script in bash without SLURM. It has not been run on a cluster.

# Options of sbatch: the time limit of a task, and its resources (--partition, --gpus, --mem, --account).
#SBATCH --job-name=evigraph
#SBATCH --time=08:00:00
# One task for each shard: 0 to SHARDS-1. %10 is the most tasks at once, which bounds the load on a shared server.
#SBATCH --array=0-99%10
#SBATCH --output=night/log/%A_%a.txt
#SBATCH --open-mode=append
# After the failure of its node a task is queued again.
#SBATCH --requeue
# Two minutes before its time limit a task is told to stop: calls in flight are abandoned, and it is queued again.
#SBATCH --signal=B:TERM@120

# As many as the array has tasks.
SHARDS=100
# Folder of the shards, as in --output and in the merge.
OUT=night
# Arguments of `evigraph run`, without --out and --shard. Try them first with --limit 1.
RUN=(tamu cases.jsonl --model 'vllm:NAME@http://gpu1:8000/v1')
# Options of a session, which a resume is given too, such as --concurrency, --rpm or --scratch "$TMPDIR".
SESSION=(--concurrency 8)

set -u
shard=$OUT/shards/$(printf %04d "$SLURM_ARRAY_TASK_ID")
if [ -f "$shard/run.json" ]; then
    set -- evigraph resume "$shard" "${SESSION[@]}"
else
    set -- evigraph run "${RUN[@]}" "${SESSION[@]}" --shard "$SLURM_ARRAY_TASK_ID/$SHARDS" --out "$shard"
fi

# SLURM signals this shell only; the shell passes the signal on.
child='' stopping=''
trap 'stopping=1; [ -z "$child" ] || kill -TERM "$child" 2>/dev/null' TERM
"$@" &
child=$!
[ -z "$stopping" ] || kill -TERM "$child" 2>/dev/null
# A signal ends `wait` before the command has ended.
while :; do
    wait "$child"
    status=$?
    kill -0 "$child" 2>/dev/null || break
done

# A shard with failed cases is complete: `evigraph retry` reruns them in the merged run.
if [ "$status" -eq 1 ] && grep -q '^  "status": "finished"' "$shard/run.json"; then status=0; fi
if [ -n "$stopping" ] && [ "$status" -ne 0 ]; then
    scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"
fi
exit "$status"
