# Every target creates the environment first; this costs nothing if it is up to date.
PYTHON ?= python3
PY := .venv/bin/python
PYTEST := $(PY) -m pytest
CLUSTER := $(PY) tests/e2e/kind/cluster.py
# The tests of a file stay on one worker. Tests of real processes mostly wait, so there is one more worker than cores.
SIDE_BY_SIDE := -n 3 --dist loadscope --no-loadscope-reorder
# One more worker, which mostly waits for the pods on kind.
WITH_KIND := $(SIDE_BY_SIDE:3=4)
# Arguments for pytest, for example: make unit ARGS="-k election -x"
ARGS ?=

# Without compiled modules every test that starts a process would compile them again.
unexport PYTHONDONTWRITEBYTECODE

# The total time that the tests print includes the environment.
export STAGES_STARTED_AT := $(shell date +%s)

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: venv
venv: ## create the Python environment in .venv, with pinned hashes
	@requirements/venv.sh $(PYTHON)

.PHONY: programs
programs: venv ## compile or download the external programs of the tests (Kubernetes, Kafka, a checker), once
	@PYTHONPATH=tests $(PY) -m support.outside_programs

# ---- Tests. Markers select the tests of a set; see [tool.pytest.ini_options].

.PHONY: lint
lint: venv ## ruff, mypy --strict, import contracts, style as a test
	@$(PYTEST) tests/tidy $(ARGS)

.PHONY: format
format: venv ## fix and format the sources with ruff
	@.venv/bin/ruff check --fix --quiet . && .venv/bin/ruff format .

.PHONY: unit
unit: venv ## unit tests
	@$(PYTEST) tests/unit $(ARGS)

.PHONY: test-fast
test-fast: venv ## tests without a cluster and without Java; at most 5 minutes
	@$(PYTEST) $(SIDE_BY_SIDE) --continue-on-collection-errors tests $(ARGS)

.PHONY: test-local
test-local: programs ## test-fast, and tests with stock Kafka and a real API server: everything except kind
	@$(PYTEST) $(SIDE_BY_SIDE) -m "not long and not e2e" --continue-on-collection-errors tests $(ARGS)

.PHONY: test
test: programs ## the short set: test-local and kind with real disk failures, side by side; at most 15 minutes, 25 the first time
	@$(PYTEST) $(WITH_KIND) -m "not long" --continue-on-collection-errors tests $(ARGS)

.PHONY: test-long
test-long: programs ## the long set: many seeds, many repairs, large numbers; writes docs/evidence/long-run.md
	@$(PYTEST) $(SIDE_BY_SIDE) -m long --long-run-report=docs/evidence/long-run.md tests $(ARGS)

.PHONY: interop
interop: programs ## tests with stock Apache Kafka: tools, clients, brokers, controllers
	@$(PYTEST) -m "interop and not long" tests/interop $(ARGS)

.PHONY: envtest
envtest: programs ## the operator with kube-apiserver and etcd, killed at every call (KUBERNETES=1.36: with that version)
	@$(if $(KUBERNETES),METADATAQUORUM_KUBERNETES=$(KUBERNETES) )$(PYTEST) -m "envtest and not long" tests/envtest $(ARGS)

.PHONY: e2e
e2e: venv ## end-to-end tests on kind
	@$(PYTEST) -m "e2e and not long" tests/e2e $(ARGS)

.PHONY: steady
steady: programs ## test-local ten times and e2e three times beside a busy core; ends at the first failure (ARGS="--local 2 --kind 1"); writes docs/evidence/steady-runs.md
	@PYTHONPATH=tests $(PY) -m support.steady_runs $(ARGS)

.PHONY: properties
properties: venv ## tests of properties with other examples than the short set has, which are others in each run; a failure says how to repeat it
	@$(PYTEST) $(SIDE_BY_SIDE) --hypothesis-profile=searching -m "hypothesis and not long and not interop and not envtest" tests $(ARGS)

.PHONY: random-changes
random-changes: venv ## rounds of random acts on kind: SEEDS="7 12..20"; ARGS="--acts fail-disk,kill-9": only these; ARGS=--again: passed rounds too; ARGS="--clusters 3": at once
	@PYTHONPATH=tests $(PY) -m support.random_changes $(or $(SEEDS),1..300) $(ARGS)

.PHONY: modelled-changes
modelled-changes: venv ## the same rounds on a modelled cluster, in seconds: SEEDS="7 12..20"; ARGS=-v: what is done; ARGS=--dense: more acts in the same time
	@PYTHONPATH=tests $(PY) -m support.modelled_cluster $(or $(SEEDS),1..224) $(ARGS)

.PHONY: random-faults
random-faults: programs ## rounds of random faults on broker processes, every second one with a stock broker: SEEDS="7 12..20"; ARGS=--again: passed rounds too
	@PYTHONPATH=tests $(PY) -m support.random_faults $(or $(SEEDS),1..120) $(ARGS)

.PHONY: requirements
requirements: venv ## list requirements with their tests, and stale and open clauses (STRICT=1: fail on these); writes docs/evidence/requirements.md
	@$(PYTEST) --requirements-table $(if $(STRICT),--requirements-strict) $(RESULTS:%=--requirements-results=%) tests

# ---- Run it

.PHONY: demo
demo: venv ## a quorum on kind: grows, loses its leader and a disk, heals, shrinks; nothing is lost
	@PYTHONPATH=tests:tests/e2e $(PY) -m demo

.PHONY: bench
bench: venv ## side by side with etcd, ZooKeeper and Apache Kafka; writes docs/evidence/benchmarks.md
	@$(PY) -m bench $(ARGS)

.PHONY: bench-against
bench-against: venv ## compare CPU per commit and p50 with the node of commit BASE, in turns
	@$(PY) bench/against.py --base $(or $(BASE),$(error name the commit before: make bench-against BASE=51b52fb)) $(ARGS)

.PHONY: bench-tls
bench-tls: venv ## only mutual TLS: its cost for our nodes, etcd and Kafka (ARGS="--only metadataquorum,holds --rounds 1")
	@$(PY) bench/mutual_tls.py $(ARGS)

.PHONY: bench-growth
bench-growth: venv ## only scaling: voters, observers, records, size of the log
	@$(PY) bench/growth.py $(ARGS)

.PHONY: bench-controller
bench-controller: venv ## only the controller of brokers: topics, failures, a million partitions
	@$(PY) bench/brokers.py $(ARGS)

.PHONY: bench-broker
bench-broker: venv ## only the data path of brokers, compared with three stock ones (ARGS="--megabytes 100 --only throughput")
	@$(PY) bench/data_path.py $(ARGS)

.PHONY: bench-pipeline
bench-pipeline: venv ## only the pipeline: archive, state, audit, timeline and plan over ten million records
	@$(PY) bench/pipeline.py $(ARGS)

.PHONY: bench-operator
bench-operator: programs ## only the operator: a hundred quorums, idle and with twenty failed disks (ARGS="--quorums 10")
	@$(PY) bench/operator_scale.py $(ARGS)

.PHONY: cluster
cluster: venv ## start a kind cluster with three workers
	@$(CLUSTER) up

.PHONY: images
images: venv ## build the images of node and operator
	@$(CLUSTER) images

.PHONY: pipeline-image
pipeline-image: venv ## build the image of the pipeline, with Spark and Java
	@$(CLUSTER) pipeline-image

.PHONY: release
release: venv ## build wheel, chart, images, bills of materials and checksums of the last commit in build/release (ARGS=--no-images)
	@$(PY) -m release $(ARGS)

.PHONY: docs
docs: venv ## build the documentation site in build/site; warnings and broken links are errors
	@$(PY) docs/_site/build.py

.PHONY: down
down: venv ## remove the cluster and its disks; the cache is kept
	@$(CLUSTER) down

.PHONY: clean
clean: ## remove the clusters and all generated files; the cache is kept
	@$(PYTHON) -B tests/e2e/kind/cluster.py down --all
	@rm -rf .venv .venv-bench .requirements .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	@find . -name .git -prune -o \( -name __pycache__ -o -name '*.egg-info' \) -prune -exec rm -rf {} +

.PHONY: distclean
distclean: clean ## the same, and remove the cache in ~/.cache/metadataquorum
	@$(PYTHON) -B tests/e2e/kind/cluster.py down --cache

# ---- Generated files that are checked in

.PHONY: pins
pins: venv ## update requirements/*.txt after a change in pyproject.toml (UPGRADE=1: newest versions)
	@$(PY) requirements/compile.py $(if $(UPGRADE),--upgrade)

.PHONY: api-permissions-doc
api-permissions-doc: venv ## generate docs/reference/api-permissions.md from the permission tables
	@$(PY) -c 'from quorum_node.security.rights.reference import markdown; print(markdown(), end="")' \
		>docs/.new && mv docs/.new docs/reference/api-permissions.md

.PHONY: reference-docs
reference-docs: venv ## generate docs/reference from the code: resources, HTTP API, commands, exit codes, wire dialect
	@$(PY) -m docs._site.pages

.PHONY: metrics-doc
metrics-doc: venv ## generate docs/reference/metrics.md from the declarations of the metrics
	@$(PY) -m quorum_node.server.observing.metric_specs >docs/.new && mv docs/.new docs/reference/metrics.md

.PHONY: configuration-doc
configuration-doc: venv ## generate the tables of docs/reference/configuration.md from the declarations of the keys
	@$(PY) -m quorum_node.configuration.reference docs/reference/configuration.md

.PHONY: breaks-doc
breaks-doc: venv ## generate the table of deliberate breaks in docs/evidence/breaks.md from tests/simulation
	@PYTHONPATH=tests $(PY) -m support.break_table

.PHONY: simulation-doc
simulation-doc: venv ## run the simulation and write hours and faults by kind into docs/evidence/simulation.md (SEEDS=10001..20200 MINUTES=600 JOBS=2 AFRESH=1)
	@$(PY) -m quorum_simulation --seeds $(or $(SEEDS),10001..20200) --minutes $(or $(MINUTES),600) --jobs $(or $(JOBS),$(shell nproc)) $(if $(AFRESH),--afresh) --write docs/evidence/simulation.md

.PHONY: broker-simulation-doc
broker-simulation-doc: venv ## run the simulation of brokers and write its results into docs/evidence/simulation.md (SEEDS=10001..30000 MINUTES=600 JOBS=2 AFRESH=1)
	@$(PY) -m quorum_simulation.broker --seeds $(or $(SEEDS),10001..30000) --minutes $(or $(MINUTES),600) --jobs $(or $(JOBS),$(shell nproc)) $(if $(AFRESH),--afresh) --write docs/evidence/simulation.md

.PHONY: kafka-apis
kafka-apis: venv ## generate docs/reference/kafka-apis.md: calls of stock clients on stock Kafka and on stock brokers with our controllers
	@PYTHONPATH=tests $(PY) -m support.kafka_apis

.PHONY: crds
crds: venv ## generate the custom resource definitions from the pydantic models, and their copies
	@for each in metadataquorums partitionreassignments; do \
	    $(PY) -m quorum_operator.crd_document $$each >crds/.new && mv crds/.new crds/$$each.yaml && \
	    cp crds/$$each.yaml helm/metadataquorum/files/$$each.yaml || exit 1; done
	@$(MAKE) manifests reference-docs

.PHONY: manifests
manifests: venv ## generate the plain manifests from the chart
	@PATH="$$($(CLUSTER) helm):$$PATH" manifests/render.sh

.PHONY: helm-lint
helm-lint: venv ## lint and render the chart, and check the rendered objects
	@PATH="$$($(CLUSTER) helm):$$PATH" && helm lint --strict --quiet helm/metadataquorum
	@PATH="$$($(CLUSTER) helm):$$PATH" $(PYTEST) -m "" tests/unit/packaging $(ARGS)
