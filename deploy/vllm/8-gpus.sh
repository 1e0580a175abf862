#!/bin/bash
# Replicas of one model on the 8 GPUs of a node, each a vLLM server of its own, and the file that lists them.
#
#   REPLICA_GPUS=4 bash deploy/vllm/8-gpus.sh meta-llama/Llama-3.3-70B-Instruct endpoints.txt
#   evigraph run tamu CASES --model vllm:meta-llama/Llama-3.3-70B-Instruct@file:endpoints.txt
#
# For two nodes run it on both, with NODE the name by which the run reaches each and APPEND=1 on the second;
# the file then lies on a disk that the node of the run can read.
#
# Not run by us on GPUs. The arguments are held against vLLM 0.32's own parser in tests/docs/test_vllm_nodes.py.
set -euo pipefail

MODEL=${1:?name a model}
ENDPOINTS=${2:?name the file of endpoints}
GPUS=${GPUS:-8}
# GPUs of one replica: as few as hold the weights and a cache. More replicas share nothing and so wait for nothing.
REPLICA_GPUS=${REPLICA_GPUS:-4}
NODE=${NODE:-127.0.0.1}
FIRST_PORT=${FIRST_PORT:-8000}
PYTHON=${PYTHON:-python3}
LOGS=${LOGS:-.}

if ((GPUS % REPLICA_GPUS)); then
  echo "GPUS=$GPUS is no multiple of REPLICA_GPUS=$REPLICA_GPUS" >&2
  exit 2
fi
export VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
[[ ${APPEND:-0} == 1 ]] || : >"$ENDPOINTS"
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
  # A run asks a server that is listed and not up yet as soon as it is.
  echo "http://$NODE:$port/v1" >>"$ENDPOINTS"
done
wait
