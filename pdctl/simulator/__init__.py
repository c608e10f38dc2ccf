"""A simulated engine: argv, environment and network of `vllm serve` -> made-up tokens at made-up speed."""

VERSION = "0.1.0"

NAME = f"pdctl-simulator/{VERSION}"
