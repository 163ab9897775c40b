# Entry points for developers. Continuous integration calls the same targets.
#
#   make run    start a catalog on this machine, without configuration
#   make test   all checks; installs the tools that they need
#   make help   list all targets

# Build output and downloads are outside of the checkout, so that further clones build quickly.
CACHE ?= $(HOME)/.cache/slateberg
export SLATEBERG_CACHE := $(CACHE)
export CARGO_TARGET_DIR ?= $(CACHE)/target
SLATEBERG_BIN := $(CARGO_TARGET_DIR)/debug/slateberg
export SLATEBERG_BIN
# Tests also cover features that releases omit. All targets use the same features, so that nothing
# is built twice.
TESTED := --locked --features sql-migration

.PHONY: help run release test check fmt lint doc build unit tidy api crash isolation rck rckauth iceberg-spark clients networks cluster operation stores e2e kms sinks deploy-check snippets console figures bench k6 wrk static image image-check dist kube deny book docs ours

help: ## show the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /  \1\t/' | expand -t 14

# Cargo detects changes by file times, and tests contain the path of their checkout. If another
# checkout wrote the build output, rebuild our own crates.
ours:
	@mkdir -p "$(CARGO_TARGET_DIR)"
	@test "$$(cat "$(CARGO_TARGET_DIR)/checkout" 2>&1)" = "$(CURDIR)" \
		|| { touch src/lib.rs src/main.rs crates/*/src/lib.rs benches/load/src/main.rs tests/*.rs tests/*/main.rs && echo "$(CURDIR)" > "$(CARGO_TARGET_DIR)/checkout"; }

# Without a release binary, build without optimization: it takes a third of the time.
run: ours ## start a catalog on 127.0.0.1:8181, with its data in ./slateberg-data
	@profile=quick; test ! -x "$(CARGO_TARGET_DIR)/release/slateberg" || profile=release; \
	if [ $$profile = quick ]; then echo "building without optimization, to try slateberg out (optimized: make release)"; fi; \
	cargo build --locked --profile $$profile --package slateberg && \
	exec "$(CARGO_TARGET_DIR)/$$profile/slateberg" serve

release: ours ## build the optimized binary, which `make run` then uses
	cargo build --release --locked --package slateberg

test: check unit rck clients networks kms sinks snippets ## run every check and every test

check: fmt lint doc ## format, lints and documentation, warnings denied

fmt:
	cargo fmt --check

lint: ours
	cargo clippy $(TESTED) --workspace --all-targets -- --deny warnings

# Documentation for developers: it includes private items and links to them.
doc: ours
	RUSTDOCFLAGS='--deny warnings --allow rustdoc::private-intra-doc-links' cargo doc --locked --no-deps --document-private-items --lib

# Builds with the features of `cargo test`. Without the dev-dependencies, half of all crates would
# have other features and would be built twice.
build: ours
	cargo test $(TESTED) --workspace --no-run

unit: ours ## the Rust tests: unit, tidy, API, crash, isolation, load generator
	cargo test $(TESTED) --workspace

tidy: ours ## rules of the code base: layers, imports, wording, figures
	cargo test $(TESTED) --test tidy

api: ours ## the HTTP API, bad input and the fuzz loop
	cargo test $(TESTED) --test api

crash: ours ## kill -9, failing object stores, lost responses
	cargo test $(TESTED) --test crash

isolation: ours ## concurrent histories are serializable
	cargo test $(TESTED) --test isolation

rck: build ## Iceberg's own catalog suites (needs JDK 17+ and Maven)
	scripts/with-server tests/rck/run.sh

rckauth: build ## the same with an API key, on a server with authentication
	SLATEBERG_SECURED=1 scripts/with-server tests/rck/run.sh

# The first run downloads Spark. Each run takes 6 to 9 minutes.
iceberg-spark: build ## Iceberg's own Spark suites (needs JDK 17 and Maven)
	scripts/with-server tests/iceberg-spark/run.sh

clients: build ## PyIceberg, Spark and iceberg-go (needs Python 3.11+, JDK 17+, Maven and Go)
	tests/clients/run.sh

snippets: build ## the commands in the documentation work as described (needs Python 3.11+)
	tests/snippets/run.sh

# The first run downloads and builds third-party tools, which takes some minutes.
deploy-check: build ## the Helm chart, alerts, dashboard and shell files (needs Python 3.11+, Go and apt-get)
	tests/deploy/run.sh

# The first run builds Kubernetes' API server, which takes ten to forty minutes.
kube: ## the Helm chart on a real API server of Kubernetes (needs Python 3.11+, Go and openssl)
	tests/kube/run.sh

# The first run builds the store and toxiproxy into $(CACHE)/bench.
networks: build ## races between writers, and failing networks, with versitygw and toxiproxy (needs Go)
	ONLY=s3 scripts/with-store versitygw scripts/store-suites

# The first run builds the store into $(CACHE)/bench.
cluster: build ## a cluster of three processes: the kit, PyIceberg and Spark through a standby, failures of the writer, random failures in memory; LONG=1 for 300 and 10,000 (needs JDK 17+, Maven, Python 3.11+, Go)
	SLATEBERG_CAMPAIGN_ROUNDS=$(if $(LONG),10000,500) SLATEBERG_CAMPAIGN_CLUSTERS=8 cargo test $(TESTED) --test cluster -- --nocapture cluster_survives_random_failures
	scripts/with-store versitygw scripts/with-cluster tests/rck/run.sh
	SLATEBERG__CATALOG__APPEND_REBASE=all scripts/with-store versitygw scripts/with-cluster tests/clients/run.sh
	SLATEBERG_CLUSTER_ROUNDS=$(if $(LONG),300,60) scripts/with-store versitygw cargo test $(TESTED) --test s3 -- --include-ignored --nocapture cluster_survives

# The first run builds k6 and the store into $(CACHE).
operation: $(if $(LONG),release,build) ## a cluster behind nginx: its commands, and rolling upgrades under k6 and PyIceberg; LONG=1 for 100 with 1,000,000 requests (needs Python 3.11+, Go and apt-get)
	$(if $(LONG),UPGRADE_ROUNDS=100 UPGRADE_REQUESTS=10000 SLATEBERG_BIN=$(CARGO_TARGET_DIR)/release/slateberg) \
		scripts/with-store versitygw tests/cluster_operation/run.sh

# The first run builds MinIO, which takes ten minutes. LONG=1 kills 50 times and stops the store for
# a minute.
stores: build ## the Rust suites on MinIO, versitygw and Azurite, plain and encrypted; QUICK=1 races, networks and kills alone
	$(if $(QUICK),ONLY=s3) $(if $(LONG),SLATEBERG_OUTAGE_SECONDS=60) scripts/with-store minio scripts/store-suites
	$(if $(QUICK),,scripts/with-store versitygw scripts/store-suites)
	$(if $(QUICK),,scripts/with-store azurite scripts/store-suites)
	head -c 32 /dev/urandom | base64 > "$(CACHE)/test-key"
	$(if $(QUICK),,SLATEBERG_TEST_KEY_FILE="$(CACHE)/test-key" ONLY=crash scripts/with-store minio scripts/store-suites)
	SLATEBERG_CRASH_ROUNDS=$(if $(LONG),50,10) scripts/with-store minio cargo test $(TESTED) --test crash -- --nocapture kills::

e2e: build deploy-check stores ## with real servers: Keycloak, Trino, MinIO, Jaeger, k6 (needs Python 3.11+, Java 24+, Maven, Go)
	tests/e2e/run.sh
	SLATEBERG_SECURED=1 scripts/with-server k6/run.sh smoke

kms: build ## encryption with an emulator of AWS KMS (needs Python 3.11+)
	tests/kms/run.sh

sinks: build ## `slateberg watch --to` with NATS and Kafka (needs Python 3.11+, JDK 17+ and Maven)
	tests/sinks/run.sh

# Compiler flags change the build of every crate. Therefore this target has its own directory.
console: ## build for tokio-console
	RUSTFLAGS='--cfg tokio_unstable' cargo clippy --locked --features console --bins \
		--target-dir "$(CACHE)/target-console" -- --deny warnings

figures: ours ## start-up time, memory and size of the release binary
	cargo build --release --locked --package slateberg
	scripts/figures $(CARGO_TARGET_DIR)/release/slateberg

# The first run also builds for half an hour, into $(CACHE)/bench. QUICK=1 omits the long
# measurements.
bench: ours ## compare with other catalogs: an hour, or minutes with QUICK=1, ONLY=operations,kv,...
	cargo build --release --locked --package slateberg --package slateberg-bench
	SLATEBERG_BIN=$(CARGO_TARGET_DIR)/release/slateberg python3 benches/run.py \
		$(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY)) $(if $(OUTPUT),--output $(OUTPUT))

k6: ours ## load by k6, with objectives: LOAD_SECONDS=, LOAD_CLIENTS=, SCENARIOS=, PUBLISH=1 for docs/benchmarks/k6.md
	cargo build --release --locked --package slateberg
	rm -rf "$(CACHE)/k6"
	SLATEBERG_BIN=$(CARGO_TARGET_DIR)/release/slateberg SLATEBERG_SECURED=1 scripts/with-server k6/run.sh $(SCENARIOS)
	$(if $(PUBLISH),python3 k6/report.py "$(CACHE)/k6")

wrk: ours ## maximum throughput of a server (needs wrk)
	cargo build --release --locked --package slateberg
	SLATEBERG_BIN=$(CARGO_TARGET_DIR)/release/slateberg SLATEBERG_SECURED=1 scripts/with-server k6/wrk/run.sh

# A static binary: the image contains little else, and releases are independent of the host's libc.
# Remapping removes the paths of this machine in Rust and C, so that the same toolchain builds the
# same bytes anywhere.
TARGET = $(shell rustc -vV | sed -n 's/^host: //p')
STATIC_BIN = $(CARGO_TARGET_DIR)/$(TARGET)/release/slateberg
CARGO_HOME ?= $(HOME)/.cargo
REMAP = --remap-path-prefix=$(CURDIR)=/slateberg --remap-path-prefix=$(CARGO_HOME)=/cargo \
	--remap-path-prefix=$(CARGO_TARGET_DIR)=/target
C_REMAP = -ffile-prefix-map=$(CURDIR)=/slateberg -ffile-prefix-map=$(CARGO_HOME)=/cargo \
	-ffile-prefix-map=$(CARGO_TARGET_DIR)=/target

# The commit that the binary reports. Unknown in an unpacked archive.
COMMIT = $(shell git rev-parse HEAD 2>&- || echo unknown)

# C code embeds its compilation time unless SOURCE_DATE_EPOCH is set.
static: ours ## the static binary for images and releases
	SLATEBERG_COMMIT='$(COMMIT)' SOURCE_DATE_EPOCH=0 CFLAGS='$(C_REMAP)' CXXFLAGS='$(C_REMAP)' RUSTFLAGS='-C target-feature=+crt-static $(REMAP)' \
		cargo build --release --locked --package slateberg --target $(TARGET)

image: static ## build a container image with docker, podman or buildah
	scripts/image $(STATIC_BIN) $(TAG)

# One of the tests builds the image with buildah. Without buildah, the suite would pass without that
# test.
image-check: static build ## the image is reproducible, and runs on a read-only file system with MinIO (as root)
	@command -v buildah >/dev/null || { echo 'image-check: there is no buildah' >&2; exit 1; }
	SLATEBERG_STATIC_BIN=$(STATIC_BIN) tests/deploy/run.sh test_container.py

dist: static ## a release in dist/: binary, bill of materials, chart, checksums
	scripts/dist $(STATIC_BIN) $(TARGET) dist

deny: ## licences and sources of dependencies; ADVISORIES=1 also checks for known vulnerabilities (needs a network)
	scripts/tools cargo-deny
	$(CACHE)/tools/bin/cargo-deny --locked check licenses bans sources $(if $(ADVISORIES),advisories)

book: ## build the documentation as a book, in $(CACHE)/book
	scripts/tools mdbook
	$(CACHE)/tools/bin/mdbook build docs --dest-dir "$(CACHE)/book"

docs: snippets book ## check the commands in the documentation, and build the book
