# The few commands to know. What each does is written in Rust (xtask/); here is only what must work before Rust.
#
#   make serve     build the server and run it
#   make test      everything that continuous integration checks
#   make sanitize  the tests of the crates with unsafe under the address and thread sanitizers
#   make bench     compare servers under the project's loads

CARGO ?= cargo

.PHONY: serve test sanitize bench prerequisites

serve:
	$(CARGO) run --release --package guira-cli -- serve

test: prerequisites
	$(CARGO) xtask ci

sanitize:
	$(CARGO) xtask sanitize

bench:
	$(CARGO) run --release --package guira-cli -- bench

# Installs what the tests use besides Rust when it can, otherwise says what is missing: steps without it are
# skipped, each with one line.
prerequisites:
	@missing=""; \
	command -v memcached >/dev/null || missing="$$missing memcached"; \
	python3 -c 'import venv, ensurepip' 2>/dev/null || missing="$$missing python3-venv"; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing \
		|| echo "could not install:$$missing (steps that use it are skipped)"; \
	else \
		echo "not installed:$$missing (steps that use it are skipped)"; \
	fi
