# pdctl: `make help` lists what can be done.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.complete
SUDO   := $(if $(filter 0,$(shell id -u)),,sudo)
# Virtual hosts need root; the same program then runs as root.
PDCTL  := $(SUDO) $(abspath $(BIN))/pdctl
DEMO   := .demo

.DEFAULT_GOAL := help
.PHONY: help venv apt apt-tests test test-fast test-hosts test-engine lint golden demo demo-sim demo-down soak bench locks clean

help:            ## List the targets
	@grep -E '^[a-z-]+: .*##|^[a-z-]+:  *##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 14

venv: $(STAMP)   ## Make .venv with pdctl in it
$(STAMP): pyproject.toml requirements/dev.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "pdctl needs Python 3.11 or later; set PYTHON="; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || tools/apt python3-venv
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.lock
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

apt:             ## Install the Debian packages that virtual hosts need
	@tools/apt mmdebstrap systemd-container iproute2 openssh-client util-linux ca-certificates
# A server is only wanted by the tests; on a machine that runs systemd its package would start one.
	@[ -d /run/systemd/system ] || tools/apt openssh-server

apt-tests: apt   ## The same, and what only tests need: a clock that goes wrong, signatures
	@tools/apt libfaketime gpg gpg-agent

test: venv apt-tests   ## Run everything: lint, unit, hosts, engine
	tools/test

test-fast: venv  ## Lint and the tests that need no virtual hosts (under a minute)
	tools/test fast

test-hosts: venv apt-tests   ## The tests on virtual hosts
	tools/test hosts

test-engine: venv apt  ## The tests with the real engine on CPU
	tools/test engine

lint: venv       ## ruff, mypy, ansible-lint
	tools/test lint

golden: venv     ## Rewrite the golden files; look at the diff before you commit it
	$(BIN)/python -m pytest --accept tests/test_golden.py tests/test_docs.py tests/playbooks/test_playbooks.py \
	  tests/spec/test_spec_cases.py tests/spec/test_spec_schema.py tests/spec/test_rule_table.py

demo: venv apt   ## A real PD cluster on two virtual hosts, with real vLLM on CPU
	@tools/demo engine

demo-sim: venv apt     ## The same with the engine simulator: 1 prefiller, 2 decoders
	@tools/demo simulator

demo-down: venv  ## Remove the demo's virtual hosts
	@tools/demo down

soak: venv apt-tests   ## Thousands of fuzzed specs, the hosts tests with every case, and 56 killed applies
	tools/soak

bench: venv apt  ## Speed, also against Ansible and pyinfra (25 minutes); see benchmarks/README.md
	$(BIN)/python benchmarks/plan_scale.py
	$(BIN)/python benchmarks/validate_scale.py
	$(SUDO) $(abspath $(BIN))/python benchmarks/run.py
	$(SUDO) $(abspath $(BIN))/python benchmarks/growth.py

locks: venv      ## Resolve requirements/dev.lock and the hosts' locks anew
	tools/locks

clean:           ## Remove what make made
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .hypothesis
