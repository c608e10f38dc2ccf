#!/bin/sh
# Written by pdctl: the load of `pdctl bench --quick` on cluster chat, by vLLM's own benchmark.
#
#   sh vllm-bench-serve.sh --num-prompts 200 --request-rate 4
#
# Words of yours come last, so they win. It runs on a host with engines as it is. Elsewhere VLLM names the
# program `vllm`, TOKENIZER the model's folder or id, BASE_URL the proxy's address. vLLM ends with 0 also when
# requests failed: `pdctl bench --judge results/FILE.json` counts them.
set -eu

model=openai/gpt-oss-120b
base_url=${BASE_URL:-http://10.0.0.11:9100}
tokenizer=openai/gpt-oss-120b

# With another name each request would be a 404, and the tokenizer be looked for under it.
python3 - "$base_url" "$model" <<'END'
import json
import sys
import urllib.request

base_url, model = sys.argv[1:]
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
try:
    with direct.open(base_url + "/v1/models", timeout=10) as answer:
        served = [row["id"] for row in json.load(answer)["data"]]
except (OSError, ValueError, LookupError, TypeError) as error:
    sys.exit(f"{base_url}/v1/models: {error}; is the cluster up (pdctl status)?")
if served != [model]:
    sys.exit(f"{base_url} serves {', '.join(served) or 'nothing'}, not {model}: nothing was sent")
END

set -- bench serve --backend openai --base-url "$base_url" --endpoint /v1/completions \
  --model "$model" --tokenizer "${TOKENIZER:-$tokenizer}" \
  --dataset-name random --random-input-len 1024 --random-output-len 256 --ignore-eos \
  --num-prompts 64 --max-concurrency 8 --seed 0 \
  --percentile-metrics ttft,tpot,itl,e2el --metric-percentiles 50,90,99 \
  --save-result --save-detailed --result-dir results "$@"
if [ -n "${VLLM:-}" ]; then exec "$VLLM" "$@"; fi
exec /opt/pdctl/venvs/engine-cuda-<digest>/bin/python -m vllm.entrypoints.cli.main "$@"
