"""How engines find the weights of a model, as far as it decides whether pdctl can fetch them first."""

from __future__ import annotations

from pdctl.knowledge.variables import ELSEWHERE_FROM_HUB

# Another folder, or another format than files in one (vLLM engine/arg_utils.py, config/load.py).
ELSEWHERE_FLAGS = frozenset({"--download-dir", "--download_dir", "--load-format", "--load_format"})
# Another cache (huggingface_hub constants.py), or another hub altogether (vLLM envs.py).
ELSEWHERE_VARIABLES = frozenset({"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "VLLM_USE_MODELSCOPE"})
# The way there.
PASSED_ON = frozenset(
    {
        *ELSEWHERE_FROM_HUB,
        "HTTP_PROXY",
        "http_proxy",
        "NO_PROXY",
        "no_proxy",
        "SSL_CERT_FILE",
        "REQUESTS_CA_BUNDLE",
    }
)

TOKEN = "HF_TOKEN"
# What engines do not load (vLLM config/load.py: `original/**/*`), and formats that they leave where there are
# safetensors (vLLM model_executor/model_loader/default_loader.py).
NOT_LOADED = ("original/*", "metal/*", "onnx/*", "coreml/*", "openvino/*")
NOT_LOADED_BESIDE_SAFETENSORS = (
    *("*.bin", "*.pt", "*.pth", "*.h5", "*.msgpack", "*.gguf", "*.onnx", "*.ot", "*.tflite", "*.mlmodel"),
)
