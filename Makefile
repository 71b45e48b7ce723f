# Every target does its own set-up: a clone and Python 3.11+ are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Let Python cache bytecode even if the caller's environment forbids it: tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: FORCE help demo test lint unit bench virtual model golden incidents chaos chaos-moves test-compiled bench-compiled wheels lag-truth burrow attack cache-truth lab-20 conformance-live conformance-random kafka-live spark-live spark-secure-live spark-kills spark-sink-live spark-versions setup clean bench-moves bench-throttle bench-sustained bench-lag-scrape bench-many-moves bench-crowds bench-floors bench-spark

help: ## show the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

$(VENV)/.demo: requirements/base.txt requirements/spark.txt pyproject.toml
	@echo "setting up $(VENV) (once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements/spark.txt
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e .
	@$(BIN)/python -m compileall -q src
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.demo
	@$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements/dev.txt
	@touch $@

setup: $(VENV)/.dev ## install everything that the checks need into .venv

demo: $(VENV)/.demo ## three brokers, real data, faults, a Spark job and report.html (about 3 minutes)
	@$(BIN)/python -m syncline demo --output report.html

test: lint unit ## the one check: format, lint, types, import contracts, tests (9 to 12 minutes on two cores)

lint: $(VENV)/.dev ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# One process more than there are cores: many tests wait for brokers. ARGS=--shuffle runs them in a random order.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(8, os.cpu_count() + 1))')
unit: $(VENV)/.dev ## the tests alone; ARGS are those of pytest
	@$(BIN)/python -m compileall -q src
	$(BIN)/python -m pytest -n $(WORKERS) --durations 20 $(ARGS)

bench: $(VENV)/.dev ## measure beside Apache Kafka and write the first two tables of docs/performance.md (needs Java and Maven; about 30 minutes)
	$(BIN)/python -m benchmarks.run

bench-moves: $(VENV)/.dev ## whether moves keep their deadlines and clients their bound, into docs/performance.md; fails if they do not (20 minutes)
	$(BIN)/python -m benchmarks.moves --write $(ARGS)

bench-throttle: $(VENV)/.dev ## how well throttles hold their quota, beside Apache Kafka, into docs/performance.md; fails if Syncline does not hold it (needs Java and Maven; about 25 minutes)
	$(BIN)/python -m benchmarks.throttle --write $(ARGS)

bench-sustained: $(VENV)/.dev ## 10 GB without a pause beside Apache Kafka, with two clients, with fresh and with used memory: tables, pictures (needs Java and Maven; about 20 minutes)
	@worst=0; for client in confluent-kafka batches; do for memory in fresh used; do \
	$(BIN)/python -m benchmarks.sustained --memory $$memory --client $$client --write $(ARGS) || worst=1; \
	done; done; exit $$worst

bench-lag-scrape: $(VENV)/.dev ## scrapes with 1,000 groups of 50 partitions: 1 s, loops never held for 10 ms, 200 bytes each; one lag within 5 us (3 minutes)
	$(BIN)/python -m benchmarks.byte_lag
	$(BIN)/python -m benchmarks.lag_scrape

bench-many-moves: $(VENV)/.dev ## 2,000 partitions that move at once: commands within 1 s, event loops never held for 10 ms (3 minutes)
	$(BIN)/python -m benchmarks.many_moves

bench-floors: $(VENV)/.dev ## small requests and reads beside Apache Kafka and servers that only pass bytes on, into docs/performance.md (needs Java and Maven; 15 minutes)
	$(BIN)/python -m benchmarks.floors --write $(ARGS)
	$(BIN)/python -m benchmarks.read_floor --write

bench-crowds: $(VENV)/.dev ## 10,000 partitions, 5,000 connections, 1,000 consumers: holds of event loops, memory and CPU time, into docs/performance.md (needs Java and Maven; 10 minutes)
	$(BIN)/python -m benchmarks.crowds --write $(ARGS)

bench-spark: $(VENV)/.dev ## read topics into Spark beside Spark's own connector, into docs/performance.md (needs Java and Maven; about 5 minutes)
	$(BIN)/python -m benchmarks.spark_read --write $(ARGS)

SEEDS ?= 0..499
virtual: $(VENV)/.dev ## 500 seeds of 30 simulated seconds with short faults, and 500 with lasting ones (L9, L10); SEEDS=0..1999 for more
	$(BIN)/python -m syncline.virtual run --seeds $(SEEDS) --seconds 30 --jobs 2
	$(BIN)/python -m syncline.virtual run --seeds $(SEEDS) --seconds 30 --jobs 2 --lasting

model: $(VENV)/.dev ## every order of events of replication within bounds, three replicas too (a minute)
	$(BIN)/python -m syncline check --table --large

golden: $(VENV)/.dev ## write the golden traces of tests/core/traces anew (docs/traces.md); review the difference (seconds)
	$(BIN)/python -m tests.core.traces --write

incidents: $(VENV)/.dev ## break real brokers in 14 ways, 10 times each, and count how often `syncline why` names the cause (30 minutes)
	$(BIN)/python -m tests.incidents

cache-truth: $(VENV)/.dev ## a broker with too little memory: predicted and measured hits of its page cache, five sizes (2 minutes)
	$(BIN)/python -m tests.cache_truth $(ARGS)

chaos: $(VENV)/.dev ## SIGKILL random brokers under acks=all load; everything acknowledged must be there (2 minutes)
	$(BIN)/python -m tests.process.chaos

chaos-moves: $(VENV)/.dev ## 30 moves under load; SIGKILL for commands, controller, source and destination (3 minutes)
	$(BIN)/python -m tests.process.moves_chaos

lag-truth: $(VENV)/.dev ## four client libraries and killed leaders; every lag that brokers told, against brute force (10 minutes)
	@$(BIN)/python -m tests.lag_truth $(ARGS)

burrow: $(VENV)/.dev ## groups that stall, stop and rewind, judged by a real Burrow and by the brokers (SYNCLINE_BURROW names it; 5 minutes)
	@$(BIN)/python -m tests.burrow $(ARGS)

attack: $(VENV)/.dev ## attack three brokers in every way of tests/attack/catalogue.py; limits for a client's acknowledgements, event loops and memory (8 minutes)
	@$(BIN)/python -m tests.attack $(ARGS)

lab-20: $(VENV)/.dev ## every lab scenario in every mode, 20 times, on real brokers; each run must end as its mode must (about 20 minutes)
	$(BIN)/python -m tests.lab.often --times 20

conformance-live: $(VENV)/.dev ## ask Apache Kafka again and show which of its recorded answers changed (needs Java and Maven); ARGS=--write records them anew
	$(BIN)/python -m tests.conformance.live $(ARGS)

conformance-random: $(VENV)/.dev ## sequences drawn from seeds, played on Apache Kafka and on Syncline side by side, 100 seeds of each kind (needs Java and Maven; 45 minutes); ARGS="--seeds 7 --only groups" for one
	$(BIN)/python -m tests.conformance.random_sequences $(ARGS)

kafka-live: $(VENV)/.dev ## `syncline reassign` and Kafka's own tool side by side on Apache Kafka (needs Java and Maven; 2 minutes)
	$(BIN)/python -m pytest -p no:cacheprovider tests/interop/live_kafka.py

spark-live: $(VENV)/.dev ## the Spark source's option table on Syncline, Apache Kafka and beside Spark's own connector (needs Java and Maven; 8 minutes)
	$(BIN)/python -m pytest -p no:cacheprovider tests/pipeline/live_spark.py $(ARGS)

spark-versions: $(VENV)/.dev ## the pipeline's tests on those of Python 3.11 to 3.13 that are installed, with PySpark 4.2 and 4.3, each in an environment of its own (15 minutes)
	@$(BIN)/python -m tests.pipeline.versions $(ARGS)

spark-secure-live: $(VENV)/.dev ## Spark reads a secured Apache Kafka: each protocol, mechanism and mistake (needs Java and Maven; 3 minutes)
	$(BIN)/python -m pytest -p no:cacheprovider -rP tests/pipeline/live_secured.py

spark-kills: $(VENV)/.dev ## SIGKILL driver, workers and brokers at 20 points of a stream with sink, half of them between write and commit; each input once (5 minutes); ARGS=--kafka for Apache Kafka
	@$(BIN)/python -m tests.pipeline.kills $(ARGS)

spark-sink-live: $(VENV)/.dev ## the sink's tests against Apache Kafka, with transactions (needs Java and Maven; a minute)
	@$(BIN)/python -m tests.pipeline.sink.live $(ARGS)

# The names of all modules: newer if one is gone, too.
.work/modules: FORCE
	@mkdir -p .work && find src -name '*.py' | sort > $@.now && (cmp -s $@.now $@ || cp $@.now $@); rm $@.now

FORCE:

# Sources and compiled modules as they are installed; PYTHONPATH puts them before those of the working tree.
.work/compiled/.built: setup.py pyproject.toml $(shell find src -name '*.py' 2>/dev/null) .work/modules $(VENV)/.dev
	@echo "compiling (some 5 minutes)"
	@rm -rf .work/compiled build
	@SYNCLINE_COMPILE=1 $(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --target .work/compiled .
	@touch $@

test-compiled: .work/compiled/.built ## the tests of what is compiled, against the compiled build, and 50 seeds like the interpreted ones (needs a C compiler; 10 minutes)
	PYTHONPATH=$(CURDIR)/.work/compiled $(BIN)/python -m tests.compiled $(ARGS)

bench-compiled: .work/compiled/.built ## CPU time per request of the compiled build, and the rest, beside the interpreted one and Apache Kafka, into docs/compiled-build.md (needs Java and Maven; 15 minutes)
	$(BIN)/python -m benchmarks.request_cpu HEAD --to .work/compiled
	$(BIN)/python -m benchmarks.compare HEAD --to .work/compiled
	$(BIN)/python -m benchmarks.compiled_build .work/compiled --write $(ARGS)

wheels: $(VENV)/.dev ## a compiled wheel for this Python and platform into dist/ (needs a C compiler; 5 minutes)
	SYNCLINE_COMPILE=1 $(BIN)/python -m pip wheel -q --disable-pip-version-check --no-deps -w dist .
	@ls dist

clean: ## remove what was built
	rm -rf $(VENV) build dist .work/compiled .work/modules .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
