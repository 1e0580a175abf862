#!/bin/bash
# Replicas of one model on the 8 GPUs of a node, each a separate vLLM server. The script prints the model
# string that names them all:
#
#   REPLICA_GPUS=4 bash deploy/vllm/8-gpus.sh meta-llama/Llama-3.3-70B-Instruct
#   evigraph run tamu CASES --model STRING
#
# For two nodes run it on both, with NODE the name by which the run reaches each, and join the addresses with
# a comma.
#
# Not run by us on GPUs. The arguments are checked by vLLM 0.32's own parser in tests/docs/test_vllm_nodes.py.
set -euo pipefail

MODEL=${1:?name a model}
GPUS=${GPUS:-8}
# GPUs of one replica: as few as hold the weights and a cache. More replicas share nothing and so wait for nothing.
REPLICA_GPUS=${REPLICA_GPUS:-4}
NODE=${NODE:-127.0.0.1}
FIRST_PORT=${FIRST_PORT:-8000}
PYTHON=${PYTHON:-python3}
LOGS=${LOGS:-.}

if ((GPUS % REPLICA_GPUS)); then
  echo "GPUS=$GPUS is not a multiple of REPLICA_GPUS=$REPLICA_GPUS" >&2
  exit 2
fi
export VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
addresses=()
for ((replica = 0; replica < GPUS / REPLICA_GPUS; replica++)); do
  first=$((replica * REPLICA_GPUS))
  port=$((FIRST_PORT + replica))
  CUDA_VISIBLE_DEVICES=$(seq -s, "$first" $((first + REPLICA_GPUS - 1))) \
    "$PYTHON" -m vllm.entrypoints.openai.api_server \
    --model "$MODEL" \
    --served-model-name "$MODEL" \
    --host "$NODE" \
    --port "$port" \
    --tensor-parallel-size "$REPLICA_GPUS" \
    --dtype bfloat16 \
    --gpu-memory-utilization 0.9 \
    --max-model-len 32768 \
    --max-num-seqs 160 \
    --enable-prefix-caching \
    --enable-prompt-tokens-details \
    >"$LOGS/vllm-$port.log" 2>&1 &
  addresses+=("http://$NODE:$port/v1")
done
# A run asks a server that is not up yet as soon as it is.
(IFS=,; echo "vllm:$MODEL@${addresses[*]}")
wait
